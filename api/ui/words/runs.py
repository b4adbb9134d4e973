"""Words of cost runs and postings, as accountants in Viet Nam use them."""

WORDS = {
    "runs.title": ("Cost and posting runs", "Tính giá vốn và ghi sổ"),
    "runs.company": ("Company", "Công ty"),
    "runs.period": ("Period", "Kỳ"),
    "runs.all_periods": ("all periods", "mọi kỳ"),
    "runs.status": ("Status", "Trạng thái"),
    "runs.all_statuses": ("every status", "mọi trạng thái"),
    "runs.show": ("Show", "Xem"),
    "runs.no_company": (
        "There is no company whose books you may see.",
        "Không có công ty nào mà bạn được xem sổ.",
    ),
    "runs.next": ("Older", "Cũ hơn"),
    "runs.next_rows": ("Next page", "Trang sau"),
    "runs.first": ("From the beginning", "Về đầu"),
    # Periods.
    "runs.periods": ("Periods", "Các kỳ kế toán"),
    "runs.period.open": ("open", "đang mở"),
    "runs.period.closing": ("closing", "đang khóa"),
    "runs.period.closed": ("closed", "đã khóa"),
    "runs.items": ("Items", "Mặt hàng"),
    "runs.failed": ("Not costed", "Không tính được"),
    "runs.stale": ("Stale", "Lỗi thời"),
    "runs.late": ("Late movements", "Phát sinh muộn"),
    "runs.speaking": ("Runs that hold", "Lượt đang có hiệu lực"),
    "runs.periods.none": ("This company has no period yet.", "Công ty chưa có kỳ nào."),
    "runs.stale_told": (
        (
            "{period}: {n} items are stale. An earlier period was costed anew since, so their openings "
            "are no longer true. Cost what has changed (items @dirty) and post the costs again."
        ),
        (
            "{period}: {n} mặt hàng lỗi thời. Một kỳ trước đã được tính lại nên tồn đầu kỳ không còn "
            "đúng. Hãy tính lại phần thay đổi (items @dirty) rồi ghi sổ giá vốn lại."
        ),
    ),
    "runs.late_told": (
        "{period}: {n} items have movements that no result has read yet.",
        "{period}: {n} mặt hàng có phát sinh mà chưa kết quả nào tính đến.",
    ),
    # Cost runs.
    "runs.cost_runs": ("Cost runs", "Các lượt tính giá vốn"),
    "runs.cost_run": ("Cost run {id}", "Lượt tính giá vốn {id}"),
    "runs.preview_of": ("Preview {id}", "Lượt tính thử {id}"),
    "runs.run": ("Run", "Lượt"),
    "runs.of": ("Of", "Phạm vi"),
    "runs.whole": ("the whole company", "toàn công ty"),
    "runs.your_part": (
        "You see the part of your brands: {brands}.",
        "Bạn thấy phần của thương hiệu: {brands}.",
    ),
    "runs.made": ("Made", "Lập lúc"),
    "runs.activated": ("Holds since", "Hiệu lực từ"),
    "runs.movements": ("Movements", "Số phát sinh"),
    "runs.none": (
        "There is no such cost run. Submit one: chot submit costing.run",
        "Không có lượt tính giá vốn nào như vậy. Hãy gửi: chot submit costing.run",
    ),
    "runs.state.building": ("being computed", "đang tính"),
    "runs.state.active": ("holds", "đang hiệu lực"),
    "runs.state.superseded": ("replaced", "đã bị thay thế"),
    "runs.state.previewed": ("preview", "tính thử"),
    "runs.state.failed": ("failed", "không thành"),
    "runs.building_told": (
        "This run is still being computed; its job shows how far it has got.",
        "Lượt này đang được tính; trang công việc cho biết đã đến đâu.",
    ),
    "runs.gone_told": (
        "Later runs have taken over all of its items; its rows are removed, its totals stay.",
        "Các lượt sau đã thay hết mặt hàng của lượt này; chi tiết đã xóa, số tổng vẫn giữ.",
    ),
    "runs.previewed_told": (
        "A preview: nothing was published. What it would change and what is wrong stays.",
        "Đây là tính thử: không công bố gì. Chỉ giữ phần sẽ thay đổi và các lỗi.",
    ),
    "runs.failed_told": (
        "This run was not finished; nothing of it holds.",
        "Lượt này không hoàn thành; không có gì của nó có hiệu lực.",
    ),
    "runs.stale_run": (
        (
            "{n} of its items are stale: an earlier period was costed anew since, so their openings are "
            "no longer true. Cost this period again (items @dirty)."
        ),
        (
            "{n} mặt hàng đã lỗi thời: một kỳ trước đã được tính lại nên tồn đầu kỳ không còn đúng. "
            "Hãy tính lại kỳ này (items @dirty)."
        ),
    ),
    "runs.part_speaks": (
        "It holds for {n} of {of} items; later runs have the others.",
        "Lượt này còn hiệu lực với {n} / {of} mặt hàng; phần còn lại thuộc các lượt sau.",
    ),
    "runs.job": ("Its job", "Công việc"),
    "runs.days": ("Days", "Từ ngày – đến ngày"),
    "runs.method": ("Method", "Phương pháp tính giá"),
    "runs.method.policy": ("decided for each item", "theo quyết định cho từng mặt hàng"),
    "runs.method.periodic_avg": ("periodic weighted average", "bình quân gia quyền cuối kỳ"),
    "runs.method.moving_avg": ("moving average", "bình quân gia quyền sau mỗi lần nhập"),
    "runs.method.fifo": ("first in, first out", "nhập trước xuất trước"),
    "runs.method.specific": ("by lot", "đích danh"),
    "runs.previous_period": ("Opened with", "Tồn đầu lấy từ kỳ"),
    "runs.currency": ("Currency", "Đơn vị tiền"),
    # Totals.
    "runs.totals": ("Totals", "Tổng hợp nhập – xuất – tồn"),
    "runs.totals_hint": (
        "Opening + in = out + closing. Amounts in {currency}.",
        "Tồn đầu kỳ + nhập = xuất + tồn cuối kỳ. Đơn vị: {currency}.",
    ),
    "runs.total": ("Flow", "Chỉ tiêu"),
    "runs.now": ("This run", "Lượt này"),
    "runs.before": ("Run {id}", "Lượt {id}"),
    "runs.difference": ("Difference", "Chênh lệch"),
    "runs.flow.opening": ("Opening", "Tồn đầu kỳ"),
    "runs.flow.receipt": ("In: bought, made", "Nhập: mua, sản xuất"),
    "runs.flow.gain": ("In: found", "Nhập: thừa, điều chỉnh tăng"),
    "runs.flow.sales_return": ("In: returned by customers", "Nhập: hàng bán trả lại"),
    "runs.flow.transfer_in": ("In: transfers", "Nhập: điều chuyển đến"),
    "runs.flow.issue": ("Out: cost of goods sold", "Xuất bán: giá vốn hàng bán"),
    "runs.flow.usage": ("Out: used, missing", "Xuất: dùng, sản xuất, thiếu"),
    "runs.flow.purchase_return": ("Out: returned to suppliers", "Xuất: trả nhà cung cấp"),
    "runs.flow.transfer_out": ("Out: transfers", "Xuất: điều chuyển đi"),
    "runs.flow.rounding": ("Rounding", "Chênh lệch làm tròn"),
    "runs.flow.true_up": ("True-up of negative stock", "Chênh lệch do xuất âm kho"),
    "runs.flow.closing": ("Closing", "Tồn cuối kỳ"),
    "runs.flow.variance": ("Beside the stock (632)", "Chênh lệch ngoài tồn kho (632)"),
    "runs.no_totals": ("There are no totals yet.", "Chưa có số tổng."),
    "runs.no_previous": (
        "This is the first published run of this period: there is nothing to compare it with.",
        "Đây là lượt công bố đầu tiên của kỳ này: chưa có gì để so sánh.",
    ),
    "runs.unlike": (
        "The previous run, {id}, was of other items: totals cannot be compared, items can.",
        "Lượt trước, {id}, tính các mặt hàng khác: không so được số tổng, chỉ so từng mặt hàng.",
    ),
    "runs.previous_gone": (
        (
            "The rows of run {id} are removed: what its single items came to is no longer known, its "
            "totals are. A preview shows differences by item and account before anything is published."
        ),
        (
            "Chi tiết của lượt {id} đã xóa: không còn biết từng mặt hàng, chỉ còn số tổng. Tính thử "
            "(preview) cho thấy chênh lệch theo mặt hàng và tài khoản trước khi công bố."
        ),
    ),
    # The proof.
    "runs.proof": ("Proof", "Chứng minh số liệu"),
    "runs.check": ("Check", "Kiểm tra"),
    "runs.means": ("What it means", "Ý nghĩa"),
    "runs.looked_at": ("{n} pools looked at", "đã xét {n} kho tính giá"),
    "runs.holds": ("holds", "đúng"),
    "runs.broken": ("{n} broken", "{n} sai"),
    "runs.check.I1": (
        "In value: opening + in = out + closing, in every pool.",
        "Giá trị: tồn đầu + nhập = xuất + tồn cuối, ở mọi kho tính giá.",
    ),
    "runs.check.I2": (
        "In quantity: opening + in = out + closing, in every pool.",
        "Số lượng: tồn đầu + nhập = xuất + tồn cuối, ở mọi kho tính giá.",
    ),
    "runs.check.I3": (
        "What pools sent is what pools got, of every item.",
        "Điều chuyển đi bằng điều chuyển đến, của từng mặt hàng.",
    ),
    "runs.check.I4": (
        "Where no quantity is left, no value is.",
        "Hết số lượng thì hết giá trị.",
    ),
    "runs.check.totals": (
        "The totals kept at activation are those of the rows today.",
        "Số tổng lưu lúc có hiệu lực bằng tổng chi tiết hôm nay.",
    ),
    "runs.check_totals": ("totals", "số tổng"),
    "runs.no_checks": (
        "The checks add up the run's rows, which are not there.",
        "Phần kiểm tra cộng lại từ chi tiết, mà chi tiết không còn.",
    ),
    "runs.checksum": ("Checksum", "Mã kiểm (checksum)"),
    "runs.checksum_means": (
        "SHA-256 of all results: two runs over the same input have the same one.",
        "SHA-256 của toàn bộ kết quả: hai lượt cùng đầu vào thì cùng mã.",
    ),
    "runs.snapshot": ("Snapshot", "Ảnh chụp dữ liệu"),
    "runs.snapshot_means": (
        "Which movements the run has seen.",
        "Những phát sinh mà lượt này đã thấy.",
    ),
    "runs.code_version": ("Code version", "Phiên bản mã"),
    "runs.code_means": ("Which program computed it.", "Chương trình nào đã tính."),
    "runs.counts": ("Items", "Số mặt hàng"),
    "runs.counts_said": (
        "{costed} costed, {failed} not, of {total}",
        "{costed} tính được, {failed} không, trên {total}",
    ),
    "runs.rounds": ("Rounds", "Số vòng"),
    "runs.rounds_means": (
        "How often it followed movements that came while it computed.",
        "Số lần tính theo các phát sinh đến trong lúc đang tính.",
    ),
    # Results.
    "runs.results": ("Results by item and pool", "Kết quả theo mặt hàng và kho tính giá"),
    "runs.item": ("Item", "Mặt hàng"),
    "runs.pool": ("Pool", "Kho tính giá"),
    "runs.store": ("Store", "Cửa hàng"),
    "runs.shared_pool": ("shared", "chung"),
    "runs.qty": ("quantity", "số lượng"),
    "runs.value": ("value", "giá trị"),
    "runs.opening": ("Opening", "Tồn đầu kỳ"),
    "runs.in": ("In", "Nhập"),
    "runs.out": ("Out", "Xuất"),
    "runs.closing": ("Closing", "Tồn cuối kỳ"),
    "runs.unit_price": ("Unit cost", "Đơn giá vốn"),
    "runs.out_change": ("Change of out", "Xuất thay đổi"),
    "runs.closing_change": ("Change of closing", "Tồn cuối thay đổi"),
    "runs.replaced": ("replaced since", "đã bị thay"),
    "runs.is_stale": ("stale", "lỗi thời"),
    "runs.dipped": ("was negative", "có lúc âm"),
    "runs.no_results": ("No result fits.", "Không có kết quả nào phù hợp."),
    "runs.filter": ("Filter", "Lọc"),
    # Errors.
    "runs.errors": ("What could not be costed", "Những gì không tính được"),
    "runs.no_errors": ("Every item could be costed.", "Mọi mặt hàng đều tính được."),
    "runs.code": ("Error", "Lỗi"),
    "runs.detail": ("Why", "Lý do"),
    "runs.named": ("Movements", "Phát sinh liên quan"),
    "runs.error.NEGATIVE_STOCK": ("more goes out than there was", "xuất quá số tồn"),
    "runs.error.MISSING_COST": ("goods came in without a cost", "nhập kho không có giá"),
    "runs.error.ORPHAN_VALUE": ("value without quantity", "có giá trị mà không có số lượng"),
    "runs.error.RETURN_WITHOUT_REF": (
        "a return names nothing that it belongs to",
        "hàng trả lại không nêu chứng từ gốc",
    ),
    "runs.error.RETURN_EXCEEDS_ISSUE": (
        "more comes back than was sold",
        "trả lại nhiều hơn số đã bán",
    ),
    "runs.error.RETURN_EXCEEDS_RECEIPT": (
        "more goes back than was received",
        "trả nhà cung cấp nhiều hơn số đã nhập",
    ),
    "runs.error.RETURN_EXCEEDS_VALUE": (
        "reductions take more than the goods are worth",
        "giảm trừ vượt giá trị hàng",
    ),
    "runs.error.REVERSAL_MISMATCH": (
        "a reversal is not the mirror of its row",
        "dòng đảo không khớp dòng gốc",
    ),
    "runs.error.CYCLE_WITHOUT_SOURCE": (
        "goods go round and came from nowhere",
        "hàng đi vòng mà không có nguồn",
    ),
    "runs.error.LOT_REQUIRED": (
        "costed by lot, and rows name none",
        "tính đích danh nhưng không nêu lô",
    ),
    "runs.error.SOURCE_NOT_COSTED": (
        "what it is made of could not be costed",
        "nguyên liệu chưa tính được giá",
    ),
    "runs.error.OPENING_NOT_COSTED": (
        "the period before could not be costed",
        "kỳ trước chưa tính được giá",
    ),
    "runs.error.OUT_OF_SCOPE": (
        "goods cross to a brand that this run does not cost",
        "hàng qua thương hiệu ngoài phạm vi lượt này",
    ),
    "runs.error.METHOD_MISMATCH": (
        "goods made of each other have different methods",
        "các mặt hàng liên quan khác phương pháp tính giá",
    ),
    "runs.error.OVERFLOW": ("a number is too large", "số quá lớn"),
    # Differences of a preview.
    "runs.differences": ("What publishing would change", "Công bố thì sẽ thay đổi gì"),
    "runs.by_account": ("By account", "Theo tài khoản"),
    "runs.by_item": ("By item and account", "Theo mặt hàng và tài khoản"),
    "runs.account": ("Account", "Tài khoản"),
    "runs.brand": ("Brand", "Thương hiệu"),
    "runs.was": ("Before", "Trước"),
    "runs.would_be": ("After", "Sau"),
    "runs.no_differences": (
        "Publishing would change nothing.",
        "Công bố thì không có gì thay đổi.",
    ),
    # Files.
    "runs.files": ("Download", "Tải về"),
    "runs.table": ("Table", "Bảng"),
    "runs.table.results": ("items and pools", "mặt hàng và kho tính giá"),
    "runs.table.stores": ("items and stores", "mặt hàng và cửa hàng"),
    "runs.table.movements": ("movements with their cost", "từng phát sinh kèm giá vốn"),
    "runs.table.errors": ("errors", "lỗi"),
    "runs.table.differences": ("differences", "chênh lệch"),
    "runs.format": ("File", "Loại tệp"),
    "runs.make_file": ("Make the file", "Lập tệp"),
    "runs.files_hint": (
        "A job writes the file; you see how far it has got, then you get it. Files are kept 7 days.",
        "Một công việc sẽ lập tệp; bạn xem tiến độ rồi tải về. Tệp được giữ 7 ngày.",
    ),
}

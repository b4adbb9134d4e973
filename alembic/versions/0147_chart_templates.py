"""Charts of accounts to start from: Circular 200/2014 (TT200) and Circular 99/2025 (TT99), as data.

A company adopts one and goes on from there: both circulars let it rename, and the second one let
it change codes and structure. What is adopted is a copy; the templates are read by nothing else.
`is_stock` have the accounts of goods that lie in a store: what is on its way (151), in work (154)
or out at a dealer's (157) is in no pool.
"""

from alembic import op

revision = "0147_chart_templates"
down_revision = "0146_ledger_nets"
branch_labels = None
depends_on = None

# Templates the account is in (2: TT200, 9: TT99, *: both), code, Vietnamese name, English name.
ACCOUNTS = """
* 111|Tiền mặt|Cash on hand
* 1111|Tiền Việt Nam|Vietnamese dong
* 1112|Ngoại tệ|Foreign currency
* 1113|Vàng tiền tệ|Monetary gold
2 112|Tiền gửi ngân hàng|Cash in banks
9 112|Tiền gửi không kỳ hạn|Demand deposits
* 1121|Tiền Việt Nam|Vietnamese dong
* 1122|Ngoại tệ|Foreign currency
2 1123|Vàng tiền tệ|Monetary gold
* 113|Tiền đang chuyển|Cash in transit
* 1131|Tiền Việt Nam|Vietnamese dong
* 1132|Ngoại tệ|Foreign currency
* 121|Chứng khoán kinh doanh|Trading securities
* 1211|Cổ phiếu|Shares
* 1212|Trái phiếu|Bonds
* 1218|Chứng khoán và công cụ tài chính khác|Other securities and instruments
* 128|Đầu tư nắm giữ đến ngày đáo hạn|Investments held to maturity
* 1281|Tiền gửi có kỳ hạn|Term deposits
* 1282|Trái phiếu|Bonds
* 1283|Cho vay|Loans given
* 1288|Các khoản đầu tư khác nắm giữ đến ngày đáo hạn|Other investments held to maturity
* 131|Phải thu của khách hàng|Receivables from customers
* 133|Thuế giá trị gia tăng được khấu trừ|Deductible value added tax
* 1331|Thuế GTGT được khấu trừ của hàng hóa, dịch vụ|Deductible VAT on goods and services
* 1332|Thuế GTGT được khấu trừ của tài sản cố định|Deductible VAT on fixed assets
* 136|Phải thu nội bộ|Internal receivables
* 1361|Vốn kinh doanh ở các đơn vị trực thuộc|Capital of dependent units
* 1362|Phải thu nội bộ về chênh lệch tỷ giá|Internal receivables, exchange differences
* 1363|Phải thu nội bộ về chi phí đi vay được vốn hóa|Internal receivables, borrowing costs
* 1368|Phải thu nội bộ khác|Other internal receivables
* 138|Phải thu khác|Other receivables
* 1381|Tài sản thiếu chờ xử lý|Shortages awaiting resolution
9 1383|Thuế tiêu thụ đặc biệt của hàng nhập khẩu|Special consumption tax on imports
2 1385|Phải thu về cổ phần hóa|Receivables from equitization
* 1388|Phải thu khác|Other receivables
* 141|Tạm ứng|Advances to employees
* 151|Hàng mua đang đi đường|Goods in transit
* 152|Nguyên liệu, vật liệu|Raw materials
2 153|Công cụ, dụng cụ|Tools and supplies
2 1531|Công cụ, dụng cụ|Tools
2 1532|Bao bì luân chuyển|Returnable packaging
2 1533|Đồ dùng cho thuê|Instruments for rent
2 1534|Thiết bị, phụ tùng thay thế|Equipment and spare parts
9 153|Công cụ, dụng cụ|Tools and supplies
* 154|Chi phí sản xuất, kinh doanh dở dang|Work in progress
2 155|Thành phẩm|Finished goods
2 1551|Thành phẩm nhập kho|Finished goods in store
2 1557|Thành phẩm bất động sản|Finished real estate
9 155|Sản phẩm|Products
* 156|Hàng hóa|Merchandise
* 1561|Giá mua hàng hóa|Merchandise at purchase price
* 1562|Chi phí thu mua hàng hóa|Purchase costs of merchandise
* 1567|Hàng hóa bất động sản|Real estate for sale
* 157|Hàng gửi đi bán|Goods sent on consignment
2 158|Hàng hóa kho bảo thuế|Goods in bonded warehouses
9 158|Nguyên liệu, vật tư tại kho bảo thuế|Materials in bonded warehouses
2 161|Chi sự nghiệp|Non-business expenditure
2 1611|Chi sự nghiệp năm trước|Non-business expenditure, last year
2 1612|Chi sự nghiệp năm nay|Non-business expenditure, this year
* 171|Giao dịch mua, bán lại trái phiếu Chính phủ|Repurchase of government bonds
* 211|Tài sản cố định hữu hình|Tangible fixed assets
* 2111|Nhà cửa, vật kiến trúc|Buildings and structures
* 2112|Máy móc, thiết bị|Machinery and equipment
* 2113|Phương tiện vận tải, truyền dẫn|Means of transport and transmission
* 2114|Thiết bị, dụng cụ quản lý|Office equipment
2 2115|Cây lâu năm, súc vật làm việc và cho sản phẩm|Perennial plants, working animals
* 2118|Tài sản cố định khác|Other fixed assets
* 212|Tài sản cố định thuê tài chính|Finance lease assets
* 2121|Tài sản cố định hữu hình thuê tài chính|Tangible finance lease assets
* 2122|Tài sản cố định vô hình thuê tài chính|Intangible finance lease assets
* 213|Tài sản cố định vô hình|Intangible fixed assets
* 2131|Quyền sử dụng đất|Land use rights
* 2132|Quyền phát hành|Publishing rights
* 2133|Bản quyền, bằng sáng chế|Copyrights and patents
* 2134|Nhãn hiệu, tên thương mại|Trademarks
* 2135|Chương trình phần mềm|Software
* 2136|Giấy phép và giấy phép nhượng quyền|Licences and franchises
* 2138|Tài sản cố định vô hình khác|Other intangible assets
* 214|Hao mòn tài sản cố định|Accumulated depreciation
* 2141|Hao mòn tài sản cố định hữu hình|Depreciation of tangible assets
* 2142|Hao mòn tài sản cố định thuê tài chính|Depreciation of lease assets
* 2143|Hao mòn tài sản cố định vô hình|Amortization of intangible assets
* 2147|Hao mòn bất động sản đầu tư|Depreciation of investment property
9 215|Tài sản sinh học|Biological assets
* 217|Bất động sản đầu tư|Investment property
* 221|Đầu tư vào công ty con|Investments in subsidiaries
* 222|Đầu tư vào công ty liên doanh, liên kết|Investments in joint ventures, associates
* 228|Đầu tư khác|Other investments
* 2281|Đầu tư góp vốn vào đơn vị khác|Equity investments in other entities
* 2288|Đầu tư khác|Other investments
* 229|Dự phòng tổn thất tài sản|Allowances for loss of assets
* 2291|Dự phòng giảm giá chứng khoán kinh doanh|Allowance, trading securities
* 2292|Dự phòng tổn thất đầu tư vào đơn vị khác|Allowance, investments in other entities
* 2293|Dự phòng phải thu khó đòi|Allowance, doubtful debts
* 2294|Dự phòng giảm giá hàng tồn kho|Allowance, inventories
9 2295|Dự phòng tổn thất tài sản sinh học|Allowance, biological assets
* 241|Xây dựng cơ bản dở dang|Construction in progress
* 2411|Mua sắm tài sản cố định|Acquisition of fixed assets
* 2412|Xây dựng cơ bản|Construction
* 2413|Sửa chữa lớn tài sản cố định|Major repairs of fixed assets
9 2414|Nâng cấp, cải tạo tài sản cố định|Upgrades of fixed assets
2 242|Chi phí trả trước|Prepaid expenses
9 242|Chi phí chờ phân bổ|Expenses to be allocated
* 243|Tài sản thuế thu nhập hoãn lại|Deferred tax assets
2 244|Cầm cố, thế chấp, ký quỹ, ký cược|Pledges, mortgages and deposits
9 244|Ký quỹ, ký cược|Deposits given
* 331|Phải trả cho người bán|Payables to suppliers
9 332|Phải trả cổ tức, lợi nhuận|Dividends and profits payable
* 333|Thuế và các khoản phải nộp Nhà nước|Taxes and duties
* 3331|Thuế giá trị gia tăng phải nộp|Value added tax payable
* 33311|Thuế GTGT đầu ra|Output VAT
* 33312|Thuế GTGT hàng nhập khẩu|VAT on imports
* 3332|Thuế tiêu thụ đặc biệt|Special consumption tax
* 3333|Thuế xuất, nhập khẩu|Export and import duties
* 3334|Thuế thu nhập doanh nghiệp|Corporate income tax
* 3335|Thuế thu nhập cá nhân|Personal income tax
* 3336|Thuế tài nguyên|Natural resources tax
* 3337|Thuế nhà đất, tiền thuê đất|Land tax and land rental
* 3338|Thuế bảo vệ môi trường và các loại thuế khác|Environmental and other taxes
* 33381|Thuế bảo vệ môi trường|Environmental protection tax
* 33382|Các loại thuế khác|Other taxes
* 3339|Phí, lệ phí và các khoản phải nộp khác|Fees, charges and other payables
* 334|Phải trả người lao động|Payables to employees
2 3341|Phải trả công nhân viên|Payables to staff
2 3348|Phải trả người lao động khác|Payables to other workers
* 335|Chi phí phải trả|Accrued expenses
* 336|Phải trả nội bộ|Internal payables
* 3361|Phải trả nội bộ về vốn kinh doanh|Internal payables, capital
* 3362|Phải trả nội bộ về chênh lệch tỷ giá|Internal payables, exchange differences
* 3363|Phải trả nội bộ về chi phí đi vay được vốn hóa|Internal payables, borrowing costs
* 3368|Phải trả nội bộ khác|Other internal payables
* 337|Thanh toán theo tiến độ hợp đồng xây dựng|Progress billings of construction
* 338|Phải trả, phải nộp khác|Other payables
* 3381|Tài sản thừa chờ giải quyết|Surplus awaiting resolution
* 3382|Kinh phí công đoàn|Trade union fees
* 3383|Bảo hiểm xã hội|Social insurance
* 3384|Bảo hiểm y tế|Health insurance
2 3385|Phải trả về cổ phần hóa|Payables from equitization
* 3386|Bảo hiểm thất nghiệp|Unemployment insurance
* 3387|Doanh thu chưa thực hiện|Unearned revenue
* 3388|Phải trả, phải nộp khác|Other payables
* 341|Vay và nợ thuê tài chính|Borrowings and finance leases
* 3411|Các khoản đi vay|Borrowings
* 3412|Nợ thuê tài chính|Finance lease liabilities
* 343|Trái phiếu phát hành|Bonds issued
* 3431|Trái phiếu thường|Ordinary bonds
* 34311|Mệnh giá trái phiếu|Face value of bonds
* 34312|Chiết khấu trái phiếu|Discount on bonds
* 34313|Phụ trội trái phiếu|Premium on bonds
* 3432|Trái phiếu chuyển đổi|Convertible bonds
* 344|Nhận ký quỹ, ký cược|Deposits received
* 347|Thuế thu nhập hoãn lại phải trả|Deferred tax liabilities
* 352|Dự phòng phải trả|Provisions
* 3521|Dự phòng bảo hành sản phẩm, hàng hóa|Provision, warranties of goods
* 3522|Dự phòng bảo hành công trình xây dựng|Provision, warranties of construction
* 3523|Dự phòng tái cơ cấu doanh nghiệp|Provision, restructuring
* 3524|Dự phòng phải trả khác|Other provisions
* 353|Quỹ khen thưởng, phúc lợi|Bonus and welfare fund
* 3531|Quỹ khen thưởng|Bonus fund
* 3532|Quỹ phúc lợi|Welfare fund
* 3533|Quỹ phúc lợi đã hình thành tài sản cố định|Welfare fund in fixed assets
* 3534|Quỹ thưởng ban quản lý điều hành công ty|Management bonus fund
* 356|Quỹ phát triển khoa học và công nghệ|Science and technology fund
* 3561|Quỹ phát triển khoa học và công nghệ|Science and technology fund
* 3562|Quỹ đã hình thành tài sản cố định|Science and technology fund in fixed assets
* 357|Quỹ bình ổn giá|Price stabilization fund
* 411|Vốn đầu tư của chủ sở hữu|Owners' capital
* 4111|Vốn góp của chủ sở hữu|Contributed capital
* 41111|Cổ phiếu phổ thông có quyền biểu quyết|Ordinary shares with voting rights
* 41112|Cổ phiếu ưu đãi|Preference shares
* 4112|Thặng dư vốn|Share premium
* 4113|Quyền chọn chuyển đổi trái phiếu|Conversion options on bonds
* 4118|Vốn khác|Other capital
* 412|Chênh lệch đánh giá lại tài sản|Revaluation differences
* 413|Chênh lệch tỷ giá hối đoái|Exchange differences
* 4131|Chênh lệch tỷ giá do đánh giá lại khoản mục tiền tệ|Exchange differences, revaluation
* 4132|Chênh lệch tỷ giá trong giai đoạn trước hoạt động|Exchange differences, pre-operating
* 414|Quỹ đầu tư phát triển|Development investment fund
2 417|Quỹ hỗ trợ sắp xếp doanh nghiệp|Enterprise restructuring fund
* 418|Các quỹ khác thuộc vốn chủ sở hữu|Other funds of owners' equity
2 419|Cổ phiếu quỹ|Treasury shares
9 419|Cổ phiếu mua lại của chính mình|Own shares bought back
* 421|Lợi nhuận sau thuế chưa phân phối|Undistributed profit after tax
* 4211|Lợi nhuận chưa phân phối năm trước|Undistributed profit, previous years
* 4212|Lợi nhuận chưa phân phối năm nay|Undistributed profit, this year
2 441|Nguồn vốn đầu tư xây dựng cơ bản|Construction investment fund
2 461|Nguồn kinh phí sự nghiệp|Non-business funds
2 4611|Nguồn kinh phí sự nghiệp năm trước|Non-business funds, last year
2 4612|Nguồn kinh phí sự nghiệp năm nay|Non-business funds, this year
2 466|Nguồn kinh phí đã hình thành tài sản cố định|Non-business funds in fixed assets
* 511|Doanh thu bán hàng và cung cấp dịch vụ|Revenue
* 5111|Doanh thu bán hàng hóa|Revenue from merchandise
* 5112|Doanh thu bán thành phẩm|Revenue from finished goods
* 5113|Doanh thu cung cấp dịch vụ|Revenue from services
2 5114|Doanh thu trợ cấp, trợ giá|Revenue from subsidies
* 5117|Doanh thu kinh doanh bất động sản đầu tư|Revenue from investment property
* 5118|Doanh thu khác|Other revenue
* 515|Doanh thu hoạt động tài chính|Financial income
* 521|Các khoản giảm trừ doanh thu|Revenue deductions
* 5211|Chiết khấu thương mại|Trade discounts
* 5212|Hàng bán bị trả lại|Sales returns
* 5213|Giảm giá hàng bán|Sales allowances
2 611|Mua hàng|Purchases
2 6111|Mua nguyên liệu, vật liệu|Purchases of materials
2 6112|Mua hàng hóa|Purchases of merchandise
* 621|Chi phí nguyên liệu, vật liệu trực tiếp|Direct material costs
* 622|Chi phí nhân công trực tiếp|Direct labour costs
* 623|Chi phí sử dụng máy thi công|Construction machinery costs
* 627|Chi phí sản xuất chung|Manufacturing overheads
2 631|Giá thành sản xuất|Production costs
* 632|Giá vốn hàng bán|Cost of goods sold
* 635|Chi phí tài chính|Financial expenses
* 641|Chi phí bán hàng|Selling expenses
* 6411|Chi phí nhân viên|Selling expenses, staff
* 6412|Chi phí vật liệu, bao bì|Selling expenses, materials and packaging
* 6413|Chi phí dụng cụ, đồ dùng|Selling expenses, tools
* 6414|Chi phí khấu hao tài sản cố định|Selling expenses, depreciation
* 6415|Chi phí bảo hành|Selling expenses, warranties
* 6417|Chi phí dịch vụ mua ngoài|Selling expenses, outside services
* 6418|Chi phí bằng tiền khác|Selling expenses, other
* 642|Chi phí quản lý doanh nghiệp|Administrative expenses
* 6421|Chi phí nhân viên quản lý|Administrative expenses, staff
* 6422|Chi phí vật liệu quản lý|Administrative expenses, materials
* 6423|Chi phí đồ dùng văn phòng|Administrative expenses, office supplies
* 6424|Chi phí khấu hao tài sản cố định|Administrative expenses, depreciation
* 6425|Thuế, phí và lệ phí|Administrative expenses, taxes and fees
* 6426|Chi phí dự phòng|Administrative expenses, provisions
* 6427|Chi phí dịch vụ mua ngoài|Administrative expenses, outside services
* 6428|Chi phí bằng tiền khác|Administrative expenses, other
* 711|Thu nhập khác|Other income
* 811|Chi phí khác|Other expenses
* 821|Chi phí thuế thu nhập doanh nghiệp|Income tax expense
* 8211|Chi phí thuế thu nhập hiện hành|Current income tax expense
9 82111|Chi phí thuế thu nhập hiện hành theo luật thuế|Current income tax by the tax law
9 82112|Chi phí thuế bổ sung (thuế tối thiểu toàn cầu)|Top-up tax (global minimum tax)
* 8212|Chi phí thuế thu nhập hoãn lại|Deferred income tax expense
* 911|Xác định kết quả kinh doanh|Determination of business results
"""
STOCK = "'152', '153', '1531', '1532', '1533', '1534', '155', '1551', '1561', '1562', '158'"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.chart_templates (
            template     text COLLATE "C" NOT NULL,
            code         text COLLATE "C" NOT NULL,
            name         text NOT NULL,
            name_vi      text NOT NULL,
            kind         text NOT NULL,
            postable     boolean NOT NULL DEFAULT true,
            needs_party  boolean NOT NULL DEFAULT false,
            needs_store  boolean NOT NULL DEFAULT false,
            needs_item   boolean NOT NULL DEFAULT false,
            is_stock     boolean NOT NULL DEFAULT false,
            PRIMARY KEY (template, code)
        )""")
    op.execute("GRANT SELECT ON books.chart_templates TO chot_app, chot_read")
    _fill()
    op.execute("""
        CREATE FUNCTION books.adopt_chart(company text, template text) RETURNS integer
        LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
        DECLARE added integer;
        BEGIN
            PERFORM 1 FROM books.companies c WHERE c.code = $1;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'COMPANY_UNKNOWN: there is no company %', quote_literal($1)
                    USING ERRCODE = 'CH135';
            END IF;
            PERFORM 1 FROM books.chart_templates t WHERE t.template = $2;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'TEMPLATE_UNKNOWN: there is no template %', quote_literal($2)
                    USING ERRCODE = 'CH135';
            END IF;
            -- What the company has already stays as it is.
            INSERT INTO books.gl_accounts (company, code, name, name_vi, kind, postable,
                                           needs_party, needs_store, needs_item, is_stock)
            SELECT $1, t.code, t.name, t.name_vi, t.kind, t.postable, t.needs_party, t.needs_store,
                   t.needs_item, t.is_stock
              FROM books.chart_templates t WHERE t.template = $2 ORDER BY t.code
            ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS added = ROW_COUNT;
            RETURN added;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.adopt_chart(text, text) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION books.adopt_chart(text, text) TO chot_app")


def _fill() -> None:
    for line in ACCOUNTS.strip().splitlines():
        head, name_vi, name = line.split("|")
        which, code = head.split(" ")
        templates = {"2": "'TT200'", "9": "'TT99'", "*": "'TT200', 'TT99'"}[which]
        english = name.replace("'", "''")
        op.execute(f"""
            INSERT INTO books.chart_templates (template, code, name, name_vi, kind, needs_party)
            SELECT t, '{code}', '{english}', '{name_vi}',
                   (ARRAY['asset', 'asset', 'liability', 'equity', 'revenue', 'expense', 'revenue',
                          'expense', 'result'])[{code[0]}], '{code}' IN ('131', '331')
              FROM unnest(ARRAY[{templates}]) t""")
    # Nothing is posted to an account that has others below it.
    op.execute("""
        UPDATE books.chart_templates t SET postable = false
         WHERE EXISTS (SELECT FROM books.chart_templates u WHERE u.template = t.template
                          AND starts_with(u.code, t.code) AND u.code <> t.code)""")
    op.execute(f"""
        UPDATE books.chart_templates
           SET is_stock = true, needs_store = true, needs_item = true
         WHERE code IN ({STOCK}) AND postable""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION books.adopt_chart(text, text)")
    op.execute("DROP TABLE books.chart_templates")

"""Words of one job's page."""

WORDS = {
    "job.title": ("Job", "Công việc"),
    "job.facts": ("What it is", "Thông tin chung"),
    "job.archived": ("from the archive", "từ kho lưu trữ"),
    "job.queue": ("Queue", "Hàng đợi"),
    "job.priority": ("priority {n}", "ưu tiên {n}"),
    "job.approved_by": ("approved by {by}", "{by} đã duyệt"),
    "job.attempt_of": ("Attempts", "Số lần chạy"),
    "job.lost": ("{n} lost with their worker", "{n} lần mất cùng worker"),
    "job.handed": ("{n} handed back", "{n} lần được trả lại"),
    "job.finished": ("Ended", "Kết thúc"),
    "job.started": ("First began", "Bắt đầu lần đầu"),
    "job.available": ("Not before", "Không trước"),
    "job.cleanup": (
        "what it left half-built is being removed",
        "phần làm dở đang được dọn",
    ),
    "job.why": ("Where it stands, and what to do", "Tình trạng và việc cần làm"),
    "job.do": ("What you can do:", "Bạn có thể:"),
    "job.or": ("or on the command line:", "hoặc bằng lệnh:"),
    "job.why_facts": ("The facts behind it", "Số liệu chi tiết"),
    "job.progress": ("Progress", "Tiến độ"),
    "job.rate": ("{n} {unit}/s", "{n} {unit}/giây"),
    "job.eta": ("done at about", "xong vào khoảng"),
    "job.eta_in": ("in {span}", "còn {span}"),
    "job.moved": ("moved last", "nhích lần cuối"),
    "job.timeline": ("Timeline", "Dòng thời gian"),
    "job.timeline_desc": (
        (
            "A lane for the job and one for each of its last attempts ({n} in all). "
            "The table of events below says the same in words."
        ),
        (
            "Một hàng cho công việc và một hàng cho mỗi lần chạy gần đây (tổng cộng {n}). "
            "Bảng sự kiện bên dưới ghi lại bằng lời."
        ),
    ),
    "job.events": ("The same as a table of events", "Xem dạng bảng sự kiện"),
    "job.lane": ("job", "công việc"),
    "job.lane_of": ("attempt {n}", "lần chạy {n}"),
    "job.fence": ("fence {n}", "số rào {n}"),
    "job.now": ("now", "bây giờ"),
    "job.earlier": (
        "{n} earlier attempts are not drawn; the table has them.",
        "{n} lần chạy trước không được vẽ; xem trong bảng.",
    ),
    "job.key.wait": ("waits", "chờ"),
    "job.key.running": ("runs", "chạy"),
    "job.key.lease": ("lease to come", "phần quyền giữ còn lại"),
    "job.key.succeeded": ("succeeded", "thành công"),
    "job.key.failed": ("failed", "thất bại"),
    "job.key.lost_lease": ("lease lost (zombie)", "mất quyền giữ (zombie)"),
    "job.key.released": ("handed back", "trả lại"),
    "job.bar.running": (
        "Attempt {n} runs on worker {worker} under fence {fence}",
        "Lần chạy {n} đang chạy trên worker {worker} với số rào {fence}",
    ),
    "job.bar.lease": (
        (
            "The lease of attempt {n} (fence {fence}, worker {worker}) goes on so long, and longer "
            "with each heartbeat"
        ),
        (
            "Quyền giữ của lần chạy {n} (số rào {fence}, worker {worker}) còn đến đây, và dài thêm sau "
            "mỗi nhịp báo"
        ),
    ),
    "job.bar.succeeded": (
        "Attempt {n} succeeded on worker {worker} under fence {fence}",
        "Lần chạy {n} thành công trên worker {worker} với số rào {fence}",
    ),
    "job.bar.failed": (
        "Attempt {n} failed on worker {worker} under fence {fence}",
        "Lần chạy {n} thất bại trên worker {worker} với số rào {fence}",
    ),
    "job.bar.lost_lease": (
        (
            "Attempt {n} lost its lease: worker {worker} vanished or stood still. Nothing that it "
            "still writes under fence {fence} is taken"
        ),
        (
            "Lần chạy {n} mất quyền giữ: worker {worker} biến mất hoặc đứng im. Những gì nó còn ghi "
            "với số rào {fence} đều bị từ chối"
        ),
    ),
    "job.bar.released": (
        "Attempt {n} was handed back by worker {worker}, fence {fence}",
        "Lần chạy {n} được worker {worker} trả lại, số rào {fence}",
    ),
    "job.bar.cancelled": (
        "Attempt {n} was cancelled on worker {worker}, fence {fence}",
        "Lần chạy {n} bị hủy trên worker {worker}, số rào {fence}",
    ),
    "job.handover": (
        (
            "The lease of fence {fence} was lost here; from fence {next} on only the next owner's "
            "writes count"
        ),
        (
            "Quyền giữ của số rào {fence} mất tại đây; từ số rào {next} trở đi chỉ bản ghi của chủ mới có "
            "giá trị"
        ),
    ),
    "job.handover_short": (
        "fence {fence} ends, {next} takes over",
        "số rào {fence} hết, số rào {next} tiếp quản",
    ),
    "job.when": ("When", "Lúc"),
    "job.what": ("What", "Việc gì"),
    "job.event.submitted": ("submitted by {by}", "{by} đã gửi"),
    "job.event.joined": ("submitted again by {by}: it is the same work", "{by} gửi lại cùng việc"),
    "job.event.redriven": ("run again by {by}", "{by} cho chạy lại"),
    "job.event.cancelled": ("cancelled by {by}", "{by} đã hủy"),
    "job.event.paused": ("paused", "tạm dừng"),
    "job.event.due": ("due: not before this", "đến hạn: không sớm hơn lúc này"),
    "job.event.published": (
        "message published (the last of {n})",
        "tin nhắn được gửi (lần cuối trong {n})",
    ),
    "job.event.sending": (
        "message not taken by SQS yet, tried {n} times: {error}",
        "SQS chưa nhận tin nhắn, đã thử {n} lần: {error}",
    ),
    "job.event.claimed": (
        "attempt {n} began: worker {worker}, fence {fence}",
        "lần chạy {n} bắt đầu: worker {worker}, số rào {fence}",
    ),
    "job.event.attempt.succeeded": (
        "attempt {n} succeeded: worker {worker}, fence {fence}",
        "lần chạy {n} thành công: worker {worker}, số rào {fence}",
    ),
    "job.event.attempt.failed": (
        "attempt {n} failed: worker {worker}, fence {fence}",
        "lần chạy {n} thất bại: worker {worker}, số rào {fence}",
    ),
    "job.event.attempt.lost_lease": (
        "attempt {n} lost its lease: worker {worker}, fence {fence}",
        "lần chạy {n} mất quyền giữ: worker {worker}, số rào {fence}",
    ),
    "job.event.attempt.released": (
        "attempt {n} was handed back: worker {worker}, fence {fence}",
        "lần chạy {n} được trả lại: worker {worker}, số rào {fence}",
    ),
    "job.event.attempt.cancelled": (
        "attempt {n} was cancelled: worker {worker}, fence {fence}",
        "lần chạy {n} bị hủy: worker {worker}, số rào {fence}",
    ),
    "job.event.takeover": (
        (
            "attempt {n} lost its lease (worker {worker}, fence {fence}): whatever that worker still "
            "writes is refused, fence {next} has taken over"
        ),
        (
            "lần chạy {n} mất quyền giữ (worker {worker}, số rào {fence}): những gì worker đó còn ghi đều "
            "bị từ chối, số rào {next} đã tiếp quản"
        ),
    ),
    "job.event.moved": ("came further last", "nhích thêm lần cuối"),
    "job.event.heartbeat": ("last heartbeat of its worker", "nhịp báo cuối của worker"),
    "job.event.lease_until": (
        "the lease of fence {fence} goes on until then",
        "quyền giữ của số rào {fence} kéo dài đến đây",
    ),
    "job.event.lease_over": (
        "the lease of fence {fence} ran out",
        "quyền giữ của số rào {fence} đã hết",
    ),
    "job.event.ended.succeeded": ("succeeded", "thành công"),
    "job.event.ended.cancelled": ("cancelled", "đã hủy"),
    "job.event.ended.dead": ("died", "chết"),
    "job.attempts": ("Attempts", "Các lần chạy"),
    "job.attempt": ("Attempt", "Lần chạy"),
    "job.fence_head": ("Fence", "Rào"),
    "job.outcome": ("Outcome", "Kết cục"),
    "job.outcome.running": ("runs", "đang chạy"),
    "job.outcome.succeeded": ("succeeded", "thành công"),
    "job.outcome.failed": ("failed", "thất bại"),
    "job.outcome.lost_lease": ("lease lost", "mất quyền giữ"),
    "job.outcome.released": ("handed back", "trả lại"),
    "job.outcome.cancelled": ("cancelled", "đã hủy"),
    "job.began": ("Began", "Bắt đầu"),
    "job.took": ("Took", "Thời lượng"),
    "job.worker": ("Worker", "Worker"),
    "job.error": ("Error", "Lỗi"),
    "job.details": ("Details", "Chi tiết"),
    "job.no_attempts": ("No worker has begun it yet.", "Chưa worker nào bắt đầu."),
    "job.error_dead": ("The error that buried it", "Lỗi làm công việc chết"),
    "job.error_retry": (
        "The error of the attempt that will be repeated",
        "Lỗi của lần chạy sẽ được thử lại",
    ),
    "job.result": ("Result", "Kết quả"),
    "job.result_json": ("All of it as JSON", "Toàn bộ dạng JSON"),
    "job.more_rows": ("{n} more; the JSON has them all.", "còn {n} dòng; xem đủ trong JSON."),
    "job.all_outcomes": ("Outcome of each document", "Kết cục từng chứng từ"),
    "job.failed_outcomes": ("Only those that failed", "Chỉ chứng từ lỗi"),
    "job.outcomes_all": ("All", "Tất cả"),
    "job.more_outcomes": ("Next", "Tiếp"),
    "job.no_outcomes": ("No document here.", "Không có chứng từ nào."),
    "job.place": ("Place", "Thứ tự"),
    "job.document": ("Document", "Chứng từ"),
    "job.codes": ("Details", "Chi tiết"),
    "job.not_yet": ("not done yet", "chưa làm"),
    "job.related": ("Related", "Liên quan"),
    "job.member_of": ("Member of", "Thành viên của"),
    "job.joins": ("Waits for", "Chờ"),
    "job.group": ("group …{id}", "nhóm …{id}"),
    "job.group_counts": ("{ended} of {total} ended", "{ended}/{total} đã xong"),
    "job.group_dead": ("{n} dead", "{n} chết"),
    "job.parent": ("The job that waits for all of them:", "Công việc chờ tất cả chúng:"),
    "job.lock": ("Locks", "Khóa"),
    "job.lock_exclusive": ("for itself", "một mình"),
    "job.lock_shared": ("together with others", "dùng chung"),
    "job.payload": ("Payload", "Dữ liệu gửi vào"),
    "job.copy": ("Copy", "Chép"),
    "job.copied": ("Copied", "Đã chép"),
    "job.acts": ("What people did with it", "Ai đã làm gì"),
    "job.act": ("Act", "Việc"),
    "job.who": ("Who", "Ai"),
    "job.from": ("From", "Từ"),
    "job.no_acts": ("Nothing is recorded.", "Chưa có ghi nhận."),
    "job.acts_not_yours": (
        "The audit is for role admin. What every reader of the job may know:",
        "Nhật ký kiểm soát dành cho vai trò admin. Điều người xem nào cũng được biết:",
    ),
    "job.audited": (
        "The audit will name you: {by}.",
        "Nhật ký kiểm soát sẽ ghi tên bạn: {by}.",
    ),
    "job.cancel": ("Cancel the job", "Hủy công việc"),
    "job.cancel_asks": ("Cancel this job?", "Hủy công việc này?"),
    "job.cancel_1": (
        "From the answer on nothing of it is written any more.",
        "Từ lúc có trả lời, công việc không ghi thêm gì nữa.",
    ),
    "job.cancel_2": (
        "Its attempt is stopped; what it has half built is removed, what it has committed stays.",
        "Lần chạy bị dừng; phần làm dở được dọn, phần đã ghi xong vẫn còn.",
    ),
    "job.cancel_3": (
        "It cannot be taken back: to do the work after all, submit it anew.",
        "Không hoàn tác được: muốn làm tiếp phải gửi lại từ đầu.",
    ),
    "job.redrive": ("Run it again", "Chạy lại"),
    "job.redrive_asks": ("Run this dead job again?", "Chạy lại công việc đã chết này?"),
    "job.redrive_1": (
        "It waits again, with a fresh budget of {n} attempts. Its history is kept.",
        "Công việc trở lại trạng thái chờ với {n} lần chạy mới. Lịch sử được giữ lại.",
    ),
    "job.redrive_2": (
        "Where the cause is still there, it dies again: look at the error first.",
        "Nếu nguyên nhân vẫn còn, nó sẽ chết lại: hãy xem lỗi trước.",
    ),
    "job.redrive_group": (
        "Its group counts it again.",
        "Nhóm của nó sẽ tính lại công việc này.",
    ),
    "job.approval": ("Approval", "Mã duyệt"),
    "job.approval_hint": (
        "Another account has to approve first:",
        "Một tài khoản khác phải duyệt trước:",
    ),
    "job.cancelled": (
        "The job is cancelled: nothing of it is written any more.",
        "Công việc đã hủy: không ghi thêm gì nữa.",
    ),
    "job.too_late.succeeded": (
        "Too late to cancel: the job has succeeded.",
        "Không hủy được nữa: công việc đã thành công.",
    ),
    "job.too_late.dead": (
        "Too late to cancel: the job is dead.",
        "Không hủy được nữa: công việc đã chết.",
    ),
    "job.redriven": ("The job waits to run again.", "Công việc đang chờ chạy lại."),
    "job.refused.not-dead": (
        "Not run again: the job is not dead ({detail}).",
        "Không chạy lại: công việc không ở trạng thái chết ({detail}).",
    ),
    "job.refused.cleanup-pending": (
        "Not run again yet: what it left half-built is still being removed. Try again in a moment.",
        "Chưa chạy lại: phần làm dở đang được dọn. Hãy thử lại sau giây lát.",
    ),
    "job.refused.twin-active": (
        "Not run again: the same work is active as another job ({detail}).",
        "Không chạy lại: một công việc khác đang làm cùng việc này ({detail}).",
    ),
    "job.refused.payload-outdated": (
        "Not run again: its payload does not fit today's model ({detail}). Submit a new job.",
        "Không chạy lại: dữ liệu không hợp mẫu hiện nay ({detail}). Hãy gửi công việc mới.",
    ),
    "job.refused.approval-required": (
        "Not run again: another account has to approve it first.",
        "Không chạy lại: cần tài khoản khác duyệt trước.",
    ),
    "job.refused.group-active": (
        "Not run again: its group is not at rest ({detail}).",
        "Không chạy lại: nhóm của nó chưa yên ({detail}).",
    ),
    "job.refused.busy": (
        "Not run again: another transaction holds it at this moment. Try again.",
        "Không chạy lại: giao dịch khác đang giữ nó. Hãy thử lại.",
    ),
    "job.refused.job-not-found": ("There is no such job.", "Không có công việc này."),
    "job.refused.other": ("Not run again: {detail}", "Không chạy lại: {detail}"),
}

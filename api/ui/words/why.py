"""What to do about a job, for each reason of /why; and what the links beside it are called."""

WORDS = {
    "why.do.backoff": (
        (
            "Look at the error of the last attempt. If it will come again, correct its cause before "
            "the retry, or cancel the job."
        ),
        (
            "Xem lỗi của lần chạy cuối. Nếu lỗi sẽ lặp lại, hãy sửa nguyên nhân trước lần thử tới, "
            "hoặc hủy công việc."
        ),
    ),
    "why.do.snoozed": (
        "Nothing: the job has named this time itself.",
        "Không cần làm gì: công việc tự chọn thời điểm này.",
    ),
    "why.do.handed-back": (
        "Nothing: another worker goes on from the last checkpoint.",
        "Không cần làm gì: worker khác sẽ chạy tiếp từ điểm lưu cuối.",
    ),
    "why.do.scheduled": (
        "Nothing, unless it should run sooner: then cancel it and submit it without a time.",
        "Không cần làm gì. Muốn chạy sớm hơn: hủy rồi gửi lại không kèm giờ.",
    ),
    "why.do.queue-paused": (
        "Find out who paused the queue and why; resuming it starts all of its jobs.",
        "Hỏi xem ai đã tạm dừng hàng đợi và vì sao; cho chạy lại thì mọi công việc của nó đi tiếp.",
    ),
    "why.do.kind-paused": (
        "Find out who paused this kind and why; resuming it starts all of its jobs.",
        (
            "Hỏi xem ai đã tạm dừng loại này và vì sao; cho chạy lại thì mọi công việc loại này đi "
            "tiếp."
        ),
    ),
    "why.do.books-frozen": (
        "Ask whoever froze the books. Once they are thawed the job starts by itself.",
        "Hỏi người đã đóng băng sổ. Khi sổ được mở, công việc tự bắt đầu.",
    ),
    "why.do.job-paused": (
        "Resume it when the reason for the pause is gone.",
        "Cho chạy tiếp khi lý do tạm dừng đã hết.",
    ),
    "why.do.group-cancelling": (
        "Nothing: its group was cancelled, and so will this job be.",
        "Không cần làm gì: nhóm đã bị hủy, công việc này cũng vậy.",
    ),
    "why.do.group-open": (
        "See which members of the group have not ended.",
        "Xem thành viên nào của nhóm chưa xong.",
    ),
    "why.do.out-of-attempts": (
        "Cancel it, and submit it anew.",
        "Hủy rồi gửi lại.",
    ),
    "why.do.no-worker": (
        "Start a worker that serves this queue, or find out why those there were are gone.",
        "Khởi động worker phục vụ hàng đợi này, hoặc tìm hiểu vì sao các worker đã mất.",
    ),
    "why.do.kind-unknown": (
        "Deploy workers whose code has this kind.",
        "Triển khai worker có mã của loại này.",
    ),
    "why.do.version-unknown": (
        "Finish the deployment: workers have to be as new as the api.",
        "Hoàn tất việc triển khai: worker phải mới bằng api.",
    ),
    "why.do.workers-stopping": (
        "Wait for the next worker; during a deployment this is normal.",
        "Chờ worker kế tiếp; khi đang triển khai thì điều này là bình thường.",
    ),
    "why.do.lock-held": (
        "Wait for the job that holds the lock, or see why that one takes so long.",
        "Chờ công việc đang giữ khóa, hoặc xem vì sao nó lâu.",
    ),
    "why.do.lock-reserved": (
        "Wait: the job before it is first in line for the same lock.",
        "Chờ: công việc trước nó đang xếp hàng đầu cho cùng khóa.",
    ),
    "why.do.runs-alone": (
        "Look in the workers' logs for why they vanished: memory is the usual cause.",
        "Xem nhật ký worker vì sao chúng biến mất: thường là do hết bộ nhớ.",
    ),
    "why.do.workers-alone": (
        "Wait, or start another worker.",
        "Chờ, hoặc khởi động thêm worker.",
    ),
    "why.do.kind-maximum": (
        "Wait for one of those that run; the maximum stands in the kind's code.",
        "Chờ một công việc đang chạy kết thúc; mức tối đa nằm trong mã của loại.",
    ),
    "why.do.limit-reached": (
        "Wait for one of those that run, or let an operator raise the limit.",
        "Chờ một công việc đang chạy kết thúc, hoặc nhờ người vận hành tăng giới hạn.",
    ),
    "why.do.message-refused": (
        "Correct what SQS says; then pause and resume the queue.",
        "Sửa theo lời SQS; rồi tạm dừng và cho hàng đợi chạy lại.",
    ),
    "why.do.window-full": (
        "Wait in line: brands take turns. More workers make the line faster.",
        "Chờ đến lượt: các thương hiệu thay phiên nhau. Thêm worker thì hàng đi nhanh hơn.",
    ),
    "why.do.publishing-failed": (
        "Look whether SQS can be reached; it is tried again by itself.",
        "Kiểm tra kết nối tới SQS; hệ thống tự thử lại.",
    ),
    "why.do.publishing": (
        "Wait a moment; if it lasts, look at the outbox on the overview.",
        "Chờ giây lát; nếu kéo dài, xem hộp thư đi ở trang tổng quan.",
    ),
    "why.do.slots-busy": (
        "Wait for a free slot, or start another worker.",
        "Chờ chỗ trống, hoặc khởi động thêm worker.",
    ),
    "why.do.delivery": (
        "Wait a moment; what gets lost is published again.",
        "Chờ giây lát; tin bị mất sẽ được gửi lại.",
    ),
    "why.do.lease-expired": (
        "Nothing: another worker takes over in a moment. See below where the first one stopped.",
        "Không cần làm gì: worker khác sắp tiếp quản. Xem bên dưới chỗ worker đầu dừng lại.",
    ),
    "why.do.worker-silent": (
        "Wait for the takeover. If workers vanish often, look at their logs and memory.",
        "Chờ worker khác tiếp quản. Nếu worker hay biến mất, hãy xem nhật ký và bộ nhớ của chúng.",
    ),
    "why.do.running": (
        "Nothing: it runs. Cancel it if it should not.",
        "Không cần làm gì: đang chạy. Hủy nếu không muốn nữa.",
    ),
    "why.do.succeeded": ("Nothing: it is done.", "Không cần làm gì: đã xong."),
    "why.do.cancelled": (
        "Submit it anew if it is wanted after all.",
        "Gửi lại nếu vẫn cần.",
    ),
    "why.do.dead": (
        "Look at the error, correct its cause, then run it again.",
        "Xem lỗi, sửa nguyên nhân, rồi cho chạy lại.",
    ),
    "why.to.workers": ("Workers, and what they run", "Các worker và việc đang chạy"),
    "why.to.queue": ("Queue {name}", "Hàng đợi {name}"),
    "why.to.blocker": ("The job in the way ({name})", "Công việc đang chắn ({name})"),
    "why.to.running": ("Those that run", "Những công việc đang chạy"),
    "why.to.line": ("Those in the same line", "Những công việc cùng hàng"),
    "why.to.frozen": ("Jobs of {name} that wait", "Công việc của {name} đang chờ"),
    "why.to.members": ("Members that have not ended", "Thành viên chưa xong"),
    "why.to.attempt": ("Attempt {name}", "Lần chạy {name}"),
    "why.to.twin": ("The job that does the same work", "Công việc đang làm cùng việc"),
    "why.to.payload": ("Its payload", "Dữ liệu gửi vào"),
    "why.to.kind": ("Jobs of kind {name} that wait", "Công việc loại {name} đang chờ"),
    "why.to.paused_kind": ("Kind {name}, to resume it", "Loại {name}, để cho chạy lại"),
    "why.to.audit": ("What people did with it", "Ai đã làm gì"),
}

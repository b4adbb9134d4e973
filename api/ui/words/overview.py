"""Words of the overview."""

WORDS = {
    "overview.title": ("Overview", "Tổng quan"),
    "overview.fine": ("Nothing is wrong.", "Mọi thứ bình thường."),
    "overview.wrong": ("Look at this", "Cần xem ngay"),
    "overview.go": ("Look", "Xem"),
    "overview.some_dead": (
        "Dead jobs: {n}. They wait for somebody to decide.",
        "Công việc chết: {n}. Đang chờ người xử lý.",
    ),
    "overview.queue_paused": (
        "Queue {queue} is paused; pending in it: {n}.",
        "Hàng đợi {queue} đang tạm dừng; số việc đang chờ: {n}.",
    ),
    "overview.kind_paused": ("Kind {kind} is paused.", "Loại việc {kind} đang tạm dừng."),
    "overview.frozen": (
        "Books are frozen: {books}, by {by}.",
        "Sổ đang bị khóa: {books}, do {by}.",
    ),
    "overview.starved": (
        "The oldest due job of queue {queue} has waited for {seconds}.",
        "Việc đến hạn lâu nhất của hàng đợi {queue} đã chờ {seconds}.",
    ),
    "overview.alone": (
        "A worker of queue {queue} runs a job alone: its worker was lost twice before.",
        "Một worker của hàng đợi {queue} đang chạy riêng một việc đã hai lần làm mất worker.",
    ),
    "overview.no_worker": (
        "No worker is alive. Due jobs: {n}.",
        "Không có worker nào hoạt động. Việc đến hạn: {n}.",
    ),
    "overview.lost_workers": (
        "Workers that have gone without a word in the last hour: {n}. Their jobs are taken over.",
        "Worker mất liên lạc trong giờ qua: {n}. Việc của chúng được worker khác nhận lại.",
    ),
    "overview.outbox_late": (
        "Messages are late: the oldest by {seconds}, due ones: {n}. Is SQS reachable?",
        "Thông điệp bị trễ: lâu nhất {seconds}, đến hạn: {n}. SQS có kết nối được không?",
    ),
    "overview.quarantined": (
        "SQS refused messages for good: {n}.",
        "SQS từ chối hẳn thông điệp: {n}.",
    ),
    "overview.dead_messages": (
        "Messages that were none of ours: {n}.",
        "Thông điệp không phải của hệ thống: {n}.",
    ),
    "overview.now": ("Now", "Hiện tại"),
    "overview.pending": ("Pending", "Đang chờ"),
    "overview.due": ("due now: {n}", "đến hạn: {n}"),
    "overview.running": ("Running", "Đang chạy"),
    "overview.slots": ("slots: {n}", "số chỗ: {n}"),
    "overview.dead": ("Dead", "Chết"),
    "overview.oldest": ("Oldest due", "Chờ lâu nhất"),
    "overview.workers_alive": ("Workers alive", "Worker hoạt động"),
    "overview.outbox": ("Outbox lag", "Trễ gửi tin"),
    "overview.outbox_due": ("to be sent: {n}", "chờ gửi: {n}"),
    "overview.messages": ("Dead messages", "Thông điệp lạ"),
    "overview.not_yours": (
        "Outbox and dead messages belong to no company: they are shown to keys of all companies.",
        "Hộp gửi và thông điệp lạ không thuộc công ty nào: chỉ khóa của mọi công ty mới xem được.",
    ),
    "overview.queues": ("Queues", "Hàng đợi"),
    "overview.queue": ("Queue", "Hàng đợi"),
    "overview.paused": ("paused", "tạm dừng"),
    "overview.at_least": ("{n} or more", "từ {n} trở lên"),
    "overview.workers": ("Workers", "Worker"),
    "overview.worker": ("Worker", "Worker"),
    "overview.state": ("State", "Trạng thái"),
    "overview.version": ("Version", "Phiên bản"),
    "overview.runs": ("Runs", "Đang chạy"),
    "overview.seen": ("Seen", "Lần cuối"),
    "overview.free": ("Free slots", "Chỗ trống"),
    "overview.of": ("{free} of {slots}", "{free} / {slots}"),
    "overview.lost": ("lost", "mất liên lạc"),
    "overview.working": ("working", "đang làm"),
    "overview.draining": ("draining", "đang dừng"),
    "overview.in_alone": ("alone", "chạy riêng"),
    "overview.no_queues": (
        "No queue is known yet: none before the api was ready.",
        "Chưa có hàng đợi nào.",
    ),
    "overview.no_workers": (
        "No worker has registered in the last hour: start one with python -m worker.",
        "Không có worker nào trong giờ qua: khởi động bằng python -m worker.",
    ),
}

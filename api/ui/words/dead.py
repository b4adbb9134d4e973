"""Words of the dead letters."""

WORDS = {
    "dead.title": ("Dead letters", "Công việc chết"),
    "dead.counted": (
        "jobs: {jobs} · causes: {causes}",
        "công việc: {jobs} · nguyên nhân: {causes}",
    ),
    "dead.all": ("All dead letters", "Tất cả"),
    "dead.by_cause": ("By cause", "Theo nguyên nhân"),
    "dead.by_cause_hint": (
        (
            "Jobs of the same kind, code, error type and message; # stands for a word with a digit in it, "
            "which differs from job to job: a number, an id, an instant."
        ),
        (
            "Công việc cùng loại, mã lỗi, kiểu lỗi và lời báo; dấu # thay cho từ có chữ số, vốn khác nhau giữa "
            "các công việc: số, mã, thời điểm."
        ),
    ),
    "dead.jobs": ("Jobs", "Số lượng"),
    "dead.cause": ("Cause", "Nguyên nhân"),
    "dead.first": ("First", "Lần đầu"),
    "dead.last": ("Last", "Lần cuối"),
    "dead.example": ("Example", "Ví dụ"),
    "dead.do": ("Act", "Thao tác"),
    "dead.none": ("No job is dead. Well done.", "Không có công việc nào chết. Tốt lắm."),
    "dead.more_causes": (
        "{n} more causes with fewer jobs each.",
        "Còn {n} nguyên nhân với ít công việc hơn.",
    ),
    "dead.needs_approval": (
        "Here a redrive asks for another account's approval, so each is run again from its own page.",
        "Ở đây chạy lại cần tài khoản khác duyệt, nên mỗi công việc chạy lại từ trang của nó.",
    ),
    "dead.redrive_cause": ("Run these again", "Chạy lại nhóm này"),
    "dead.redrive_cause_asks": (
        (
            "Run all {n} jobs of this cause again? Each gets a fresh budget of attempts and keeps its "
            "history; one whose work is active already stays dead. The audit will name you: {by}."
        ),
        (
            "Chạy lại cả {n} công việc của nguyên nhân này? Mỗi công việc có số lần chạy mới và giữ "
            "lịch sử; việc nào đang được làm ở công việc khác thì vẫn để chết. Nhật ký kiểm soát sẽ "
            "ghi tên bạn: {by}."
        ),
    ),
    "dead.redrive_all": ("Run all again", "Chạy lại tất cả"),
    "dead.redrive_kind": ("Run all of {kind} again", "Chạy lại mọi công việc loại {kind}"),
    "dead.redrive_all_asks": (
        (
            "Run all {n} dead jobs that are listed here again, whatever they died of? Where a cause is "
            "still there they die again. The audit will name you: {by}."
        ),
        (
            "Chạy lại cả {n} công việc chết ở đây, bất kể nguyên nhân? Nguyên nhân nào còn thì chúng "
            "sẽ chết lại. Nhật ký kiểm soát sẽ ghi tên bạn: {by}."
        ),
    ),
    "dead.redrive_one_asks": (
        "Run this job again, with a fresh budget of attempts? The audit will name you: {by}.",
        "Chạy lại công việc này với số lần chạy mới? Nhật ký kiểm soát sẽ ghi tên bạn: {by}.",
    ),
    "dead.kills_one": (
        (
            "This job lost a worker as often as may be: it may kill the process that runs it. Run "
            "again, it runs alone on a worker whose other jobs have ended, and may take more workers "
            "down. Find out first why they vanished: memory, a crash, a host that went."
        ),
        (
            "Công việc này đã làm mất worker đến mức tối đa: có thể nó làm chết tiến trình đang chạy "
            "nó. Khi chạy lại, nó chạy một mình trên một worker đã xong các việc khác, và có thể làm "
            "mất thêm worker. Hãy tìm nguyên nhân trước: bộ nhớ, sập chương trình, máy ngừng."
        ),
    ),
    "dead.kills": (
        (
            "{n} of {of} lost a worker as often as may be: they may kill the processes that run them. "
            "Run again, each runs alone on a worker whose other jobs have ended, and may take more "
            "workers down. Find out first why they vanished: memory, a crash, a host that went."
        ),
        (
            "{n} trong {of} công việc đã làm mất worker đến mức tối đa: có thể chúng làm chết tiến "
            "trình đang chạy chúng. Khi chạy lại, mỗi việc chạy một mình trên một worker đã xong các "
            "việc khác, và có thể làm mất thêm worker. Hãy tìm nguyên nhân trước: bộ nhớ, sập chương "
            "trình, máy ngừng."
        ),
    ),
    "dead.list": ("Dead jobs, newest first", "Công việc chết, mới nhất trước"),
    "dead.died": ("Died", "Chết lúc"),
    "dead.messages": ("Dead messages", "Tin nhắn chết"),
    "dead.messages_hint": (
        (
            "Messages of the queue that were none of ours: not readable, or of no job. They were kept "
            "here and deleted from SQS; no job waits for them. Find out who sends to our queue."
        ),
        (
            "Tin nhắn trong hàng đợi không phải của hệ thống: không đọc được hoặc không thuộc công "
            "việc nào. Chúng được giữ ở đây và đã xóa khỏi SQS; không công việc nào chờ chúng. Hãy "
            "tìm xem ai gửi vào hàng đợi."
        ),
    ),
    "dead.no_messages": ("No dead messages.", "Không có tin nhắn chết."),
    "dead.more_messages": (
        "Older ones: chot dead-letters, or GET /v1/dead-letters.",
        "Tin cũ hơn: chot dead-letters, hoặc GET /v1/dead-letters.",
    ),
    "dead.received": ("received {n} times", "đã nhận {n} lần"),
    "dead.body": ("Body, {n} bytes", "Nội dung, {n} byte"),
    "dead.attributes": ("Attributes", "Thuộc tính"),
    "dead.report": ("What became of the redrive", "Kết quả chạy lại"),
    "dead.reported": (
        "{redriven} wait to run again, {refused} stay as they are.",
        "{redriven} công việc chờ chạy lại, {refused} giữ nguyên.",
    ),
    "dead.refused": ("Not run again", "Không chạy lại"),
    "dead.redriven": ("Wait to run again", "Chờ chạy lại"),
    "dead.reason": ("Why", "Vì sao"),
    "dead.twin": ("The same work, active", "Cùng việc, đang hoạt động"),
    "dead.more_to_go": (
        "There are more: one step takes 1,000 jobs.",
        "Vẫn còn nữa: mỗi bước chạy lại 1.000 công việc.",
    ),
    "dead.go_on": ("Go on with the next", "Tiếp tục"),
    "dead.back": ("Back to the dead letters", "Về trang công việc chết"),
}

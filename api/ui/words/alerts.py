"""What each rule of shared/alerts/rules.toml is about, as the overview says it."""

WORDS = {
    "alert.no_worker_for_kind": (
        "Due jobs of a kind that no live worker runs",
        "Có việc đến hạn thuộc loại không worker nào chạy",
    ),
    "alert.oldest_due": (
        "A queue’s oldest due job has waited too long for a worker",
        "Việc đến hạn lâu nhất của hàng đợi chờ worker quá lâu",
    ),
    "alert.outbox_lag": (
        "A committed message has waited too long for SQS",
        "Tin nhắn đã ghi chờ SQS quá lâu",
    ),
    "alert.no_counts": (
        "Nobody has counted anything: no api answers, or none reaches PostgreSQL",
        "Không có số đếm: không API nào trả lời hoặc không kết nối được PostgreSQL",
    ),
    "alert.dead_jobs": (
        "Jobs of a kind are dead and wait for a decision",
        "Có việc chết đang chờ quyết định",
    ),
    "alert.dead_messages": (
        "Messages in our queues that were none of ours",
        "Có tin nhắn không phải của hệ thống trong hàng đợi",
    ),
    "alert.quarantined": ("Messages that SQS refuses for good", "Tin nhắn bị SQS từ chối hẳn"),
    "alert.lease_losses": (
        "Leases that ran out in the last 15 minutes",
        "Số lần mất quyền giữ việc trong 15 phút qua",
    ),
    "alert.workers_lost": (
        "Workers that ended in the last 15 minutes without saying so",
        "Worker mất đột ngột trong 15 phút qua",
    ),
    "alert.heartbeat_late": (
        "A live worker’s heartbeat is late: much of its lease has passed",
        "Nhịp tim của worker trễ: đã quá nhiều phần thời hạn",
    ),
    "alert.backlog": (
        "Much work is due for each slot of a queue",
        "Quá nhiều việc đến hạn cho mỗi chỗ của hàng đợi",
    ),
    "alert.long_transaction": (
        "A transaction stays open; dead rows pile up behind it",
        "Có giao dịch mở quá lâu; hàng chết dồn lại phía sau",
    ),
    "alert.notices_late": (
        "An alert waits to be delivered to webhook or SNS",
        "Cảnh báo chưa gửi được tới webhook hoặc SNS",
    ),
}

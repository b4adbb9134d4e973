"""Words of a file that is being written."""

WORDS = {
    "export.title": ("File of run {id}", "Tệp của lượt {id}"),
    "export.back": ("Back to the run", "Về lượt tính"),
    "export.waiting": ("The file waits for a worker.", "Tệp đang chờ máy làm."),
    "export.running": ("The file is being written.", "Đang ghi tệp."),
    "export.rows": ("{done} of {total} rows", "{done} / {total} dòng"),
    "export.done": ("The file is ready.", "Tệp đã xong."),
    "export.dead": ("The file could not be written.", "Không lập được tệp."),
    "export.cancelled": ("The file was cancelled.", "Việc lập tệp đã bị hủy."),
    "export.download": ("Download {name}", "Tải {name}"),
    "export.facts": ("{rows} rows, {size} bytes", "{rows} dòng, {size} byte"),
    "export.expires": ("It is kept until", "Giữ đến"),
    "export.job": ("Its job", "Công việc lập tệp"),
}

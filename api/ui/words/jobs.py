"""Words of the list of jobs."""

WORDS = {
    "jobs.title": ("Jobs", "Công việc"),
    "jobs.filters": ("Filters", "Bộ lọc"),
    "jobs.list": ("Jobs, newest first", "Công việc, mới nhất trước"),
    "jobs.job": ("Job", "Công việc"),
    "jobs.state": ("State", "Trạng thái"),
    "jobs.kind": ("Kind", "Loại"),
    "jobs.company": ("Company", "Công ty"),
    "jobs.brand": ("Brand", "Nhãn hàng"),
    "jobs.whose": ("Company / brand", "Công ty / thương hiệu"),
    "jobs.submitter": ("Submitted by", "Người gửi"),
    "jobs.submitted": ("Submitted", "Lúc gửi"),
    "jobs.from": ("From", "Từ lúc"),
    "jobs.to": ("Before", "Trước lúc"),
    "jobs.progress": ("Progress", "Tiến độ"),
    "jobs.attempt": ("attempts: {n} of {most}", "số lần chạy: {n}/{most}"),
    "jobs.more": (
        "By kind, company, brand, submitter, time",
        "Theo loại, công ty, thương hiệu, người gửi, thời gian",
    ),
    "jobs.show": ("Show", "Xem"),
    "jobs.all": ("All jobs", "Tất cả"),
    "jobs.of_group": ("of group", "thuộc nhóm"),
    "jobs.refused": ("This filter does not work:", "Bộ lọc này không dùng được:"),
    "jobs.none": (
        "No job matches. Archived jobs are not listed; they answer by their id.",
        (
            "Không có công việc nào khớp. Công việc đã lưu trữ không có trong danh sách; hãy mở bằng "
            "mã của nó."
        ),
    ),
    "jobs.short": (
        "None among those looked at; older ones may match.",
        "Chưa thấy trong phần đã xem; có thể có ở phần cũ hơn.",
    ),
    "jobs.pages": ("Pages of the list", "Các trang của danh sách"),
    "jobs.newest": ("Newest", "Mới nhất"),
    "jobs.older": ("Older", "Cũ hơn"),
}

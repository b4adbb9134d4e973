"""Words that every page has around it, and those that pages share."""

WORDS = {
    "menu.overview": ("Overview", "Tổng quan"),
    "menu.jobs": ("Jobs", "Công việc"),
    "menu.dead": ("Dead letters", "Công việc chết"),
    "menu.runs": ("Cost and posting", "Giá vốn và ghi sổ"),
    "menu.simulator": ("Simulator", "Mô phỏng"),
    "base.menu": ("Pages", "Các trang"),
    "base.skip": ("Skip to the content", "Đến thẳng nội dung"),
    "base.language": ("Language", "Ngôn ngữ"),
    "base.theme": ("Theme", "Giao diện"),
    "base.auto": ("Like the system", "Theo hệ thống"),
    "base.light": ("Light", "Sáng"),
    "base.dark": ("Dark", "Tối"),
    "base.logout": ("Log out", "Đăng xuất"),
    "base.logout_everywhere": (
        "Log out everywhere: all browsers of this key",
        "Đăng xuất khắp nơi: mọi trình duyệt của khóa này",
    ),
    "base.logout_asks": (
        (
            "End every session of this key, in all browsers, within 5 seconds? Whoever works with "
            "it has to log in again. The key itself stays good, and what runs goes on."
        ),
        (
            "Kết thúc mọi phiên của khóa này, ở mọi trình duyệt, trong vòng 5 giây? Ai đang dùng "
            "khóa sẽ phải đăng nhập lại. Khóa vẫn dùng được, việc đang chạy vẫn tiếp tục."
        ),
    ),
    "base.open": ("open api: no login", "API mở: không cần đăng nhập"),
    "base.account": ("Account", "Tài khoản"),
    "base.all": ("all companies", "mọi công ty"),
    "base.times": ("Times are those of Viet Nam (UTC+7).", "Giờ Việt Nam (UTC+7)."),
    "live.on": ("live", "trực tiếp"),
    "live.begun": ("as it was when the page was opened", "số liệu lúc mở trang"),
    "live.off": ("connection lost, trying again", "mất kết nối, đang thử lại"),
    "live.stale": ("last seen {seconds} ago", "cập nhật {seconds} trước"),
    "live.blind": (
        "the database does not answer: this is of before",
        "cơ sở dữ liệu không trả lời: đây là số liệu trước đó",
    ),
    "live.full": (
        "many pages of this account are open: this one is read every 10 s",
        "tài khoản này đang mở nhiều trang: trang này được đọc lại mỗi 10 giây",
    ),
    "live.ended": ("Your session has ended.", "Phiên làm việc đã kết thúc."),
    "live.login": ("Log in again", "Đăng nhập lại"),
    "state.pending": ("pending", "đang chờ"),
    "state.running": ("running", "đang chạy"),
    "state.succeeded": ("succeeded", "thành công"),
    "state.cancelled": ("cancelled", "đã hủy"),
    "state.dead": ("dead", "chết"),
    "base.yes": ("Yes, do it", "Đồng ý"),
    "base.no": ("No, leave it", "Không, để nguyên"),
    "base.none": ("none", "không có"),
}

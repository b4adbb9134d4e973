"""Words of the login page."""

WORDS = {
    "login.title": ("Log in", "Đăng nhập"),
    "login.key": ("API key", "Khóa API"),
    "login.hint": (
        (
            "A key as chot keys create prints it, or the deployment’s own token. It is sent once and "
            "not kept in the browser."
        ),
        (
            "Khóa do lệnh chot keys create in ra, hoặc token của hệ thống. Khóa chỉ gửi một lần và "
            "không lưu trong trình duyệt."
        ),
    ),
    "login.send": ("Log in", "Đăng nhập"),
    "login.show": ("Show the key", "Hiện khóa"),
    "login.refused": (
        "Nobody has this key: unknown, expired or revoked.",
        "Không ai có khóa này: không tồn tại, hết hạn hoặc đã thu hồi.",
    ),
    "login.too_many": (
        "Too many wrong keys from your address. Wait {seconds} s.",
        "Quá nhiều khóa sai từ địa chỉ của bạn. Hãy đợi {seconds} giây.",
    ),
    "login.ended": (
        "Your session has ended: 12 hours are over, or its key has ended. Log in again.",
        "Phiên đã kết thúc: đã quá 12 giờ hoặc khóa không còn hiệu lực. Hãy đăng nhập lại.",
    ),
    "login.no_cookie": (
        (
            "Your browser did not send back this page’s cookie. Over plain http it never does: use "
            "https, or set CHOT_UI_PLAIN_HTTP=true on a network that you trust."
        ),
        (
            "Trình duyệt không gửi lại cookie của trang này. Qua http thường thì không bao giờ gửi: "
            "hãy dùng https, hoặc đặt CHOT_UI_PLAIN_HTTP=true trong mạng tin cậy."
        ),
    ),
    "login.what": (
        (
            "Long work of the ERP: costing, posting, data migrations. Here you see what runs, what "
            "waits, and why."
        ),
        (
            "Công việc dài của ERP: tính giá vốn, ghi sổ, chuyển dữ liệu. Ở đây bạn thấy việc gì "
            "đang chạy, đang chờ và vì sao."
        ),
    ),
    "login.bye": ("You are logged out.", "Bạn đã đăng xuất."),
}

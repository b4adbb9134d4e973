"""Words of the pages that say what went wrong. The second line is what to do."""

WORDS = {
    "error.title": ("Error {status}", "Lỗi {status}"),
    "error.unauthorized": (
        "Your session has ended. Nothing was done. Log in and do it again.",
        "Phiên làm việc đã kết thúc. Chưa có gì được thực hiện. Hãy đăng nhập rồi làm lại.",
    ),
    "error.forbidden": (
        "Your key may not do this.",
        "Khóa của bạn không có quyền làm việc này.",
    ),
    "error.role": (
        (
            "It takes the role “{role}”. Whoever administers the keys can give it: "
            "chot keys create --role {role}."
        ),
        "Cần vai trò “{role}”. Người quản trị khóa có thể cấp: chot keys create --role {role}.",
    ),
    "error.stale": (
        (
            "This form is too old, or it came from another site. Nothing was done. "
            "Go back, reload the page, and send it again."
        ),
        (
            "Biểu mẫu này đã quá cũ hoặc đến từ trang khác. Chưa có gì được thực hiện. "
            "Hãy quay lại, tải lại trang rồi gửi lại."
        ),
    ),
    "error.host": (
        "An api that asks for no token shows its pages on this very machine only: open it as localhost.",
        "API không yêu cầu token chỉ hiện trang trên chính máy này: hãy mở bằng localhost.",
    ),
    "error.404": (
        "There is nothing here, or it is not yours to see.",
        "Không có gì ở đây, hoặc bạn không được xem.",
    ),
    "error.405": (
        "This address does not take that.",
        "Địa chỉ này không nhận yêu cầu như vậy.",
    ),
    "error.422": (
        "Something in the address or in the form is not right.",
        "Địa chỉ hoặc biểu mẫu có chỗ không đúng.",
    ),
    "error.429": (
        "Too many requests. Wait a few seconds and reload.",
        "Quá nhiều yêu cầu. Hãy đợi vài giây rồi tải lại.",
    ),
    "error.500": (
        "Something is wrong on our side. The log tells more under the number below.",
        "Hệ thống có lỗi. Nhật ký ghi rõ hơn theo số bên dưới.",
    ),
    "error.database-unavailable": (
        (
            "The database cannot be reached. Jobs are safe; workers wait, too. This page works again "
            "as soon as the database does."
        ),
        (
            "Không kết nối được cơ sở dữ liệu. Các công việc vẫn an toàn; các worker cũng đang chờ. "
            "Trang này sẽ chạy lại khi cơ sở dữ liệu trở lại."
        ),
    ),
    "error.starting": (
        "The api is starting, or it waits for something. Reload in a moment.",
        "API đang khởi động hoặc đang chờ. Hãy tải lại sau giây lát.",
    ),
    "error.503": (
        "Too much to do right now. Reload in a moment.",
        "Hệ thống đang quá tải. Hãy tải lại sau giây lát.",
    ),
    "error.other": ("This did not work.", "Không thực hiện được."),
    "error.detail": ("In the api’s words", "Theo lời của API"),
    "error.request": ("Request", "Yêu cầu"),
    "error.home": ("To the overview", "Về trang tổng quan"),
    "error.login": ("To the login page", "Đến trang đăng nhập"),
}

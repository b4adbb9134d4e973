"""Errors of the platform and of the books in Vietnamese: of the same fields as the English words.

By their code. What a handler of somebody else's says stays as it is: nobody knows what it means.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from api.ui.showing import LOCAL

Details = Mapping[str, Any]
MOST_NAMED = 5
RAN = re.compile(r"ran longer than ([0-9.e+]+) s")

# The richest first: it is said where the error has what it names.
SENTENCES: Mapping[str, tuple[str, ...]] = {
    "TIMEOUT": ("Chạy lâu hơn {seconds} giây cho phép.", "Chạy lâu hơn thời gian cho phép."),
    "PAYLOAD_INVALID": (
        "Dữ liệu gửi vào không hợp với loại công việc: {fields}.",
        "Dữ liệu gửi vào không hợp với loại công việc.",
    ),
    "RESULT_NOT_STORABLE": ("Kết quả không lưu được: không thành JSON, hoặc lớn hơn 1 MiB.",),
    "CHECKPOINT_NOT_STORABLE": ("Điểm lưu không lưu được: không thành JSON, hoặc quá lớn.",),
    "PROGRESS_NOT_STORABLE": ("Tiến độ không lưu được.",),
    "WORKER_LOST": ("Quyền giữ công việc đã hết hạn: worker biến mất hoặc đứng im.",),
    "LEASE_LOST": ("Quyền giữ công việc đã hết hạn và worker khác đã tiếp quản.",),
    "SPAWN_REFUSED": (
        "Công việc con bị từ chối: {field} ({code}).",
        "Công việc con bị từ chối.",
    ),
    # Books.
    "PERIOD_CLOSED": (
        "Kỳ {period} của công ty {company} không mở ({status}); chưa có gì thay đổi.",
        "Kỳ không mở; chưa có gì thay đổi.",
    ),
    "PERIOD_UNKNOWN": (
        "Công ty {company} không có kỳ {period}; chưa có gì thay đổi.",
        "Không có kỳ này; chưa có gì thay đổi.",
    ),
    "PERIOD_NOT_READY": (
        "Kỳ {period} của công ty {company} vẫn mở như trước: {findings}. Hãy xử lý rồi khóa lại.",
        "Kỳ chưa khóa được và vẫn mở như trước; hãy xử lý các mục còn lại rồi khóa lại.",
    ),
    "CLOSE_UNDONE": ("Kỳ đã được chuyển trạng thái trong lúc khóa; hãy yêu cầu khóa lại.",),
    "CLOSE_NOT_ASKED": ("Không ai yêu cầu khóa kỳ này, hoặc yêu cầu đã bị hủy; hãy yêu cầu lại.",),
    "PREVIOUS_PERIOD_NOT_COSTED": (
        (
            "Thương hiệu {brands} có phát sinh trước kỳ này mà kỳ {period} chưa tính giá; hãy "
            "tính kỳ đó trước."
        ),
        "Kỳ trước chưa tính giá; hãy tính kỳ đó trước.",
    ),
    "METHOD_MISMATCH": (
        "Công việc yêu cầu phương pháp {method}, nhưng chính sách quy định khác cho: {items}.",
        "Phương pháp tính giá khác với chính sách của mặt hàng.",
    ),
    "ITEM_UNKNOWN": ("Công ty không có mặt hàng: {items}.", "Công ty không có mặt hàng này."),
    "RUN_UNKNOWN": ("Không có lượt tính giá {run_id} như vậy.", "Không có lượt tính giá như vậy."),
    "RUN_SUPERSEDED": (
        (
            "Lượt {run_id} của kỳ {period} đã bị thay nên không còn dòng nào để xuất; chưa ghi gì. "
            "Hãy xuất lượt đang dùng của kỳ."
        ),
        "Lượt tính giá đã bị thay nên không còn dòng nào để xuất; hãy xuất lượt đang dùng.",
    ),
    "COMPANY_WIDE": (
        (
            "Chứng từ giá vốn là của cả công ty, vì các thương hiệu có thể chung kho giá; hãy yêu "
            "cầu lại không nêu thương hiệu."
        ),
    ),
    "CHART_MISSING": ("Công ty chưa có hệ thống tài khoản; hãy chọn trước (chot ledger adopt).",),
    "COSTS_REFUSED": (
        (
            "Có chứng từ giá vốn của kỳ {period} không ghi sổ được: {documents}. Hãy sửa tài "
            "khoản của vai trò (chot ledger roles) rồi chạy lại; phần đã ghi vẫn giữ."
        ),
        "Có chứng từ giá vốn không ghi sổ được; hãy sửa tài khoản của vai trò rồi chạy lại.",
    ),
    "ATOMIC_REFUSED": (
        ("Không chứng từ nào được ghi sổ, vì có chứng từ lỗi: {outcomes}. Hãy sửa rồi ghi sổ lại."),
        "Không chứng từ nào được ghi sổ, vì có chứng từ lỗi; hãy sửa rồi ghi sổ lại.",
    ),
    # Imports and other tasks over many rows.
    "TOO_MANY_REJECTS": (
        (
            "{rows_failed} dòng không nhận được, nhiều hơn mức cho phép. Hãy xem các dòng bị loại "
            "(chot migrations rejects), sửa rồi chạy lại, hoặc cho phép nhiều hơn."
        ),
        "Quá nhiều dòng không nhận được; hãy xem danh sách dòng bị loại, sửa rồi chạy lại.",
    ),
    "FILE_UNKNOWN": ("Không có tệp này, hoặc đã bị xóa (tệp chỉ giữ vài ngày); hãy gửi lại.",),
    "FILE_GONE": ("Tệp không còn trong kho lưu; hãy gửi lại rồi nhập tệp mới gửi.",),
    "FILE_EMPTY": ("Tệp không có dòng nào có dữ liệu.",),
    "FILE_DAMAGED": ("Tệp bị hỏng hoặc không đọc được.",),
    "FILE_REFUSED": ("Tệp không được nhận.",),
    "FILE_TOO_LARGE": ("Tệp quá lớn.",),
    "FORMAT_UNKNOWN": ("Không nhận ra định dạng tệp; hãy lưu thành .xlsx không mật khẩu.",),
    "ENCODING_REFUSED": ("Không đọc được bảng mã của tệp; hãy lưu thành UTF-8.",),
    "HEADS_REFUSED": ("Dòng tiêu đề của tệp không hợp lệ.",),
    "COLUMNS_MISSING": ("Tệp thiếu cột bắt buộc.",),
    "COLUMNS_REFUSED": ("Tệp có cột trùng hoặc lạ; bỏ cột đó, hoặc dùng --ignore-others.",),
    "SHEET_UNKNOWN": ("Không có trang tính này trong tệp.",),
    "TOO_MANY_COLUMNS": ("Tệp có quá nhiều cột.",),
    "ROW_TOO_LARGE": ("Một dòng của tệp quá dài.",),
    "UNPACKS_TOO_LARGE": ("Tệp giải nén ra quá lớn.",),
    "STORAGE_UNSET": ("Nơi worker chạy chưa đặt CHOT_FILES_BUCKET nên không có kho tệp.",),
    "ACCOUNT_UNKNOWN": ("Hệ thống tài khoản của công ty không có tài khoản cần chuyển.",),
    "TASK_UNKNOWN": ("Worker này không có mã của tác vụ (CHOT_MIGRATION_MODULES).",),
    "TASK_CHANGED": (
        "Tác vụ đã bắt đầu bằng phiên bản khác với phiên bản của worker; hãy hủy rồi gửi lại.",
    ),
    "TASK_COMMITS": ("Tác vụ đã tự kết thúc giao dịch được giao, nên phần này không được bảo vệ.",),
    "BRAND_NOT_TAKEN": ("Tác vụ này là của cả công ty; hãy gửi lại không nêu thương hiệu.",),
    "KEY_NOT_UNIQUE": ("Khóa của tác vụ không duy nhất: một khóa có nhiều dòng.",),
    "KEY_UNKNOWN": ("Khóa của tác vụ nêu cột không có.",),
    "KEY_NULLABLE": ("Khóa của tác vụ có cột có thể rỗng, nên không có thứ tự.",),
    "REJECTS_STRANGE": ("Tác vụ báo loại những dòng không thuộc phần vừa xử lý.",),
}
# What keeps a period open, each with a count.
FINDINGS: Mapping[str, str] = {
    "EARLIER_PERIOD_OPEN": "kỳ trước chưa khóa",
    "ACTIVE_JOBS": "công việc ghi sổ của kỳ chưa xong",
    "NOT_COSTED": "mặt hàng chưa tính giá",
    "LATE_MOVEMENTS": "mặt hàng có phát sinh đến sau khi tính giá",
    "FAILED": "mặt hàng không tính được giá",
    "STALE": "mặt hàng tính trên số dư đầu đã đổi",
    "METHOD_CHANGED": "mặt hàng tính theo phương pháp đã đổi",
    "POOLS_CHANGED": "cửa hàng đã chuyển kho giá",
    "UNPOSTED_DOCUMENTS": "chứng từ còn ở dạng nháp",
    "LEDGER_DIFFERS": "giá trị hàng trên sổ cái khác với kho",
}
# A worker's own words for handing a job back.
RELEASED: Mapping[str, str] = {
    "the worker drains": "Worker đang dừng nên trả công việc lại.",
    "the attempt was cancelled": "Lần chạy bị ngắt; công việc được trả lại.",
}


def error_sentence(error: Any) -> str | None:
    """What an error means, in Vietnamese; None where only its own words say it."""
    if not isinstance(error, Mapping):
        return None
    code, message = error.get("code"), str(error.get("message") or "")
    if code is None:
        return RELEASED.get(message) if error.get("type") == "Released" else None
    code, details = str(code), error.get("details")
    known = dict(details) if isinstance(details, Mapping) else {}
    if code in {"LEASE_LOST", "WORKER_LOST"} and known.get("worker"):
        return _lost(known)
    if code == "TIMEOUT" and (found := RAN.search(message)):
        known["seconds"] = found[1]
    known |= {name: told for name, tell in TELLERS.items() if (told := tell(known))}
    return next((said for form in SENTENCES.get(code, ()) if (said := _filled(form, known))), None)


def _filled(form: str, known: Details) -> str | None:
    """The sentence with its values; None where one is not there."""
    values = {name: _said(known.get(name)) for name in re.findall(r"\{(\w+)\}", form)}
    return form.format(**values) if all(values.values()) else None


def _said(value: Any) -> str:
    """A value in a sentence; nothing for one that is not there."""
    if isinstance(value, list | dict):
        named = [str(each) for each in value]
        more = f" … (+{len(named) - MOST_NAMED})" if len(named) > MOST_NAMED else ""
        return ", ".join(named[:MOST_NAMED]) + more
    return "" if value is None else str(value)


def _fields(known: Details) -> str:
    return _said([each["field"] for each in _rows(known.get("errors"), "field")])


def _findings(known: Details) -> str:
    return "; ".join(
        f"{FINDINGS.get(each['code'], each['code'])} ({each.get('count', '?')})"
        for each in _rows(known.get("findings"), "code")
    )


def _documents(known: Details) -> str:
    return _said([each["document"] for each in _rows(known.get("documents"), "document")])


def _outcomes(known: Details) -> str:
    counted = known.get("outcomes")
    if not isinstance(counted, Mapping):
        return ""
    return ", ".join(f"{name} ({n})" for name, n in counted.items() if name != "NOT_POSTED")


def _rows(value: Any, name: str) -> list[Mapping[str, Any]]:
    """Those of a list that are what they should be; nobody has promised what details hold."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, Mapping) and isinstance(each.get(name), str)]


# What is a list of rows in the details, and one value in the sentence.
TELLERS: Mapping[str, Callable[[Details], str]] = {
    "fields": _fields,
    "findings": _findings,
    "documents": _documents,
    "outcomes": _outcomes,
}


def _lost(known: Details) -> str:
    """As api/lost_leases.py says it in English."""
    worker, seen, until = known["worker"], _local(known.get("seen_at")), known.get("lease_until")
    parts = [
        f"Worker {worker} báo lần cuối lúc {seen}" if seen else f"Worker {worker} đã im lặng",
        f"quyền giữ hết hạn lúc {_local(until)}" if until else "quyền giữ đã hết hạn",
    ]
    if known.get("taken_over_by"):
        at = _local(known.get("taken_over_at"))
        parts.append(f"worker {known['taken_over_by']} tiếp quản lúc {at}")
    elif known.get("noticed_at"):
        parts.append(f"việc đó được phát hiện lúc {_local(known['noticed_at'])}")
    return "; ".join(parts) + "."


def _local(said: Any) -> str | None:
    """An instant of the api in the companies' own time; None stays None."""
    if not said:
        return None
    return datetime.fromisoformat(str(said)).astimezone(LOCAL).strftime("%H:%M:%S %d/%m/%Y")

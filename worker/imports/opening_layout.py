"""Lines of opening stock (tồn đầu kỳ): what lies where, and what it is worth, on a day."""

from collections.abc import Mapping

from worker.imports.columns import Column, code, day, integer, number
from worker.imports.layout import Layout, Problem
from worker.imports.movement_layout import STAGED

# Where the file has no numbers of its own. An opening is found again by its day and place.
DOCUMENT = "SDDK"

COLUMNS: tuple[Column, ...] = (
    code("company", "Công ty", "Mã công ty"),
    code("brand", "Thương hiệu", "Nhãn hàng"),
    code("doc_id", "Số chứng từ", "Số CT", "doc no", most=60),
    integer("doc_line", "Dòng", "Số dòng", "line", "line no", least=1),
    day("posting_date", "Ngày", "Ngày hạch toán", "Ngày đầu kỳ", "date", required=True),
    code("store", "Kho", "Mã kho", "Cửa hàng", "Mã cửa hàng", "warehouse", required=True),
    code("item", "Mã hàng", "Mã vật tư", "Mã hàng hóa", "Mã SP", "sku", "item code", required=True),
    number("quantity", "Số lượng", "SL", "SL tồn", "Số lượng tồn", "qty", required=True),
    code("uom", "ĐVT", "Đơn vị tính", "unit"),
    number("value", "Giá trị", "Giá trị tồn", "Thành tiền", "Dư nợ", "amount", required=True),
    code("lot", "Số lô", "Lô", "lot id", "serial"),
)


def judge(values: Mapping[str, str]) -> list[Problem]:
    """What the line's own columns contradict each other in."""
    problems = []
    if values["quantity"].startswith("-") or not values["quantity"].strip("0."):
        problems.append(Problem("quantity", "of an opening is above 0"))
    if values["value"].startswith("-"):
        problems.append(Problem("value", "of an opening is 0 or above"))
    return problems


def complete(values: dict[str, str], line: int) -> None:
    """What an opening movement has and the file need not say."""
    values["kind"] = "opening"
    values.setdefault("doc_id", DOCUMENT)
    values.setdefault("doc_line", str(line))


OPENINGS = Layout(
    name="openings",
    columns=COLUMNS,
    staged=STAGED,
    table="import_movements",
    judge=judge,
    complete=complete,
)

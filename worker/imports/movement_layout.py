"""Lines of movements: their columns, and what the columns of one line must agree on."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

from worker.imports.cells import words
from worker.imports.columns import Column, choice, code, day, integer, number
from worker.imports.layout import Layout, Problem

KINDS = words(
    ("opening", "tồn đầu", "tồn đầu kỳ", "số dư đầu kỳ"),
    ("receipt", "nhập", "nhập kho", "nhập mua", "mua hàng"),
    ("issue", "xuất", "xuất kho", "xuất bán", "bán hàng"),
    ("transfer", "chuyển kho", "điều chuyển", "chuyển nội bộ"),
    ("sales_return", "hàng bán trả lại", "khách trả", "khách trả lại"),
    ("purchase_return", "trả hàng mua", "trả lại nhà cung cấp", "xuất trả"),
    ("landed_cost", "chi phí mua hàng", "phí vận chuyển"),
    ("produce", "nhập thành phẩm", "nhập sản xuất"),
    ("consume", "xuất sản xuất", "xuất dùng"),
    ("adjust_in", "điều chỉnh tăng", "kiểm kê thừa", "thừa"),
    ("adjust_out", "điều chỉnh giảm", "kiểm kê thiếu", "thiếu", "hao hụt"),
    ("count", "kiểm kê"),
)
BASES = words(("original", "giá gốc"), ("average", "bình quân"))
CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
WITHOUT_VALUE = frozenset({"transfer", "issue", "consume", "adjust_out"})
REFERRING = frozenset({"sales_return", "purchase_return", "landed_cost"})

COLUMNS: tuple[Column, ...] = (
    code("company", "Công ty", "Mã công ty"),
    code("brand", "Thương hiệu", "Nhãn hàng"),
    code("doc_id", "Số chứng từ", "Số CT", "Số phiếu", "doc no", required=True, most=60),
    integer("doc_line", "Dòng", "Số dòng", "line", "line no", least=1, required=True),
    choice("kind", KINDS, "Loại", "Nghiệp vụ", "Loại nghiệp vụ", "type", required=True),
    day("posting_date", "Ngày hạch toán", "Ngày", "Ngày ghi sổ", "date", required=True),
    integer("posting_seq", "Thứ tự", "seq"),
    code("store", "Kho", "Mã kho", "Cửa hàng", "Mã cửa hàng", "warehouse", required=True),
    code("to_store", "Kho đến", "Kho nhập", "Kho nhận", "Đến kho", "to warehouse"),
    code("item", "Mã hàng", "Mã vật tư", "Mã hàng hóa", "Mã SP", "sku", "item code", required=True),
    number("quantity", "Số lượng", "SL", "qty", required=True),
    code("uom", "ĐVT", "Đơn vị tính", "unit"),
    number("value", "Giá trị", "Thành tiền", "Số tiền", "amount"),
    code("lot", "Số lô", "Lô", "lot id", "serial"),
    code("currency", "Loại tiền", "Ngoại tệ", "Mã ngoại tệ", most=3),
    number("fc_amount", "Tiền ngoại tệ", "Thành tiền ngoại tệ", "Số tiền nguyên tệ"),
    number("fc_rate", "Tỷ giá", "rate", "exchange rate"),
    code("ref_doc", "Chứng từ gốc", "Số chứng từ gốc", most=60),
    integer("ref_line", "Dòng gốc", "Dòng chứng từ gốc", least=1),
    choice("cost_basis", BASES, "Giá trả lại"),
    code("reverses_doc", "Đảo chứng từ", most=60),
    integer("reverses_line", "Đảo dòng", least=1),
)
STAGED = (
    "posting_date",
    "posting_seq",
    "doc_line",
    "doc_id",
    "kind",
    "brand",
    "store",
    "to_store",
    "item",
    "quantity",
    "uom",
    "value",
    "lot",
    "currency",
    "fc_amount",
    "fc_rate",
    "ref_doc",
    "ref_line",
    "cost_basis",
    "reverses_doc",
    "reverses_line",
)


def judge(values: Mapping[str, str]) -> list[Problem]:
    """What the line's own columns contradict each other in."""
    kind = values["kind"]
    return [
        problem
        for problem in (
            _quantity(kind, values["quantity"]),
            _value(kind, values),
            _target(kind, values),
            _reference(kind, values),
            _currency(values),
            _pair(values, "reverses_doc", "reverses_line"),
        )
        if problem is not None
    ]


# What judge() asks of these is whether they are there.
ASKED = ("ref_doc", "ref_line", "cost_basis", "reverses_doc", "reverses_line")
IN_CURRENCY = ("currency", "fc_amount", "fc_rate")


def shapes(values: Mapping[str, Sequence[str]]) -> Iterable[Hashable | None]:
    """What judge() goes by, line by line; None for one in another currency."""
    of: list[Sequence[Hashable]] = [
        values["kind"],
        [(q[:1] == "-", not q.strip("-0.")) for q in values["quantity"]],
    ]
    if "value" in values:
        of.append([v[:1] == "-" if v else None for v in values["value"]])
    if "to_store" in values:
        pairs = zip(values["to_store"], values["store"], strict=True)
        of.append([to and to == store for to, store in pairs])
    of += [[bool(cell) for cell in values[name]] for name in ASKED if name in values]
    found: Iterable[Hashable] = zip(*of, strict=True)
    foreign = [values[name] for name in IN_CURRENCY if name in values]
    if any(map(any, foreign)):
        spared = [any(cells) for cells in zip(*foreign, strict=True)]
        return [None if odd else shape for odd, shape in zip(spared, found, strict=True)]
    return found


def _quantity(kind: str, quantity: str) -> Problem | None:
    nothing = not quantity.strip("-0.")
    if kind == "landed_cost":
        return None if nothing else Problem("quantity", "of a landed_cost is 0")
    if quantity.startswith("-") and not nothing:
        return Problem("quantity", "is below 0: what goes out is told by the kind, not by a sign")
    if nothing and kind != "count":
        return Problem("quantity", f"of a line of kind {kind} is above 0")
    return None


def _value(kind: str, values: Mapping[str, str]) -> Problem | None:
    if kind in WITHOUT_VALUE:
        if "value" in values or "fc_amount" in values:
            column = "value" if "value" in values else "fc_amount"
            return Problem(column, f"of a line of kind {kind} stays empty: costing finds its cost")
    elif kind != "landed_cost" and values.get("value", "").startswith("-"):
        return Problem("value", f"of a line of kind {kind} is 0 or above")
    return None


def _target(kind: str, values: Mapping[str, str]) -> Problem | None:
    target = values.get("to_store")
    if kind == "transfer":
        if target is None:
            return Problem("to_store", "is empty, and a transfer goes somewhere")
        if target == values["store"]:
            return Problem("to_store", "is the store that the transfer comes from")
    elif target is not None:
        return Problem("to_store", f"of a line of kind {kind} stays empty: only a transfer has one")
    return None


def _reference(kind: str, values: Mapping[str, str]) -> Problem | None:
    if "ref_doc" in values and kind not in REFERRING:
        return Problem("ref_doc", f"of a line of kind {kind} stays empty: it refers to nothing")
    if "cost_basis" in values and kind != "purchase_return":
        return Problem("cost_basis", f"of a line of kind {kind} stays empty")
    return _pair(values, "ref_doc", "ref_line")


def _currency(values: Mapping[str, str]) -> Problem | None:
    currency = values.get("currency")
    if currency is None:
        return next(
            (
                Problem(c, "has no currency beside it")
                for c in ("fc_amount", "fc_rate")
                if c in values
            ),
            None,
        )
    if not (
        len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()
    ):
        return Problem("currency", "is not three capitals such as USD")
    if "fc_amount" not in values:
        return Problem("fc_amount", "is empty beside a currency")
    rate = values.get("fc_rate")
    if rate is not None and (rate.startswith("-") or not rate.strip("0.")):
        return Problem("fc_rate", "is not above 0")
    return None


def _pair(values: Mapping[str, str], first: str, second: str) -> Problem | None:
    if (first in values) == (second in values):
        return None
    missing = second if first in values else first
    return Problem(missing, f"is empty: {first} and {second} name one line together")


MOVEMENTS = Layout(
    name="movements",
    columns=COLUMNS,
    staged=STAGED,
    table="import_movements",
    judge=judge,
    shapes=shapes,
)

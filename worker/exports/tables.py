"""The tables of a cost run: their columns, and the cells of a row as the database gave it.

Heads are English, with the words of a Vietnamese ledger. Quantities are in the item's base unit,
values in the company's currency; a pool's row adds up: opening + in = out + closing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.costs.flows import BESIDE, IN, OUT
from shared.costs.shown import half_up, scaled, unit_price
from worker.exports.cells import Cell, Column, Number, Row

DbRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: `names` are the database's columns that its cells are made of."""

    title: str
    columns: Sequence[Column]
    names: Sequence[str]
    _cells: Callable[[DbRow, int, int], Iterator[Cell]]

    def cells(self, row: Sequence[Any], *, minor_digits: int, digits: int) -> Row:
        """The cells of a row whose values stand in the order of `names`."""
        return list(self._cells(dict(zip(self.names, row, strict=True)), minor_digits, digits))


def _both(head: str, words: str) -> list[Column]:
    return [
        Column(f"{head}: quantity ({words}: số lượng)"),
        Column(f"{head}: value ({words}: giá trị)"),
    ]


WORDS = {
    "opening": ("Opening", "Tồn đầu kỳ"),
    "receipt": ("Received, made", "Nhập mua, sản xuất"),
    "gain": ("Found", "Nhập thừa, điều chỉnh tăng"),
    "sales_return": ("Sales returned", "Nhập hàng bán trả lại"),
    "transfer_in": ("From other pools", "Nhập điều chuyển"),
    "issue": ("Sold", "Xuất bán, giá vốn"),
    "usage": ("Used, short", "Xuất dùng, sản xuất, thiếu, điều chỉnh giảm"),
    "purchase_return": ("Returned to supplier", "Xuất trả nhà cung cấp"),
    "transfer_out": ("To other pools", "Xuất điều chuyển"),
    "closing": ("Closing", "Tồn cuối kỳ"),
}
ITEM = [
    Column("Brand (Thương hiệu)", 10),
    Column("Pool (Kho tính giá)", 12),
    Column("Item (Mã hàng)", 16),
    Column("Name (Tên hàng)", 32),
    Column("Unit (ĐVT)", 8),
]


def _flows(row: DbRow, names: Sequence[str], minor_digits: int) -> Iterator[Cell]:
    for name in names:
        yield Number(scaled(row[f"q_{name}"], row["qty_scale"]))
        yield Number(scaled(row[f"v_{name}"], minor_digits))


def _total(
    row: DbRow, names: Sequence[str], minor_digits: int, *, beside: Sequence[str] = ()
) -> Iterator[Cell]:
    yield Number(scaled(sum(row[f"q_{name}"] for name in names), row["qty_scale"]))
    yield Number(scaled(sum(row[f"v_{name}"] for name in (*names, *beside)), minor_digits))


def _results(row: DbRow, minor_digits: int, digits: int) -> Iterator[Cell]:
    yield from (row["brand"], row["pool"], row["item"], row["name"], row["base_uom"])
    yield from _flows(row, ("opening", *IN), minor_digits)
    yield from _total(row, IN, minor_digits)
    yield from _flows(row, OUT, minor_digits)
    yield from (Number(scaled(row[f"v_{name}"], minor_digits)) for name in BESIDE)
    yield from _total(row, OUT, minor_digits, beside=BESIDE)
    yield from _flows(row, ("closing",), minor_digits)
    price = unit_price(
        int(row["price_num"]),
        int(row["price_den"]),
        qty_scale=row["qty_scale"],
        minor_digits=minor_digits,
    )
    if price is None:
        yield from (None, None, None)
    else:
        yield Number(half_up(*price, digits))
        yield from (Number(part) for part in price)
    yield Number(scaled(row["v_variance"], minor_digits))
    yield row["method"]
    yield Number(row["scc_size"])
    yield Number(row["pushes"])
    yield "yes" if row["dipped"] else None
    yield None if row["speaks"] else "replaced"
    yield "stale" if row["stale"] else None


FLOW_NAMES = ("opening", *IN, *OUT, "closing")
RESULTS = Table(
    title="Results",
    columns=[
        *ITEM,
        *(column for name in ("opening", *IN) for column in _both(*WORDS[name])),
        *_both("In", "Tổng nhập"),
        *(column for name in OUT for column in _both(*WORDS[name])),
        Column("Rounding (Chênh lệch làm tròn)"),
        Column("True-up (Chênh lệch xuất âm kho)"),
        *_both("Out", "Tổng xuất"),
        *_both(*WORDS["closing"]),
        Column("Unit price (Đơn giá vốn)"),
        Column("Unit price, numerator (tử số)"),
        Column("Unit price, denominator (mẫu số)"),
        Column("Variance beside stock, 632 (Chênh lệch ngoài tồn kho)"),
        Column("Method (Phương pháp)"),
        Column("Pools solved together"),
        Column("Residues pushed"),
        Column("Negative within period (Âm trong kỳ)"),
        Column("Replaced by a later run"),
        Column("Stale"),
    ],
    names=(
        *("brand", "pool", "item", "name", "base_uom", "qty_scale"),
        *(f"{side}_{name}" for name in FLOW_NAMES for side in ("q", "v")),
        *(f"v_{name}" for name in (*BESIDE, "variance")),
        *("price_num", "price_den", "method", "scc_size", "pushes", "dipped", "speaks", "stale"),
    ),
    _cells=_results,
)

STORE_FLOWS = {
    "opening": WORDS["opening"],
    "in": ("In", "Nhập"),
    "transfer_in": ("From other stores", "Nhập điều chuyển"),
    "out": ("Out", "Xuất"),
    "transfer_out": ("To other stores", "Xuất điều chuyển"),
    "closing": WORDS["closing"],
}


def _stores(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from (row["brand"], row["store"], row["store_name"], row["pool"], row["item"])
    yield from (row["name"], row["base_uom"])
    yield from _flows(row, tuple(STORE_FLOWS), minor_digits)
    yield Number(scaled(row["v_averaging"], minor_digits))


STORES = Table(
    title="Stores",
    columns=[
        Column("Brand (Thương hiệu)", 10),
        Column("Store (Kho)", 10),
        Column("Store name (Tên kho)", 24),
        *ITEM[1:],
        *(column for words in STORE_FLOWS.values() for column in _both(*words)),
        Column("Moved by the pool's common price (Chênh lệch do giá chung)"),
    ],
    names=(
        *("brand", "store", "store_name", "pool", "item", "name", "base_uom", "qty_scale"),
        *(f"{side}_{name}" for name in STORE_FLOWS for side in ("q", "v")),
        "v_averaging",
    ),
    _cells=_stores,
)


def _movements(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield Number(row["id"])
    yield row["posting_date"].isoformat()
    yield from (row["doc_id"], Number(row["doc_line"]), row["kind"], row["brand"], row["store"])
    yield from (row["to_store"], row["item"], row["name"], row["lot_id"], row["base_uom"])
    scale = row["qty_scale"]
    yield Number(scaled(row["qty_base"], scale))
    difference = row["qty_diff"]
    yield None if difference is None else Number(scaled(difference, scale))
    for name in ("value", "variance", "true_up"):
        yield Number(scaled(row[name], minor_digits))
    for name in ("ref_movement_id", "reverses_movement_id"):
        yield None if row[name] is None else Number(row[name])


MOVEMENTS = Table(
    title="Movements",
    columns=[
        Column("Movement (Số bút toán)"),
        Column("Date (Ngày)", 11),
        Column("Document (Chứng từ)", 16),
        Column("Line (Dòng)", 6),
        Column("Kind (Loại)"),
        Column("Brand (Thương hiệu)", 10),
        Column("Store (Kho)", 10),
        Column("To store (Kho nhận)", 10),
        *ITEM[2:4],
        Column("Lot (Số lô)", 12),
        ITEM[4],
        Column("Quantity (Số lượng)"),
        Column("Count difference (Chênh lệch kiểm kê)"),
        Column("Cost (Giá vốn)"),
        Column("Variance beside stock, 632"),
        Column("True-up, 632"),
        Column("Refers to (Tham chiếu)"),
        Column("Reverses (Đảo)"),
    ],
    names=(
        *("id", "posting_date", "doc_id", "doc_line", "kind", "brand", "store", "to_store"),
        *("item", "name", "lot_id", "base_uom", "qty_scale", "qty_base", "qty_diff", "value"),
        *("variance", "true_up", "ref_movement_id", "reverses_movement_id"),
    ),
    _cells=_movements,
)


def _errors(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from (row["brand"], row["pool"], row["item"], row["name"], row["code"], row["detail"])
    if row["id"] is None:
        yield from (None,) * 8
        return
    yield Number(row["id"])
    yield row["posting_date"].isoformat()
    yield from (row["doc_id"], Number(row["doc_line"]), row["kind"], row["store"])
    yield Number(scaled(row["qty_base"], row["qty_scale"]))
    yield None if row["value"] is None else Number(scaled(row["value"], minor_digits))


ERRORS = Table(
    title="Errors",
    columns=[
        *ITEM[:4],
        Column("Error (Mã lỗi)", 24),
        Column("What it means (Diễn giải)", 60),
        *MOVEMENTS.columns[:5],
        Column("Store (Kho)", 10),
        Column("Quantity (Số lượng)"),
        Column("Value as posted (Giá trị ghi nhận)"),
    ],
    names=(
        *("brand", "pool", "item", "name", "code", "detail", "id", "posting_date", "doc_id"),
        *("doc_line", "kind", "store", "qty_base", "qty_scale", "value"),
    ),
    _cells=_errors,
)


def _differences(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from (row["item"], row["name"], row["brand"], row["account"])
    before, after = int(row["before"]), int(row["after"])
    yield from (Number(scaled(each, minor_digits)) for each in (before, after, after - before))


DIFFERENCES = Table(
    title="Differences",
    columns=[
        *ITEM[2:4],
        ITEM[0],
        Column("Account (Tài khoản)", 10),
        Column("Now: debit less credit (Hiện tại)"),
        Column("After (Sau khi tính lại)"),
        Column("Difference (Chênh lệch)"),
    ],
    names=("item", "name", "brand", "account", "before", "after"),
    _cells=_differences,
)

TABLES: Mapping[str, Table] = {
    "results": RESULTS,
    "stores": STORES,
    "movements": MOVEMENTS,
    "errors": ERRORS,
    "differences": DIFFERENCES,
}

"""The sample company's month as files: items, openings, movements, and the documents of all of it.

The documents belong to the movements, number by number: what a purchase states is what its receipt
is worth, a return to the supplier gives back what the goods had cost. So the ledger can be held
against costing, to the last đồng.
"""

import csv
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import count, groupby
from pathlib import Path
from typing import NamedTuple

from dev.sample_catalogue import BRANDS, Item, catalogue, shops
from dev.sample_movements import Habits, Month

HABITS = Habits(transfers=8.0, freight=0.8, counts=0.5)
CUSTOMERS, SUPPLIER, LANDLORD = "KHACH-LE", "NCC-01", "CHU-NHA"
VAT_PERCENT = 8
MARKUP_PERCENT = 135
RENT, WAGES = 25_000_000, 60_000_000
TYPES = {
    "issue": "sale",
    "sales_return": "sale_return",
    "receipt": "purchase",
    "landed_cost": "purchase",
    "purchase_return": "purchase_return",
    "transfer": "transfer",
}
MOVEMENT_HEADS = (
    *("doc_id", "doc_line", "kind", "posting_date", "posting_seq", "store", "to_store", "item"),
    *("quantity", "value", "ref_doc", "ref_line", "cost_basis"),
)
DOCUMENT_HEADS = (
    *("type", "doc_no", "doc_date", "store", "to_store", "party", "total", "vat_total", "line_no"),
    *("item", "qty", "net", "vat", "vat_rate", "side", "line_account", "line_store", "memo"),
)


class Moved(NamedTuple):
    """A movement of the stream; quantity in scaled units, value in đồng."""

    id: int
    company: str
    brand: str
    item: str
    store: str
    to_brand: str | None
    to_store: str | None
    kind: str
    doc_id: str
    line: int
    day: date
    sequence: int
    quantity: int
    value: int | None
    ref: int | None
    basis: str | None
    lot: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthFiles:
    """Where the files are, and how many lines each has (documents: how many documents)."""

    items: Path
    openings: Path
    movements: Path
    documents: Path
    lines: Mapping[str, int]


def write_month(
    directory: Path, *, seed: int, movements: int, items: int, first_day: date, last_day: date
) -> MonthFiles:
    """Write the four files as CSV. The same numbers give the same bytes."""
    dice = random.Random(seed)
    articles = catalogue(dice, items)
    month = Month(
        dice,
        articles,
        shops(),
        company="",
        first_day=first_day,
        last_day=last_day,
        movements=movements,
        next_id=count(1).__next__,
        habits=HABITS,
    )
    moved = [_renumbered(Moved(*row)) for row in month.rows()]  # type: ignore[arg-type] # as COLUMNS
    by_code = {article.code: article for article in articles}
    documents = list(_documents(moved, by_code, first_day, last_day))
    files = MonthFiles(
        items=directory / "items.csv",
        openings=directory / "openings.csv",
        movements=directory / "movements.csv",
        documents=directory / "documents.csv",
        lines={
            "items": len(articles),
            "openings": sum(each.kind == "opening" for each in moved),
            "movements": sum(each.kind != "opening" for each in moved),
            "documents": len(documents),
        },
    )
    _write(files.items, ITEM_HEADS, _items(articles))
    _write(files.openings, OPENING_HEADS, _openings(moved, by_code))
    _write(files.movements, MOVEMENT_HEADS, _movements(moved, by_code))
    _write(files.documents, DOCUMENT_HEADS, (line for each in documents for line in each))
    return files


ITEM_HEADS = ("Mã hàng", "Tên hàng", "ĐVT", "Số lẻ", "Nhóm hàng")
OPENING_HEADS = ("posting_date", "store", "item", "quantity", "value")
Line = dict[str, object]


def _renumbered(moved: Moved) -> Moved:
    """A document has one kind and one target; some slips of the stream have several."""
    number = moved.doc_id
    if moved.kind == "transfer":
        number = f"{number}.{moved.to_store}"
    elif moved.kind == "purchase_return":
        number = f"TM-{number}-{moved.line}"
    elif moved.kind == "landed_cost":
        number = f"CP-{number}-{moved.line}"
    return moved._replace(doc_id=number)


def _items(articles: Sequence[Item]) -> Iterator[Sequence[object]]:
    for each in articles:
        group = each.brand or "CHUNG"
        yield (each.code, each.name, each.base_uom, each.qty_scale, group)


def _openings(moved: Sequence[Moved], articles: Mapping[str, Item]) -> Iterator[Sequence[object]]:
    for each in moved:
        if each.kind == "opening":
            quantity = _quantity(each.quantity, articles[each.item])
            yield (each.day, each.store, each.item, quantity, each.value)


def _movements(moved: Sequence[Moved], articles: Mapping[str, Item]) -> Iterator[Sequence[object]]:
    named = {each.id: (each.doc_id, each.line) for each in moved}
    for each in moved:
        if each.kind == "opening":
            continue
        ref = ("", "") if each.ref is None else named[each.ref]
        quantity = _quantity(each.quantity, articles[each.item])
        yield (
            each.doc_id,
            each.line,
            each.kind,
            each.day,
            each.sequence,
            each.store,
            each.to_store,
            each.item,
            quantity,
            each.value,
            *ref,
            each.basis,
        )


def _documents(
    moved: Sequence[Moved], articles: Mapping[str, Item], first_day: date, last_day: date
) -> Iterator[list[Line]]:
    yield from _opening_balances(moved, first_day)
    by_id = {each.id: each for each in moved}
    goods = [each for each in moved if each.kind in TYPES]
    takings: dict[str, int] = {}
    for number, rows in _by_document(goods):
        head, lines = rows[0], [_line(each, by_id, articles) for each in rows]
        document = _document(number, head, lines)
        if document[0]["type"] == "sale":
            takings[head.store] = takings.get(head.store, 0) + int(str(document[0]["total"]))
        yield document
    yield from _money(takings, last_day)


def _by_document(goods: Iterable[Moved]) -> Iterator[tuple[str, list[Moved]]]:
    """Document by document, in the order of their first lines; a number is of one document."""
    found: dict[str, list[Moved]] = {}
    for each in goods:
        found.setdefault(each.doc_id, []).append(each)
    yield from found.items()


def _line(moved: Moved, by_id: Mapping[int, Moved], articles: Mapping[str, Item]) -> Line:
    article = articles[moved.item]
    net: int | None = moved.value
    if moved.kind == "purchase_return":
        # What leaves is worth what it was bought for, a half going up; so says costing, too.
        bought = by_id[moved.ref or 0]
        net = _part(bought.value or 0, moved.quantity, bought.quantity)
    elif moved.kind in {"issue", "sales_return"}:
        net = _part(article.cost * MARKUP_PERCENT, moved.quantity, 100 * article.one)
    elif moved.kind == "transfer":
        net = None
    line: Line = {"line_no": moved.line, "item": moved.item, "net": net}
    if moved.kind != "landed_cost":
        line["qty"] = _quantity(moved.quantity, article)
    if net is not None:
        line |= {"vat": _part(net, VAT_PERCENT, 100), "vat_rate": VAT_PERCENT}
    return line


def _document(number: str, head: Moved, lines: list[Line]) -> list[Line]:
    """VAT is stated for the whole, so that it differs from that of the lines by some đồng."""
    type_ = TYPES[head.kind]
    whole: Line = {
        "type": type_,
        "doc_no": number,
        "doc_date": head.day,
        "store": head.store,
        "to_store": head.to_store,
    }
    if type_ != "transfer":
        net = sum(int(str(line["net"])) for line in lines)
        vat = _part(net, VAT_PERCENT, 100)
        party = CUSTOMERS if type_ in {"sale", "sale_return"} else SUPPLIER
        whole |= {"party": party, "total": net + vat, "vat_total": vat}
    return [whole | line if n == 0 else _known(whole) | line for n, line in enumerate(lines)]


def _known(whole: Line) -> Line:
    """What every line of a document repeats."""
    return {name: whole[name] for name in ("type", "doc_no", "doc_date")}


def _opening_balances(moved: Sequence[Moved], day: date) -> Iterator[list[Line]]:
    opened = sorted((each for each in moved if each.kind == "opening"), key=lambda m: m.store)
    for store, rows in groupby(opened, key=lambda each: each.store):
        lines = [
            {"side": "debit", "line_account": "1561", "item": each.item, "net": each.value}
            for each in rows
            if each.value
        ]
        owned = sum(int(str(line["net"])) for line in lines)
        lines.append({"side": "credit", "line_account": "41111", "net": owned})
        memo = "Số dư đầu kỳ / opening balance"
        whole = {"type": "opening", "doc_no": f"SDDK-{store}", "doc_date": day, "store": store}
        yield [
            whole | {"memo": memo if n == 0 else ""} | {"line_no": n + 1} | line
            for n, line in enumerate(lines)
        ]


def _money(takings: Mapping[str, int], day: date) -> Iterator[list[Line]]:
    """Takings and rent of each store, wages of the company."""
    for store, sold in takings.items():
        paid = {"store": store, "doc_date": day, "vat_total": 0, "line_no": 1}
        taken = {"type": "cash_in", "doc_no": f"PT-{store}", "party": CUSTOMERS}
        yield [paid | taken | {"total": sold, "net": sold}]
        rent = {"type": "cash_out", "doc_no": f"PC-{store}", "party": LANDLORD}
        yield [paid | rent | {"total": RENT, "net": RENT, "line_account": "6427"}]
    whole: Line = {"type": "manual", "doc_no": "LUONG-01", "doc_date": day}
    wages = WAGES * len(BRANDS)
    yield [
        whole | {"line_no": 1, "side": "debit", "line_account": "6421", "net": wages},
        whole | {"line_no": 2, "side": "credit", "line_account": "3341", "net": wages},
    ]


def _part(value: int, share: int, whole: int) -> int:
    """R(value · share / whole), a half going up."""
    return (2 * value * share + whole) // (2 * whole)


def _quantity(scaled: int, article: Item) -> str:
    return f"{Decimal(scaled).scaleb(-article.qty_scale):f}"


def _write(
    path: Path, heads: Sequence[str], rows: Iterable[Sequence[object] | Mapping[str, object]]
) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        for row in rows:
            cells = [row.get(head) for head in heads] if isinstance(row, Mapping) else row
            writer.writerow(["" if cell is None else cell for cell in cells])

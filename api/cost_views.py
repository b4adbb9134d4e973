"""Results, errors and differences as the api shows them, exactly: as decimal strings.

Values are in the company's currency, quantities in the item's base unit.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from shared.costs.flows import BESIDE, IN, OUT
from shared.costs.shown import price_view, scaled

Row = RowMapping


class Amount(BaseModel):
    """A quantity with its value."""

    qty: str
    value: str


class Incoming(BaseModel):
    """What came in (Nhập), by flow."""

    receipt: Amount
    gain: Amount = Field(description="found: counts, adjustments")
    sales_return: Amount
    transfer_in: Amount = Field(description="from other pools")
    total: Amount


class Outgoing(BaseModel):
    """What went out (Xuất), by flow; the value of `total` holds rounding and true-up, too."""

    issue: Amount = Field(description="sold")
    usage: Amount = Field(description="consumed, short, adjusted")
    purchase_return: Amount
    transfer_out: Amount = Field(description="to other pools")
    rounding: str = Field(description="value of no movement: by the residue policy, or of a debt")
    true_up: str = Field(
        description="what covering negative stock cost beyond its provisional cost"
    )
    total: Amount


class UnitPrice(BaseModel):
    """Currency a base unit: the exact quotient num / den, and what it is rounded half up."""

    num: str
    den: str
    shown: str


class ResultView(BaseModel):
    """An item in a cost pool over the period: opening + in = out + closing."""

    model_config = ConfigDict(populate_by_name=True)

    run_id: int
    brand: str | None = Field(description="null: a pool that brands share")
    pool: str
    item: str
    name: str
    unit: str
    opening: Amount = Field(description="Tồn đầu kỳ")
    incoming: Incoming = Field(alias="in")
    out: Outgoing
    closing: Amount = Field(description="Tồn cuối kỳ")
    variance: str = Field(description="beside the stock: a debit of 632, below 0 a credit")
    unit_price: UnitPrice | None = Field(description="null: there was no quantity to price")
    method: str | None
    scc_size: int = Field(description="pools whose prices were solved together; 1: this one alone")
    pushes: int = Field(description="how many residues were pushed through this pool")
    negative_within_period: bool
    speaks: bool = Field(description="false: a later run has replaced this item's result")
    stale: bool = Field(description="an earlier period was costed anew since")


def result_view(row: Row, *, minor_digits: int, digits: int) -> dict[str, Any]:
    """What ResultView describes, of a row of shared.costs.rows."""
    scale = row["qty_scale"]

    def amount(qty: int, value: int) -> dict[str, str]:
        return {"qty": scaled(qty, scale), "value": scaled(value, minor_digits)}

    def flow(name: str) -> dict[str, str]:
        return amount(row[f"q_{name}"], row[f"v_{name}"])

    beside = {name: row[f"v_{name}"] for name in BESIDE}
    total_in = [sum(row[f"{side}_{name}"] for name in IN) for side in ("q", "v")]
    total_out = [sum(row[f"{side}_{name}"] for name in OUT) for side in ("q", "v")]
    shown = {name: scaled(value, minor_digits) for name, value in beside.items()}
    price = price_view(
        int(row["price_num"]),
        int(row["price_den"]),
        qty_scale=scale,
        minor_digits=minor_digits,
        digits=digits,
    )
    return {
        "run_id": row["run_id"],
        "brand": row["brand"] or None,
        "pool": row["pool"],
        "item": row["item"],
        "name": row["name"],
        "unit": row["base_uom"],
        "opening": flow("opening"),
        "in": {name: flow(name) for name in IN} | {"total": amount(*total_in)},
        "out": {name: flow(name) for name in OUT}
        | shown
        | {"total": amount(total_out[0], total_out[1] + sum(beside.values()))},
        "closing": flow("closing"),
        "variance": scaled(row["v_variance"], minor_digits),
        "unit_price": price,
        "method": row["method"],
        "scc_size": row["scc_size"],
        "pushes": row["pushes"],
        "negative_within_period": row["dipped"],
        "speaks": row["speaks"],
        "stale": row["stale"],
    }


class NamedMovement(BaseModel):
    """A movement that an error names."""

    id: int
    date: str
    kind: str
    store: str
    to_store: str | None
    document: str
    line: int
    qty: str
    value: str | None = Field(description="as it was posted; null: nothing was")
    lot: str | None
    refers_to: int | None
    reverses: int | None


class ErrorView(BaseModel):
    """Why an item could not be costed; at most 20 movements are named."""

    brand: str
    item: str
    name: str
    pool: str | None = Field(description="null: the item as a whole")
    code: str = Field(examples=["NEGATIVE_STOCK"])
    detail: str
    movements: list[NamedMovement]


def error_view(row: Row, movements: Mapping[int, Row], *, minor_digits: int) -> dict[str, Any]:
    """What ErrorView describes; `movements` are those that may be seen."""
    named = [movements[each] for each in row["movement_ids"] if each in movements]
    own = {name: row[name] for name in ("brand", "item", "name", "pool", "code", "detail")}
    return own | {"movements": [_movement_view(each, minor_digits) for each in named]}


def _movement_view(row: Row, minor_digits: int) -> dict[str, Any]:
    value = row["value"]
    return {
        "id": row["id"],
        "date": row["posting_date"].isoformat(),
        "kind": row["kind"],
        "store": row["store"],
        "to_store": row["to_store"],
        "document": row["doc_id"],
        "line": row["doc_line"],
        "qty": scaled(row["qty_base"], row["qty_scale"]),
        "value": None if value is None else scaled(value, minor_digits),
        "lot": row["lot_id"],
        "refers_to": row["ref_movement_id"],
        "reverses": row["reverses_movement_id"],
    }


class DifferenceView(BaseModel):
    """What a preview would change on an account, of an item of a brand: debits less credits."""

    item: str
    name: str
    brand: str
    account: str
    before: str = Field(description="by the active results")
    after: str = Field(description="by the preview")
    difference: str


class AccountDifference(BaseModel):
    """The same of a whole account."""

    account: str
    before: str
    after: str
    difference: str


def difference_view(row: Row, *, minor_digits: int) -> dict[str, Any]:
    """What DifferenceView describes, or AccountDifference for a row of a whole account."""
    before, after = int(row["before"]), int(row["after"])
    named = {name: row[name] for name in ("item", "name", "brand", "account") if name in row}
    amounts = {"before": before, "after": after, "difference": after - before}
    return named | {name: scaled(amount, minor_digits) for name, amount in amounts.items()}

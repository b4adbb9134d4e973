"""Why an item could not be costed: stable codes, words, and the movements that cause it."""

from enum import StrEnum
from typing import NamedTuple

# Enough to find the documents; the rest is counted in the detail.
NAMED_MOVEMENTS = 20


class Code(StrEnum):
    """Stable codes of item errors; a client may branch on them."""

    NEGATIVE_STOCK = "NEGATIVE_STOCK"
    MISSING_COST = "MISSING_COST"
    ORPHAN_VALUE = "ORPHAN_VALUE"
    RETURN_WITHOUT_REF = "RETURN_WITHOUT_REF"
    RETURN_EXCEEDS_ISSUE = "RETURN_EXCEEDS_ISSUE"
    RETURN_EXCEEDS_RECEIPT = "RETURN_EXCEEDS_RECEIPT"
    RETURN_EXCEEDS_VALUE = "RETURN_EXCEEDS_VALUE"
    REVERSAL_MISMATCH = "REVERSAL_MISMATCH"
    CYCLE_WITHOUT_SOURCE = "CYCLE_WITHOUT_SOURCE"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    SOURCE_NOT_COSTED = "SOURCE_NOT_COSTED"
    LOT_REQUIRED = "LOT_REQUIRED"
    OPENING_NOT_COSTED = "OPENING_NOT_COSTED"
    METHOD_MISMATCH = "METHOD_MISMATCH"
    OVERFLOW = "OVERFLOW"
    ENGINE_FAULT = "ENGINE_FAULT"


WORDS = {
    Code.NEGATIVE_STOCK: "more goes out than the opening stock and the receipts of the period hold",
    Code.MISSING_COST: "goods come in and nothing tells what they cost",
    Code.ORPHAN_VALUE: "value is left where no quantity is, and nothing that went out can carry it",
    Code.RETURN_WITHOUT_REF: "a return names neither the movement it brings back nor a value",
    Code.RETURN_EXCEEDS_ISSUE: "more comes back than the sale it refers to has sold",
    Code.RETURN_EXCEEDS_RECEIPT: "more goes back than the receipt it refers to has brought",
    Code.RETURN_EXCEEDS_VALUE: "price reductions exceed the value of the opening and the receipts",
    Code.REVERSAL_MISMATCH: "a reversal does not mirror the movement it takes back",
    Code.CYCLE_WITHOUT_SOURCE: (
        "goods go round between cost pools into which none ever came from outside"
    ),
    Code.OUT_OF_SCOPE: (
        "goods cross to another brand, or lie in a pool that brands share: cost the company,"
        " not the brand"
    ),
    Code.SOURCE_NOT_COSTED: "it is made of goods that could not be costed",
    Code.LOT_REQUIRED: "goods that are costed by lot move without naming one",
    Code.OPENING_NOT_COSTED: "the item has stock from an earlier period that has no valid cost",
    Code.METHOD_MISMATCH: "items that are made of each other are costed by different methods",
    Code.OVERFLOW: "a quantity or value does not fit 63 bits",
    Code.ENGINE_FAULT: "costing has contradicted itself; tell who runs the platform",
}


class Problem(NamedTuple):
    """One reason, in one pool (None: the item as a whole), with the movements that cause it."""

    code: Code
    pool: str | None
    detail: str
    movement_ids: tuple[int, ...]


def problem(
    code: Code, pool: str | None, movement_ids: tuple[int, ...] = (), extra: str = ""
) -> Problem:
    """A problem in the code's own words, naming at most `NAMED_MOVEMENTS` movements."""
    detail = WORDS[code] + (f": {extra}" if extra else "")
    more = len(movement_ids) - NAMED_MOVEMENTS
    if more > 0:
        detail += f" (and {more} more movements)"
    return Problem(code, pool, detail, movement_ids[:NAMED_MOVEMENTS])


def gathered(problems: list[Problem]) -> tuple[Problem, ...]:
    """One problem for each (code, pool), in the order first met, with all their movements."""
    together: dict[tuple[Code, str | None], list[int]] = {}
    for found in problems:
        together.setdefault((found.code, found.pool), []).extend(found.movement_ids)
    details = {(p.code, p.pool): p.detail for p in reversed(problems)}
    return tuple(
        Problem(code, pool, details[code, pool], tuple(ids[:NAMED_MOVEMENTS]))
        for (code, pool), ids in together.items()
    )

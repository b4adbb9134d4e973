"""How items are costed: decisions on the method, each with its day, reason and author."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, note
from shared.database import sqlstate_of
from shared.errors import PlatformError

DECIDE = text("""
    SELECT books.decide_costing_method(:company, :item, :valid_from, :method, :mid_year, :reason,
                                       a.principal) FROM chot.actor() AS a""")
INITIAL = text("""
    SELECT costing_method FROM books.items WHERE company = :company AND code = :item""")
METHODS_OF = text("""
    SELECT valid_from, method, mid_year, reason, decided_by, decided_at FROM books.costing_methods
     WHERE company = :company AND item = :item ORDER BY valid_from DESC, id DESC LIMIT 200""")


REFUSALS = {
    "CH101": "PERIOD_CLOSED",
    "CH103": "ITEM_UNKNOWN",
    "CH120": "METHOD_CHANGE_MID_YEAR",
    "CH121": "METHOD_NOT_AT_PERIOD_START",
}


class MethodRefused(PlatformError):
    """A decision that the database does not take, by its code. Nothing was written."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """From which day on an item is costed by which method; within a fiscal year with a reason."""

    company: str
    item: str
    method: str
    valid_from: date
    mid_year: bool = False
    reason: str | None = None


async def decide_method(conn: AsyncConnection, decision: Decision) -> str:
    """Store the decision and note it in the audit; returns the method that was in force.

    One that changes nothing leaves no row. MethodRefused: PERIOD_CLOSED, ITEM_UNKNOWN,
    METHOD_CHANGE_MID_YEAR (and nobody said so), METHOD_NOT_AT_PERIOD_START.
    """
    binds = {
        "company": decision.company,
        "item": decision.item,
        "valid_from": decision.valid_from,
        "method": decision.method,
        "mid_year": decision.mid_year,
        "reason": decision.reason,
    }
    try:
        former = str((await conn.execute(DECIDE, binds)).scalar_one())
    except DBAPIError as error:
        code = REFUSALS.get(sqlstate_of(error) or "")
        if code is None:
            raise
        cause = error.orig.__cause__ if error.orig is not None else None
        said = getattr(cause, "message", None) or str(cause)
        raise MethodRefused(said, code=code) from error
    if former != decision.method:
        facts = {
            "method": decision.method,
            "former": former,
            "valid_from": decision.valid_from.isoformat(),
            "mid_year": decision.mid_year,
            "reason": None if decision.reason is None else decision.reason[:500],
        }
        await note(
            conn,
            Action.COSTING_METHOD,
            target=decision.item,
            company=decision.company,
            facts={name: value for name, value in facts.items() if value is not None},
        )
    return former


async def read_methods(
    conn: AsyncConnection, company: str, item: str
) -> tuple[str, Sequence[RowMapping]] | None:
    """The method an item began with, and every decision since, newest day first; None: no item."""
    binds = {"company": company, "item": item}
    initial = await conn.scalar(INITIAL, binds)
    if initial is None:
        return None
    return str(initial), (await conn.execute(METHODS_OF, binds)).mappings().all()

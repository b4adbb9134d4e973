"""The archive and the audit lie in parts by the month (migrations 0193, 0194).

The owner's functions make and drop them; app runs no DDL. A part is dropped under the table's lock
for a moment: who reads for longer than 0.2 s at that time keeps it until the next step, and nobody
waits behind a drop for longer than that.
"""

from typing import Literal

from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from shared.logs import log

Parent = Literal["archived_jobs", "audit"]
LOCK_NOT_AVAILABLE = "55P03"

OPEN_MONTHS = text("""
    SELECT chot.open_months(CAST(:parent AS text),
        make_interval(days => CAST(nullif(CAST(:days AS double precision), 0) AS integer)))""")


async def open_months(engine: AsyncEngine, parent: Parent, *, keep_days: float) -> int:
    """Make the parts that are missing, two months ahead; how many were made now.

    In autocommit. Where somebody holds the default part it is tried again at the next step: what
    belongs to a missing month lies in the default part meanwhile, and is found there.
    """
    return int(await _asked(engine, OPEN_MONTHS, parent, keep_days) or "0")


DROP_MONTH = text("""
    SELECT chot.drop_month(CAST(:parent AS text),
        make_interval(secs => CAST(:days AS double precision) * 86400))""")


async def drop_month(engine: AsyncEngine, parent: Parent, *, keep_days: float) -> str | None:
    """Drop the oldest part whose month ended so long ago; its name, or None: none, or it is read.

    In autocommit. What ended later than its month's rest is kept on, in the default part.
    """
    name = await _asked(engine, DROP_MONTH, parent, keep_days)
    if name is not None:
        log.info("month.dropped", part=f"chot.{name}")
    return name


async def _asked(
    engine: AsyncEngine, statement: TextClause, parent: Parent, days: float
) -> str | None:
    try:
        async with engine.connect() as conn:
            told = await conn.scalar(statement, {"parent": parent, "days": days})
            return None if told is None else str(told)
    except DBAPIError as error:
        if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
            raise
        log.info("month.waits", parent=f"chot.{parent}")
        return None

"""The data probes: their tables, the worker that knows them, and what must add up afterwards."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.registry import load_kinds, mirror_kinds
from tests.factories import fetch
from tests.probes.data_handlers import SCHEMA, lines_of

MODULES = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.data_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.probes.data_handlers",
}


async def prepare_data(owner_engine: AsyncEngine, engine: AsyncEngine) -> None:
    """Make the data probes' tables and tell the database about their kinds."""
    async with owner_engine.begin() as conn:
        for statement in SCHEMA:
            await conn.execute(text(statement))
    async with engine.begin() as conn:
        kinds = load_kinds(MODULES["CHOT_KIND_MODULES"])
        await mirror_kinds(conn, kinds, default_max_attempts=5)


def control_totals(documents: int) -> tuple[int, int, Decimal]:
    """Documents, lines and the sum of debits that a whole batch must come to."""
    lines = [line for n in range(1, documents + 1) for line in lines_of(n)]
    return documents, len(lines), sum((debit for _, _, debit, _ in lines), Decimal(0))


async def totals_of(engine: AsyncEngine, job_id: UUID) -> tuple[int, int, Decimal]:
    """The same of what a job has posted, read in one statement."""
    (row,) = await fetch(
        engine,
        """SELECT (SELECT count(*) FROM probe.documents WHERE job_id = :id) AS documents,
                  count(*) AS lines, coalesce(sum(debit), 0) AS debits
             FROM probe.lines WHERE job_id = :id""",
        id=job_id,
    )
    return row.documents, row.lines, row.debits


async def unbalanced(engine: AsyncEngine) -> Sequence[Any]:
    """Documents, of any job, with other than four lines or with debits unequal to credits."""
    return await fetch(
        engine,
        """SELECT d.job_id, d.document FROM probe.documents d
             FULL JOIN probe.lines l ON l.job_id = d.job_id AND l.document = d.document
            GROUP BY d.job_id, d.document
           HAVING d.job_id IS NULL OR count(l.line) <> 4 OR sum(l.debit) <> sum(l.credit)""",
    )

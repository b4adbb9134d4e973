"""Begin a run: its row and snapshot, what it is about, its work list and the tables of its rows."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun, Rules, insert_run, read_run, set_scope
from worker.records.scope import (
    closed_under,
    read_families,
    require_costed_past,
    require_method,
    resolve_scope,
)
from worker.records.work_list import list_items

OPEN_STORAGE = text("SELECT books.open_run_storage(:run_id)")


class NothingToCostError(Exception):
    """The selectors mean no item now: there is nothing to do, and no run."""


async def begin_run(
    conn: AsyncConnection,
    *,
    job_id: UUID,
    fence: int,
    company: str,
    brand: str | None,
    period: str,
    rules: Rules,
    items: Sequence[str] | None,
) -> CostRun:
    """Begin a run over what is committed now; its snapshot, pools and work list are fixed here.

    Raises PermanentError PERIOD_UNKNOWN, PERIOD_CLOSED, PREVIOUS_PERIOD_NOT_COSTED, ITEM_UNKNOWN,
    RUN_UNKNOWN or METHOD_MISMATCH, and NothingToCostError: the caller then rolls back.
    """
    run = await insert_run(
        conn,
        job_id=job_id,
        fence=fence,
        company=company,
        brand=brand,
        period=period,
        rules=rules,
        scope=items,
    )
    await require_costed_past(conn, run)
    families_of = await read_families(conn, run)
    if items is not None:
        wanted = closed_under(families_of, await resolve_scope(conn, run, items))
        await set_scope(conn, run, wanted)
        scoped = await read_run(conn, run.id)
        assert scoped is not None, "the run was inserted by this transaction"
        run = scoped
    listed = await list_items(conn, run, run.items, families_of)
    if items is not None and not listed:
        raise NothingToCostError
    await require_method(conn, run)
    await conn.execute(OPEN_STORAGE, {"run_id": run.id})
    return run

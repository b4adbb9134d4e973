"""Exports: a table of a cost run read page by page, written by a child, stored chunk by chunk.

An attempt starts over with a file of its own: what an earlier one has stored is never shown. The
file is there with the transaction that completes the job, and that one finds the run still there.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from shared.access import EVERYTHING
from shared.costs.facts import Fact, facts_of
from shared.costs.runs import count_items, prove, read_run
from shared.errors import PermanentError
from shared.kinds.exporting import COSTING_EXPORT, CostingExportPayload
from worker.context import CleanupContext, JobContext
from worker.exports.tables import TABLES
from worker.exports.writing import Order, add, begin, finish
from worker.handlers import Handler
from worker.handlers.stored_files import store_file
from worker.records.export_rows import Wanted, count_rows, read_page, require_run
from worker.records.files import discard_files

PAGE_ROWS = 2_000


async def run_export(context: JobContext, payload: CostingExportPayload) -> None:
    """Write the file and complete the job with its address; see the module.

    PermanentError RUN_UNKNOWN, or RUN_SUPERSEDED when the run's rows went before the file was done.
    """
    wanted, minor_digits, facts = await _look(context, payload)
    with TemporaryDirectory(prefix="chot-export-") as directory:
        path = Path(directory) / f"table.{payload.format}"
        order = Order(
            path=str(path),
            table=payload.table,
            format=payload.format,
            digits=payload.digits,
            bom=payload.bom,
            minor_digits=minor_digits,
        )
        rows = await _write(context, wanted, order, facts)
        stored = await store_file(context, path, name=_name(payload, wanted))
    async with context.completion() as tx:
        await require_run(tx.connection, wanted)
        tx.result = {
            "run_id": payload.run_id,
            "table": payload.table,
            "rows": rows,
            "file": await stored.tell(tx.connection),
        }


async def _look(
    context: JobContext, payload: CostingExportPayload
) -> tuple[Wanted, int, list[Fact]]:
    """Which rows, in which currency, and what the sheet with the proof says."""
    async with context.read() as conn:
        run = await read_run(conn, payload.run_id, EVERYTHING)
        if run is None or run["company"] != context.job.company:
            raise PermanentError(
                f"RUN_UNKNOWN: company {context.job.company} has no cost run {payload.run_id}",
                code="RUN_UNKNOWN",
            )
        brand = None if run["brand"] == context.job.brand else context.job.brand
        wanted = Wanted(
            run_id=payload.run_id,
            table=payload.table,
            company=run["company"],
            period=run["period"],
            brand=brand,
        )
        brands = None if brand is None else [brand]
        counts = proven = None
        if run["status"] == "active":
            counts = await count_items(conn, payload.run_id, brands)
            proven = await prove(conn, payload.run_id, brands)
        await require_run(conn, wanted)
    return wanted, run["minor_digits"], facts_of(run, counts, proven, brand=brand)


async def _write(context: JobContext, wanted: Wanted, order: Order, facts: list[Fact]) -> int:
    """Every row into the file on disk, by the child; answers how many there were."""
    async with context.read() as conn:
        total = await count_rows(conn, wanted)
    names = TABLES[order.table].names
    await context.offload(begin, order)
    done, after = 0, None
    while True:
        context.progress(done, total, unit="rows", message=f"writing {order.table}")
        async with context.read() as conn:
            rows, after = await read_page(conn, wanted, names, after=after, most=PAGE_ROWS)
        if not rows:
            break
        await context.offload(add, order.path, rows)
        done += len(rows)
        context.yield_if_asked()
    await context.offload(finish, order.path, facts)
    return done


def _name(payload: CostingExportPayload, wanted: Wanted) -> str:
    """Such as costs-2026-01-run12-results.xlsx: ASCII, whatever the books' codes are made of."""
    return f"costs-{wanted.period}-run{payload.run_id}-{payload.table}.{payload.format}"


async def clean_up_export(context: CleanupContext) -> None:
    """Give up the file that the job has left half-written; nobody has ever seen it."""
    await discard_files(context.connection, UUID(str(context.job.id)))


HANDLERS = (Handler(kind=COSTING_EXPORT.name, run=run_export, cleanup=clean_up_export),)

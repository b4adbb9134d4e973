"""Handlers of the data probes. Every chunk commits with its checkpoint; keys make repeats fail."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic
from typing import Any

from sqlalchemy import text

from shared.database import driver_connection
from shared.errors import Yield
from tests.probes.data_kinds import Copy, Echo, Give, Ledger, Tenths
from tests.probes.handlers import EFFECT, _effect, _raise_or_return
from worker.context import JobContext
from worker.handlers import Handler

ZERO = Decimal(0)
SCHEMA = (
    """CREATE TABLE probe.echoes (
        job_id uuid NOT NULL, id bigint NOT NULL, amount numeric NOT NULL)""",
    # The keys are per job, so that several batches may be posted side by side.
    """CREATE TABLE probe.documents (
        job_id uuid NOT NULL, document integer NOT NULL, fence bigint NOT NULL,
        PRIMARY KEY (job_id, document))""",
    """CREATE TABLE probe.lines (
        job_id uuid NOT NULL, document integer NOT NULL, line smallint NOT NULL,
        account integer NOT NULL, debit numeric(20, 4) NOT NULL, credit numeric(20, 4) NOT NULL,
        PRIMARY KEY (job_id, document, line))""",
    "CREATE TABLE probe.tenths (job_id uuid NOT NULL, amount numeric NOT NULL)",
    "CREATE TABLE probe.source (id bigint PRIMARY KEY, body text NOT NULL)",
    "CREATE TABLE probe.target (id bigint PRIMARY KEY, body text NOT NULL, job_id uuid NOT NULL)",
    "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA probe TO chot_app",
    "GRANT SELECT ON ALL TABLES IN SCHEMA probe TO chot_read",
)


async def echo(context: JobContext, payload: Echo) -> dict[str, Any]:
    """What came in, as it came in: by the model, by the raw payload, and through a column."""
    statement = text("INSERT INTO probe.echoes (job_id, id, amount) VALUES (:job_id, :id, :amount)")
    async with context.transaction() as tx:
        for each in payload.ids:
            binds = {"job_id": context.job.id, "id": each, "amount": payload.amount}
            await tx.connection.execute(statement, binds)
    return {
        "ids": payload.ids,
        "amount": payload.amount,
        "raw": context.job.payload,
        "types": [type(payload.ids[0]).__name__, type(payload.amount).__name__],
    }


async def give(context: JobContext, payload: Give) -> Any:
    """One way each in which a result can or cannot be stored."""
    match payload.how:
        case "return_instant":
            return {"at": datetime(2026, 1, 31, 18, tzinfo=UTC)}
        case "complete_with_nan":
            async with context.completion() as tx:
                await tx.connection.execute(EFFECT, _effect(context, payload.number, 0))
                tx.result = {"margin": float("nan")}
    return _raise_or_return(payload.how)


def lines_of(document: int) -> Iterator[tuple[int, int, Decimal, Decimal]]:
    """(line, account, debit, credit) of a document: three debits against one credit."""
    parts = [Decimal(document * weight % 997 + 1) / 10 for weight in (1, 7, 13)]
    for line, part in enumerate(parts):
        yield line, 100 + line, part, ZERO
    yield 3, 331, ZERO, sum(parts, ZERO)


async def post_ledger(context: JobContext, payload: Ledger) -> dict[str, Any]:
    """Post the documents that the checkpoint does not yet count."""
    posted = (context.checkpoint or {}).get("posted", 0)
    while posted < payload.documents:
        context.yield_if_asked()
        await asyncio.sleep(payload.seconds)
        last = min(posted + payload.chunk, payload.documents)
        async with context.transaction() as tx:
            driver = await driver_connection(tx.connection)
            job_id, fence, numbers = (
                context.job.id,
                context.lease.fence,
                range(posted + 1, last + 1),
            )
            await driver.copy_records_to_table(
                "documents", schema_name="probe", records=[(job_id, n, fence) for n in numbers]
            )
            lines = [(job_id, n, *line) for n in numbers for line in lines_of(n)]
            await driver.copy_records_to_table("lines", schema_name="probe", records=lines)
            tx.checkpoint = {"posted": last}
            tx.progress(last, payload.documents, unit="documents")
        posted = last
    return {"posted": posted}


async def post_tenths(context: JobContext, payload: Tenths) -> dict[str, Any]:
    """Each line is exactly one tenth: as a float, a million of them would not add up."""
    posted = (context.checkpoint or {}).get("posted", 0)
    while posted < payload.lines:
        last = min(posted + payload.chunk, payload.lines)
        async with context.transaction() as tx:
            driver = await driver_connection(tx.connection)
            records = [(context.job.id, Decimal("0.1"))] * (last - posted)
            await driver.copy_records_to_table("tenths", schema_name="probe", records=records)
            tx.checkpoint = {"posted": last}
            tx.progress(last, payload.lines, unit="lines")
        posted = last
    async with context.read() as conn:
        statement = text("SELECT sum(amount) FROM probe.tenths WHERE job_id = :job_id")
        total = await conn.scalar(statement, {"job_id": context.job.id})
    return {"posted": posted, "total": total}


COPY = text("""
    WITH copied AS (
        INSERT INTO probe.target (id, body, job_id)
        SELECT id, body, :job_id FROM probe.source WHERE id > :after ORDER BY id LIMIT :chunk
        RETURNING id)
    SELECT count(*) AS rows, max(id) AS last FROM copied""")


async def copy_rows(context: JobContext, payload: Copy) -> dict[str, Any]:
    """Copy from where the checkpoint stands; a table is done when nothing is behind it."""
    done = context.checkpoint or {"after": 0, "rows": 0, "runs": 0}
    async with context.read() as conn:
        total = await conn.scalar(text("SELECT count(*) FROM probe.source"))
    until, done = monotonic() + payload.run_seconds, done | {"runs": done["runs"] + 1}
    while True:
        await asyncio.sleep(payload.seconds)
        async with context.transaction() as tx:
            binds = {"job_id": context.job.id, "after": done["after"], "chunk": payload.chunk}
            copied = (await tx.connection.execute(COPY, binds)).one()
            if copied.rows:
                rows = done["rows"] + copied.rows
                done = done | {"after": copied.last, "rows": rows}
            tx.checkpoint = done
            tx.progress(done["rows"], total, unit="rows")
        if copied.rows < payload.chunk:
            return done
        context.yield_if_asked()
        if monotonic() > until:
            raise Yield("the run's time is over")


HANDLERS = (
    Handler(kind="data.echo", run=echo),
    Handler(kind="data.give", run=give),
    Handler(kind="data.ledger", run=post_ledger),
    Handler(kind="data.tenths", run=post_tenths),
    Handler(kind="data.copy", run=copy_rows),
    Handler(kind="data.copy_brief", run=copy_rows),
)

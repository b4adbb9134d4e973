"""A redriven run first tries the rows again that it had set aside, one by one, each once."""

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import Conflict
from worker.fence import FencedTransaction
from worker.migrations.failures import BatchFailed, code_of
from worker.migrations.running import Batches
from worker.migrations.task import Applied, Batch, Key, Reject
from worker.records.migration_runs import (
    Standing,
    drop_reject,
    end_retry,
    keep_reject,
    next_reject,
)


async def retry_rejects(batches: Batches) -> Standing:
    """Do what was set aside, or set it aside again; the standing that the run goes on from."""
    context, job_id = batches.context, batches.run.job_id
    while await _retry_one(batches):
        batches.between()
    async with context.transaction() as tx:
        await end_retry(tx.connection, job_id)
        tx.checkpoint = {"task": batches.payload.task, "phase": "running"}
    batches.standing = replace(batches.standing, phase="running")
    return batches.standing


async def _retry_one(batches: Batches) -> bool:
    key: Key | None = None
    try:
        async with batches.context.transaction() as tx:
            key = await next_reject(tx.connection, batches.run.job_id)
            if key is None:
                return False
            await batches.set_timeout(tx.connection)
            wait = await batches.find_wait(tx)
            if wait is None:
                await _retry(batches, tx, key)
        if wait is not None:
            batches.wait(wait)
    except BatchFailed as failed:
        if failed.cause == "conflict":
            raise Conflict(f"a row has lost its fight for locks: {failed}") from failed
        assert key is not None, "it is the row that fails"
        reject = Reject(code=code_of(failed.error), rule=str(failed), key=key)
        async with batches.context.transaction() as tx:
            await keep_reject(tx.connection, batches.run.job_id, key, reject)
            batches.tell(tx, batches.standing, "trying again what was set aside")
    return True


async def _retry(batches: Batches, tx: FencedTransaction, key: Key) -> None:
    applied = await _apply(batches, tx.connection, key)
    if applied.rejects:
        await keep_reject(tx.connection, batches.run.job_id, key, applied.rejects[0])
    else:
        batches.standing = await _done(batches, tx.connection, key, applied)
    batches.tell(tx, batches.standing, "trying again what was set aside")


async def _apply(batches: Batches, conn: AsyncConnection, key: Key) -> Applied:
    rows = batches.rows
    found = int(await conn.scalar(rows.count_one(), rows.binds_of(key)) or 0)
    if not found:
        return Applied(counts={"gone": 1})
    batch = Batch(
        run=batches.run,
        rows=found,
        key_from=None,
        key_to=key,
        source=rows.tables,
        where=rows.where_is(),
        binds=rows.binds_of(key),
    )
    return await batches.applied(conn, batch)


async def _done(batches: Batches, conn: AsyncConnection, key: Key, applied: Applied) -> Standing:
    counts = dict(batches.standing.counts)
    for outcome, rows in applied.counts.items():
        counts[outcome] = counts.get(outcome, 0) + rows
    failed = await drop_reject(conn, batches.run.job_id, key, counts)
    return replace(batches.standing, counts=counts, failed=failed)

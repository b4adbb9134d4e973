"""A database that came back from anything but a physical backup: noticed, and put right.

A cost run reads the movements that its snapshot saw, by each movement's transaction id. A logical
restore keeps those ids while the new server counts from its own: movements from "the future" would
be invisible for ever. So api and worker refuse to start on one, until `chot doctor --restored`.
"""

from collections.abc import AsyncIterator

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.audit import Action, note
from shared.database import transaction
from shared.errors import ConfigRefused

BATCH = 50_000

READ_NEWEST_XID = text("""
    SELECT m.xid::text AS newest, pg_snapshot_xmax(pg_current_snapshot())::text AS next,
           m.xid >= pg_snapshot_xmax(pg_current_snapshot()) AS beyond
      FROM books.stock_movements m ORDER BY m.id DESC LIMIT 1""")


async def refuse_restored(conn: AsyncConnection) -> None:
    """Raise ConfigRefused when the newest movement was written by a server of another count."""
    row = (await conn.execute(READ_NEWEST_XID)).one_or_none()
    if row is not None and row.beyond:
        raise ConfigRefused(
            f"the newest stock movement was written by transaction {row.newest}, this server's "
            f"next is {row.next}: the database was restored from a logical copy. Run "
            "`chot doctor --restored` once, with nothing else running"
        )


# '3' is FrozenTransactionId: visible in every snapshot.
FREEZE_MOVEMENTS = text("""
    WITH batch AS (
        SELECT id FROM books.stock_movements WHERE id > :after ORDER BY id LIMIT :most),
    frozen AS (
        UPDATE books.stock_movements m SET xid = '3' FROM batch
         WHERE m.id = batch.id AND m.xid <> '3'::xid8 RETURNING m.id)
    SELECT max(batch.id) AS last, count(*) AS seen, (SELECT count(*) FROM frozen) AS frozen
      FROM batch""")

# So are the results that readers see, and what is known to have come late: one row an item is left.
FREEZE_RESULTS = text("""
    UPDATE books.active_results SET xid = '3' WHERE xid IS DISTINCT FROM '3'::xid8""")
ONE_LATE_ROW = text("""
    DELETE FROM books.late_movements l
     WHERE EXISTS (SELECT FROM books.late_movements k
                    WHERE k.company = l.company AND k.period = l.period AND k.brand = l.brand
                      AND k.item = l.item AND k.xid < l.xid)""")
FREEZE_LATE = text("UPDATE books.late_movements SET xid = '3' WHERE xid <> '3'::xid8")

# Snapshots of another server mean nothing here: such runs start again from nothing.
VOID_RUNS = text("""
    WITH void AS (
        UPDATE books.cost_runs SET status = 'failed' WHERE status = 'building' RETURNING job_id)
    UPDATE chot.job_outputs o SET checkpoint = NULL FROM void WHERE o.job_id = void.job_id""")
# A session of either must not be one of the other, nor whoever reads the copy sign himself in here.
FORGET_SECRETS = text("DELETE FROM chot.session_secrets")
FORGET_SESSIONS = text("DELETE FROM chot.sessions")
# What the copy believes to be in SQS is not there for this deployment.
EMPTY_WINDOWS = text("DELETE FROM chot.published")
NEW_DEPLOYMENT = text("""
    UPDATE chot.deployment SET deployment_id = gen_random_uuid() RETURNING deployment_id""")


async def mark_restored(engine: AsyncEngine) -> AsyncIterator[tuple[int, int]]:
    """Make every stored movement visible to all, void unfinished runs, become a new deployment.

    Yields (seen, frozen) as it goes, in transactions of some 50,000 rows. Needs the owner's
    rights and that nothing else runs. May be repeated; the deployment changes last, each time.
    """
    after, seen, frozen = 0, 0, 0
    while True:
        async with transaction(engine) as conn:
            row = (await conn.execute(FREEZE_MOVEMENTS, {"after": after, "most": BATCH})).one()
        if row.last is None:
            break
        after, seen, frozen = row.last, seen + row.seen, frozen + row.frozen
        yield seen, frozen
    async with transaction(engine) as conn:
        for statement in (FREEZE_RESULTS, ONE_LATE_ROW, FREEZE_LATE, VOID_RUNS):
            await conn.execute(statement)
        await conn.execute(EMPTY_WINDOWS)
        await conn.execute(FORGET_SECRETS)
        await conn.execute(FORGET_SESSIONS)
        deployment = await conn.scalar(NEW_DEPLOYMENT)
        facts = {"movements_seen": seen, "movements_made_visible": frozen}
        await note(conn, Action.DATABASE_RESTORED, target=str(deployment), facts=facts)
    yield seen, frozen

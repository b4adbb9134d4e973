"""What the removal of old groups reads: its groups and what hangs on them, never the archive."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import execute, scalar

ARCHIVED = 100_000
GROUPS = 500
# As a month is filled: by inserts, and nobody has looked what is in it. Rows are as wide as real
# ones: by the size of the table a planner takes them for ten times as many. One in ten is a member,
# of the groups from the tenth on.
FILL_ARCHIVE = """
    INSERT INTO chot.archived_jobs (id, finished_at, attempts, job)
    SELECT chot.uuid7(), clock_timestamp() - interval '5 days', '[]', jsonb_build_object(
           'group_id', CASE WHEN n % 10 = 0 THEN g.id END, 'state', 'succeeded',
           'rest', sha512(int8send(n))::text || sha512(int8send(-n))::text)
      FROM generate_series(1, :archived) AS n
      LEFT JOIN (SELECT id, row_number() OVER (ORDER BY id) AS r FROM chot.groups) AS g
             ON g.r = 10 + n % (:groups - 9)"""
FILL_GROUPS = """
    INSERT INTO chot.groups (id, company, brand, state, policy, outcome, total, succeeded, principal,
                             opened_at, sealed_at, ended_at)
    SELECT chot.uuid7(), 'ACME', 'RED', 'ended', 'finish', 'succeeded', 1, 1, 'test', t, t, t
      FROM generate_series(1, :groups), LATERAL (SELECT now() - interval '100 days' AS t) AS at"""
READ = """
    SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables
     WHERE schemaname = 'chot' AND relname LIKE 'archived_jobs%'"""
REMOVE = text("""
    SELECT removed FROM chot.remove_groups(CAST(:after AS uuid), interval '90 days', 1000)""")


async def test_old_groups_are_removed_without_reading_the_archive(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Those that still have a job in it stay."""
    await execute(owner_engine, FILL_GROUPS, groups=GROUPS)
    await execute(owner_engine, FILL_ARCHIVE, archived=ARCHIVED, groups=GROUPS)
    await execute(owner_engine, "ANALYZE chot.groups")
    members = """SELECT count(DISTINCT job ->> 'group_id') FROM chot.archived_jobs
                  WHERE job ->> 'group_id' IS NOT NULL"""
    kept = await scalar(owner_engine, members)
    assert 0 < kept < GROUPS
    async with probes.begin() as conn:
        before = await conn.scalar(text(READ))
        removed = await conn.scalar(REMOVE, {"after": UUID(int=0)})
        read = await conn.scalar(text(READ)) - before
    assert removed == GROUPS - kept
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.groups") == kept
    assert read == 0

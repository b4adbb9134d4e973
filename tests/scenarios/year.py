"""A day of a year: jobs with all that hangs on them, at that day's time, set-based.

The year lies in the past and ends now. Retention is given its ages longer by as many days as that
day lies back, so that the clock it decides by is that day's. Triggers fire as always, and the jobs
of a day come some thousand a transaction: one for all would keep every version of their rows.
"""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

ID_AT = """
    CREATE FUNCTION pg_temp.id_of(moment timestamptz, n bigint) RETURNS uuid LANGUAGE sql AS $$
        SELECT overlay(CAST(chot.uuid7() AS text) PLACING left(CAST(chot.id_at(moment) AS text), 13)
                       FROM 1 FOR 13)::uuid WHERE n IS NOT NULL $$"""
# Jobs a transaction: a multiple of what makes a group.
CHUNK = 2_500
DAY = """
    CREATE TEMP TABLE day (id uuid PRIMARY KEY, n bigint, at timestamptz, ends text, group_id uuid)
        ON COMMIT DELETE ROWS"""
# One in 100 is cancelled, one in 1,000 dies, one in 50 is a member of a group of ten; one in five
# runs for so long that its heart beats, twice.
MAKE = """
    INSERT INTO day
    SELECT pg_temp.id_of(at, n), n, at,
           CASE WHEN n % 1000 = 7 AND {dying} THEN 'dead' WHEN n % 100 = 3 THEN 'cancelled'
                ELSE 'succeeded' END,
           CASE WHEN n % 500 < 10 THEN pg_temp.id_of(at, n / 500) END
      FROM generate_series({start}, {end}) AS n,
           LATERAL (SELECT clock_timestamp() - make_interval(
                        days => {ago}, secs => -86000.0 * (n - {first}) / {jobs}) AS at) AS t"""
LIVE = (
    """UPDATE day SET group_id = f.id
         FROM (SELECT n / 500 AS g, min(CAST(group_id AS text))::uuid AS id
                 FROM day WHERE group_id IS NOT NULL GROUP BY 1) AS f
        WHERE group_id IS NOT NULL AND n / 500 = f.g""",
    """INSERT INTO chot.groups (id, company, brand, state, policy, outcome, total, succeeded,
              principal, opened_at, sealed_at, ended_at)
       SELECT group_id, 'ACME', 'RED', 'ended', 'finish', 'succeeded', count(*), count(*), 'test',
              min(at), min(at), max(at) FROM day WHERE group_id IS NOT NULL GROUP BY 1""",
    """INSERT INTO chot.jobs (id, kind, company, brand, queue, max_attempts, available_at,
              fingerprint, on_duplicate, payload_version, principal, deployment_id, created_at,
              group_id)
       SELECT id, 'probe.write', 'ACME', 'RED', 'default', 5, at, sha256(int8send(n)), 'join', 1,
              'test', x.deployment_id, at, group_id FROM day, chot.deployment x""",
    """INSERT INTO chot.job_payloads
       SELECT id, jsonb_build_object('number', n, 'period', '2026-11', 'stores',
                                     jsonb_build_array('R1', 'R2', 'R3')) FROM day""",
    """INSERT INTO chot.outbox (job_id, queue, kind, company, brand, priority, next_send_at)
       SELECT id, 'default', 'probe.write', 'ACME', 'RED', 5, at FROM day""",
    """INSERT INTO chot.audit (at, action, principal, job_id, company, brand, facts)
       SELECT at, 'job.submit', 'test', id, 'ACME', 'RED', jsonb_build_object(
              'kind', 'probe.write', 'created', true, 'duplicate', NULL) FROM day""",
    """INSERT INTO chot.idempotency_keys (principal, key, request_digest, digest_version, status,
              headers, body, job_id, expires_at)
       SELECT 'test', n::text, sha256(int8send(n)), 1, 202, '{}', '\\x7b7d', id,
              at + interval '1 day' FROM day WHERE n % 2 = 0""",
    "DELETE FROM chot.outbox WHERE job_id IN (SELECT id FROM day)",
    """UPDATE chot.jobs j SET state = 'running', attempt = 1, fence = 1, worker_id = 'w',
              lease_token = gen_random_uuid(), lease_expires_at = at + interval '30 seconds',
              started_at = at FROM day WHERE j.id = day.id""",
    """INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
              started_at, claimed_checkpoint_no, checkpoint_no)
       SELECT j.id, 1, 1, 'w', j.lease_token, 'test', at, 0, 0
         FROM day JOIN chot.jobs j ON j.id = day.id""",
    *2
    * (
        """UPDATE chot.jobs j SET lease_expires_at = lease_expires_at + interval '10 seconds'
             FROM day WHERE j.id = day.id AND n % 5 = 2""",
    ),
    """UPDATE chot.jobs j SET state = ends, lease_token = NULL, lease_expires_at = NULL,
              worker_id = NULL, finished_at = at + interval '30 seconds'
         FROM day WHERE j.id = day.id""",
    """UPDATE chot.attempts a SET ended_at = at + interval '30 seconds',
              outcome = CASE ends WHEN 'dead' THEN 'failed' ELSE ends END
         FROM day WHERE a.job_id = day.id""",
    """INSERT INTO chot.job_outputs (job_id, result)
       SELECT id, jsonb_build_object('done', true, 'amount', '12345.67', 'lines', n) FROM day""",
)
# What loses rows every day; of the others nothing is updated or deleted here.
TURNED_OVER = (
    "jobs",
    "job_payloads",
    "job_outputs",
    "attempts",
    "outbox",
    "endings",
    "attempt_ends",
    "idempotency_keys",
    "groups",
)
SIZES = """
    SELECT CASE WHEN c.relname LIKE 'archived_jobs%' THEN 'archive'
                WHEN c.relname LIKE 'audit%' THEN 'audit' ELSE 'work' END AS what,
           sum(pg_total_relation_size(c.oid))::bigint AS bytes
      FROM pg_class c WHERE c.relnamespace = 'chot'::regnamespace AND c.relkind = 'r' GROUP BY 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes on disk: the tables that work is done in, the archive, the audit."""

    work: int
    archive: int
    audit: int


async def begin(connection: asyncpg.Connection) -> None:
    """What this connection needs before the first day."""
    await connection.execute(ID_AT)
    await connection.execute(DAY)
    # A temporary table has no statistics: each statement would read all of a month for a chunk.
    await connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")


async def live_a_day(
    connection: asyncpg.Connection,
    *,
    first: int,
    jobs: int,
    ago: int,
    dying: bool = True,
    part: int = 0,
    parts: int = 1,
) -> list[UUID]:
    """So many jobs come, run, beat and end, so many days ago; the ids of the first ten.

    Of these, one part of some that go on at once, each on a connection of its own.
    """
    ids: list[UUID] = []
    for start in range(first + part * CHUNK, first + jobs, parts * CHUNK):
        end = min(start + CHUNK, first + jobs) - 1
        async with connection.transaction():
            await connection.execute(
                MAKE.format(start=start, end=end, first=first, jobs=jobs, ago=ago, dying=str(dying))
            )
            for statement in LIVE:
                await connection.execute(statement)
            if start == first:
                rows = await connection.fetch("SELECT id FROM day ORDER BY n LIMIT 10")
                ids = [row["id"] for row in rows]
    return ids


async def vacuum(connection: asyncpg.Connection, day: int) -> None:
    """What autovacuum does, on the tables that lose rows; the tests' server has it turned off.

    Statistics are made anew once a week: they cost as much as a small day, and change little.
    """
    options = "(ANALYZE)" if day < 7 or day % 7 == 0 else ""
    for table in TURNED_OVER:
        await connection.execute(f"VACUUM {options} chot.{table}")


async def size_of(connection: asyncpg.Connection) -> Size:
    """What there is on disk now."""
    found = {row["what"]: row["bytes"] for row in await connection.fetch(SIZES)}
    return Size(work=found["work"], archive=found["archive"], audit=found["audit"])


async def sizes_of_all(connection: asyncpg.Connection) -> dict[str, int]:
    """Bytes of every table and index of schema chot, each by itself; TOAST with its table."""
    found = await connection.fetch("""
        SELECT c.relname, CASE c.relkind WHEN 'i' THEN pg_relation_size(c.oid)
                               ELSE pg_table_size(c.oid) END AS bytes
          FROM pg_class c WHERE c.relnamespace = 'chot'::regnamespace AND c.relkind IN ('r', 'i')
    """)
    return {row["relname"]: row["bytes"] for row in found}

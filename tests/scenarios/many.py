"""Millions of jobs, loaded by SQL: what a year leaves behind, and what a bug submits in an hour."""

import asyncpg

from tests.services import Database

# Ids are in the order of time, as chot.uuid7() makes them; here of any time.
ID_AT = """
    CREATE FUNCTION pg_temp.id_at(moment timestamptz, n bigint) RETURNS uuid LANGUAGE sql AS $$
        SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0')
                || '7' || lpad(to_hex(n % 4096), 3, '0') || '8'
                || lpad(to_hex(n / 4096), 15, '0'))::uuid $$"""

# One in 100 was cancelled, one in 5,000 is dead; a kind and a company that are rare and old.
FINISHED = """
    INSERT INTO chot.jobs (id, kind, company, brand, queue, state, attempt, fence, max_attempts,
           available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id,
           created_at, started_at, finished_at)
    SELECT pg_temp.id_at(at, n), CASE WHEN n <= 500 THEN 'probe.follow' WHEN n % 10 = 0
           THEN 'probe.merge' ELSE 'probe.write' END,
           CASE WHEN n <= 500 THEN 'RARE' ELSE 'ACME' END,
           CASE WHEN n <= 1000 THEN NULL WHEN n % 3 = 0 THEN 'BLUE' ELSE 'RED' END, 'default',
           CASE WHEN n % 5000 = 0 THEN 'dead' WHEN n % 100 = 0 THEN 'cancelled'
                ELSE 'succeeded' END,
           1, 1, 5, at, sha256(int8send(n)), 'join', 1, 'test', d.deployment_id, at, at,
           at + interval '1 second'
      FROM chot.deployment d, generate_series($1::bigint + 1, $2::bigint) AS n,
           LATERAL (SELECT clock_timestamp() - interval '1 day' - make_interval(
                        secs => 365 * 86400.0 * ($3 - n) / $3)) AS t (at)"""
SIDES = (
    "INSERT INTO chot.job_payloads SELECT id, '{\"number\": 1}' FROM chot.jobs",
    "INSERT INTO chot.job_outputs (job_id, result) SELECT id, '{\"done\": true}' FROM chot.jobs",
    """INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
              started_at, ended_at, outcome, claimed_checkpoint_no, checkpoint_no)
       SELECT id, 1, 1, 'w', gen_random_uuid(), 'test', started_at, finished_at,
              CASE state WHEN 'dead' THEN 'failed' ELSE state END, 0, 0 FROM chot.jobs""",
)
TOTALS = """
    INSERT INTO chot.ending_totals (kind, state, jobs)
    SELECT kind, state, count(*) FROM chot.jobs WHERE state IN ('succeeded', 'cancelled')
     GROUP BY kind, state"""
# The fingerprints are those that a submit of these numbers has.
PENDING = """
    WITH fresh AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, max_attempts, available_at,
               fingerprint, on_duplicate, payload_version, principal, deployment_id)
        SELECT chot.uuid7(), 'probe.write', 'ACME', 'RED', 'default', 5, clock_timestamp(),
               chot.fingerprint('probe.write', 'ACME', 'RED',
                                jsonb_build_object('number', n), ARRAY['number']),
               'join', 1, 'test', d.deployment_id
          FROM chot.deployment d, generate_series($1::bigint + 1, $2::bigint) AS n
        RETURNING id)
    INSERT INTO chot.job_payloads SELECT id, '{"number": 1}' FROM fresh"""
KEYS = """
    INSERT INTO chot.idempotency_keys (principal, key, request_digest, digest_version, status,
           headers, body, expires_at)
    SELECT 'test', n::text, sha256(int8send(n)), 1, 202, '{}', '\\x7b7d',
           clock_timestamp() + CASE WHEN n % 2 = 0 THEN interval '1 day' ELSE interval '-1 day' END
      FROM generate_series(1, $1::bigint) AS n"""
OUTBOX = """
    INSERT INTO chot.outbox (job_id, queue, kind, brand, priority, next_send_at)
    SELECT id, queue, kind, brand, 5, clock_timestamp() FROM chot.jobs WHERE state = 'pending'"""
PENDING_NUMBERS = 1_000_000_000
STEP = 500_000


async def load(
    database: Database, *, finished: int, pending: int, keys: int = 0, totals: bool = True
) -> None:
    """Load so many jobs, with what hangs on each; statistics and visibility are fresh after it.

    Without `totals` into a schema that does not keep them yet.
    """
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(ID_AT)
        await connection.execute("SET session_replication_role = replica; SET work_mem = '256MB'")
        for start in range(0, finished, STEP):
            end = min(start + STEP, finished)
            await connection.execute(FINISHED, start, end, float(finished))
        for statement in (*SIDES, *([TOTALS] if totals else [])):
            await connection.execute(statement)
        first = PENDING_NUMBERS
        for start in range(0, pending, STEP):
            end = min(start + STEP, pending)
            await connection.execute(PENDING, first + start, first + end)
        await connection.execute(OUTBOX)
        await connection.execute(KEYS, keys)
        for table in ("jobs", "job_payloads", "job_outputs", "attempts", "outbox"):
            await connection.execute(f"VACUUM (ANALYZE) chot.{table}")
        await connection.execute("VACUUM (ANALYZE) chot.idempotency_keys")
    finally:
        await connection.close()

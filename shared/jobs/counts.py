"""Counts: how many jobs there are and have been, exactly, at a cost that no history adds to.

What is active or dead is counted from partial indexes. What has ended for good is noted by a
trigger, a row an ending (migration 0052); totals and rows not yet added up are read in one
statement, so that submitted = succeeded + cancelled + dead + active holds to the job.
"""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.backlog import MEMBERS, backlog_seconds
from shared.jobs.ends import READ_DUPLICATES, READ_ENDS
from shared.jobs.troubles import read_troubles

ENDINGS = 5000

_LISTS = MEMBERS | {"ends": READ_ENDS, "duplicates": READ_DUPLICATES}
_LISTED = ",\n           ".join(
    f"(SELECT coalesce(json_agg(l), '[]') FROM ({select}) AS l) AS {name}"
    for name, select in _LISTS.items()
)
# One statement, one snapshot. Whatever a relay may push is due again within five minutes.
READ_COUNTS = text(f"""
    SELECT (SELECT coalesce(json_agg(p), '[]') FROM (
               SELECT queue, kind, count(*) AS jobs,
                      count(*) FILTER (WHERE available_at <= (SELECT clock_timestamp())) AS due,
                      greatest(0, extract(epoch FROM clock_timestamp() - min(available_at)))
                          ::double precision AS oldest_due_seconds
                 FROM chot.jobs WHERE state = 'pending' GROUP BY queue, kind) AS p) AS pending,
           (SELECT coalesce(json_agg(o), '[]') FROM (
               SELECT kind, state, sum(jobs)::bigint AS jobs FROM (
                   SELECT kind, 'running' AS state, count(*) AS jobs FROM chot.jobs
                    WHERE state = 'running' GROUP BY kind
                   UNION ALL
                   SELECT kind, 'dead', count(*) FROM chot.jobs WHERE state = 'dead' GROUP BY kind
                   UNION ALL
                   SELECT kind, state, jobs FROM chot.ending_totals
                   UNION ALL
                   SELECT kind, state, count(*) FROM chot.endings GROUP BY kind, state) AS each
                GROUP BY kind, state) AS o) AS others,
           (SELECT coalesce(json_agg(name), '[]') FROM chot.kinds) AS kinds,
           (SELECT coalesce(json_agg(q), '[]') FROM (
               SELECT name, paused FROM chot.queues) AS q) AS queues,
           (SELECT count(*) FROM chot.outbox
             WHERE quarantined_at IS NULL AND next_send_at <= (SELECT clock_timestamp()))
               AS outbox_due,
           (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(
                       CASE WHEN sends = 0 THEN next_send_at ELSE created_at END)))
              FROM chot.outbox
             WHERE quarantined_at IS NULL
               AND next_send_at <= (SELECT clock_timestamp() + interval '5 minutes'))
               ::double precision AS outbox_lag_seconds,
           (SELECT count(*) FROM chot.outbox WHERE quarantined_at IS NOT NULL) AS quarantined,
           (SELECT count(*) FROM chot.dead_messages) AS dead_messages,
           (SELECT count(*) FROM chot.workers WHERE live_until > clock_timestamp())
               AS live_workers,
           {_LISTED}""")


async def read_counts(conn: AsyncConnection) -> dict[str, Any]:
    """All counts of one moment.

    `pending` has a row for each queue and kind, `others` one for each kind and other state, `ends`
    one for each kind and outcome of attempts; `backlog_seconds` is queue → seconds. What alerts are
    about (shared/jobs/troubles.py) is read right after it.
    """
    counts = dict((await conn.execute(READ_COUNTS)).mappings().one())
    counts["backlog_seconds"] = backlog_seconds(counts)
    return counts | await read_troubles(conn)


# Whoever comes second has nothing to do. Rows that a transaction under way has inserted are not
# seen yet and stay.
ADD_UP_ENDINGS = text("""
    WITH turn AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(hashtextextended('chot endings', 0)) AS ours),
    gone AS (
        DELETE FROM chot.endings WHERE id IN (
            SELECT id FROM chot.endings WHERE (SELECT ours FROM turn) ORDER BY id LIMIT :most)
        RETURNING kind, state, at, queue, company, brand),
    added AS (
        INSERT INTO chot.ending_totals AS t (kind, state, jobs)
        SELECT kind, state, count(*) FROM gone GROUP BY kind, state ORDER BY kind, state
        ON CONFLICT (kind, state) DO UPDATE SET jobs = t.jobs + excluded.jobs),
    by_minute AS (
        INSERT INTO chot.job_minutes AS m (minute, queue, company, brand, state, jobs)
        SELECT date_trunc('minute', at), queue, company, coalesce(brand, ''), state, count(*)
          FROM gone WHERE at IS NOT NULL GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (minute, queue, company, brand, state) DO UPDATE
           SET jobs = m.jobs + excluded.jobs)
    SELECT count(*) FROM gone""")


async def add_up_endings(conn: AsyncConnection, *, most: int = ENDINGS) -> int:
    """Move up to `most` endings into totals and minutes; answers how many. In autocommit."""
    return int(await conn.scalar(ADD_UP_ENDINGS, {"most": most}) or 0)

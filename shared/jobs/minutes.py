"""Minutes: how many jobs waited, ran, were dead and ended in each minute of the last day.

What ended is added up from the endings (shared.jobs.counts); what waits, runs or is dead is counted
once a minute by one process. Kept for 25 hours, whatever the load: bounded by queues and brands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope
from shared.database import find_by_index

LEVELS = ("pending", "running", "dead")
ENDS = ("succeeded", "cancelled")
KEPT = "25 hours"
RATE_MINUTES = 5

# Whoever comes second in a minute counts nothing: the mark is there, and the counts are not asked.
SAMPLE_MINUTE = text(f"""
    WITH turn AS MATERIALIZED (
        SELECT date_trunc('minute', clock_timestamp()) AS minute,
               pg_try_advisory_xact_lock(hashtextextended('chot minutes', 0)) AS ours),
    mark AS (
        INSERT INTO chot.job_minutes (minute, queue, company, brand, state, jobs)
        SELECT minute, '', '', '', 'sampled', 1 FROM turn WHERE ours
        ON CONFLICT DO NOTHING RETURNING minute),
    old AS (
        DELETE FROM chot.job_minutes
         WHERE minute < (SELECT minute FROM mark) - interval '{KEPT}'),
    counted AS (
        INSERT INTO chot.job_minutes (minute, queue, company, brand, state, jobs)
        SELECT (SELECT minute FROM mark), c.queue, c.company, coalesce(c.brand, ''), c.state, c.jobs
          FROM (SELECT queue, company, brand, 'pending' AS state, count(*) AS jobs FROM chot.jobs
                 WHERE state = 'pending' AND (SELECT count(*) FROM mark) > 0
                 GROUP BY queue, company, brand
                UNION ALL
                SELECT queue, company, brand, 'running', count(*) FROM chot.jobs
                 WHERE state = 'running' AND (SELECT count(*) FROM mark) > 0
                 GROUP BY queue, company, brand
                UNION ALL
                SELECT queue, company, brand, 'dead', count(*) FROM chot.jobs
                 WHERE state = 'dead' AND (SELECT count(*) FROM mark) > 0
                 GROUP BY queue, company, brand) AS c
        ON CONFLICT DO NOTHING)
    SELECT count(*) FROM mark""")

# What maintenance has not added up yet is counted with it.
MINUTES = """(SELECT minute, queue, company, brand, state, jobs FROM chot.job_minutes
              UNION ALL
              SELECT date_trunc('minute', at), queue, company, coalesce(brand, ''), state, 1
                FROM chot.endings WHERE at IS NOT NULL)"""
READ_HISTORY = text(f"""
    SELECT (floor(extract(epoch FROM j.minute) / :step) * :step)::bigint AS began,
           j.state, sum(j.jobs)::double precision AS jobs
      FROM {MINUTES} AS j
     WHERE j.minute >= to_timestamp(:since) AND j.minute < to_timestamp(:until)
       AND (j.state = 'sampled' OR {IN_SCOPE})
     GROUP BY 1, 2""")
READ_RATES = text(f"""
    SELECT j.queue, sum(j.jobs)::double precision / {RATE_MINUTES} AS a_minute
      FROM {MINUTES} AS j
     WHERE j.state IN ('succeeded', 'cancelled') AND {IN_SCOPE}
       AND j.minute >= date_trunc('minute', clock_timestamp()) - interval '{RATE_MINUTES} minutes'
       AND j.minute < date_trunc('minute', clock_timestamp())
     GROUP BY j.queue""")
NOW = text("SELECT extract(epoch FROM clock_timestamp())::double precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Values at equal steps (seconds), the oldest first, up to the last full step.

    `levels` are means of what was counted in a step (None: nothing was), `ended` are sums.
    """

    began: int
    step: int
    levels: Mapping[str, list[float | None]]
    ended: Mapping[str, list[float]]


async def sample_minute(conn: AsyncConnection) -> bool:
    """Count this minute unless it has been counted; whether it was by this call."""
    await find_by_index(conn)
    return bool(await conn.scalar(SAMPLE_MINUTE))


async def read_history(
    conn: AsyncConnection, *, step: int, steps: int, scope: Scope = EVERYTHING
) -> History:
    """The last `steps` full steps of `step` seconds (a multiple of a minute), of this scope."""
    now = float(await conn.scalar(NOW) or 0)
    until = int(now // step) * step
    since = until - step * steps
    binds: dict[str, Any] = {"step": step, "since": since, "until": until, **scope.binds()}
    rows = (await conn.execute(READ_HISTORY, binds)).all()
    found = {(row.began, row.state): row.jobs for row in rows}
    times = [since + n * step for n in range(steps)]

    def level(began: int, state: str) -> float | None:
        looks = found.get((began, "sampled"))
        return found.get((began, state), 0.0) / looks if looks else None

    return History(
        began=since,
        step=step,
        levels={state: [level(each, state) for each in times] for state in LEVELS},
        ended={state: [found.get((each, state), 0.0) for each in times] for state in ENDS},
    )


async def read_rates(conn: AsyncConnection, *, scope: Scope = EVERYTHING) -> dict[str, float]:
    """Jobs that ended a minute, by queue: the mean of the last five full minutes."""
    rows = (await conn.execute(READ_RATES, scope.binds())).all()
    return {row.queue: row.a_minute for row in rows}

"""Plain reads of queues and workers: depth, age, who runs what."""

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

MOST_COUNTED = 10_000

# Pending jobs are counted up to a border: nobody tells two million from one by looking, and a bug
# that submits them must not take the page down. The others are few; each part reads one partial
# index, where a condition on several states would read every job there was.
LIST_QUEUES = text(f"""
    SELECT q.name, q.paused, p.pending, d.due, o.oldest_due_seconds,
           coalesce(r.running, 0) AS running, coalesce(x.dead, 0) AS dead,
           CASE WHEN q.alone_until > clock_timestamp() THEN q.alone_worker END AS alone_worker,
           q.weights
      FROM chot.queues q
     CROSS JOIN LATERAL (
        SELECT count(*) AS pending FROM (
            SELECT FROM chot.jobs j WHERE j.queue = q.name AND j.state = 'pending' AND {IN_SCOPE}
             LIMIT {MOST_COUNTED}) AS c) AS p
     CROSS JOIN LATERAL (
        SELECT count(*) AS due FROM (
            SELECT FROM chot.jobs j WHERE j.queue = q.name AND j.state = 'pending' AND {IN_SCOPE}
               AND j.available_at <= (SELECT clock_timestamp()) LIMIT {MOST_COUNTED}) AS c) AS d
      LEFT JOIN LATERAL (
        SELECT greatest(extract(epoch FROM clock_timestamp() - j.available_at), 0)
                   ::double precision AS oldest_due_seconds
          FROM chot.jobs j WHERE j.queue = q.name AND j.state = 'pending' AND {IN_SCOPE}
           AND j.available_at <= (SELECT clock_timestamp())
         ORDER BY j.available_at LIMIT 1) AS o ON true
      LEFT JOIN (
        SELECT queue, count(*) AS running FROM chot.jobs j
         WHERE state = 'running' AND {IN_SCOPE} GROUP BY queue) r ON r.queue = q.name
      LEFT JOIN (
        SELECT queue, count(*) AS dead FROM chot.jobs j
         WHERE state = 'dead' AND {IN_SCOPE} GROUP BY queue) x ON x.queue = q.name
     ORDER BY q.name""")


async def list_queues(conn: AsyncConnection, *, scope: Scope = EVERYTHING) -> list[RowMapping]:
    """Every queue with its depth by state and the age (seconds) of its oldest due job.

    Counted are the jobs of this scope only; `pending` and `due` go up to MOST_COUNTED.
    """
    return list((await conn.execute(LIST_QUEUES, scope.binds())).mappings().all())


LIST_WORKERS = text(f"""
    SELECT w.worker_id, w.host, w.pid, w.state, w.code_version, w.started_at, w.seen_at,
           w.live_until > clock_timestamp() AS live, w.kinds,
           coalesce((SELECT json_agg(q ORDER BY q.queue) FROM (
               SELECT queue, slots, free_slots FROM chot.worker_queues
                WHERE worker_id = w.worker_id) AS q), '[]') AS queues,
           coalesce((SELECT json_agg(r ORDER BY r.job_id) FROM (
               SELECT id AS job_id, kind, attempt, started_at FROM chot.jobs j
                WHERE state = 'running' AND worker_id = w.worker_id AND {IN_SCOPE}) AS r), '[]')
               AS running
      FROM (SELECT * FROM chot.workers ORDER BY live_until DESC, worker_id LIMIT :limit) AS w
     ORDER BY w.worker_id""")


async def list_workers(
    conn: AsyncConnection, *, limit: int = 1000, scope: Scope = EVERYTHING
) -> list[RowMapping]:
    """Every worker that has registered; `queues` are its slots, `running` its jobs in scope.

    Beyond the limit those are left out that have been gone for longest: one that dies as often as
    it is started leaves a row each time, and must not hide those that live.
    """
    binds = {"limit": limit, **scope.binds()}
    return list((await conn.execute(LIST_WORKERS, binds)).mappings().all())

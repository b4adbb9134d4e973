"""Reconciler: what SQS lost is published again.

A job is lost when it is pending, claimable, known to a live worker, and published longer than T
ago, while since then a live worker of its queue has had free slots and an empty receive; or, where
a queue never runs empty, published longer than 15 minutes ago with free slots all that time. While
all slots are busy nothing is lost, only waiting: no storm. T doubles per job. The new message
stands where the old one stood in the order of its brand, not behind all that came since.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.locks import NOT_LOCKED_OUT
from shared.jobs.states import CLAIMABLE, KNOWN_TO_A_LIVE_WORKER
from shared.logs import log

BATCH = 500
LONGEST_SECONDS = 900

# `idle` says nothing new: what is due since somebody last waited in vain cannot be lost. It is
# what the index is read by, so that a backlog of any size costs nothing while all are busy.
_PUBLISHED = "greatest(coalesce(j.published_at, j.available_at), j.available_at)"
RESTAGE_LOST = text(f"""
    WITH idle AS MATERIALIZED (
        SELECT q.queue, greatest(max(q.empty_receive_at), clock_timestamp()
                                 - make_interval(secs => {LONGEST_SECONDS})) AS at
          FROM chot.worker_queues q JOIN chot.workers w USING (worker_id)
         WHERE w.live_until > clock_timestamp() AND q.free_slots > 0 GROUP BY q.queue),
    lost AS MATERIALIZED (
        SELECT l.id FROM idle CROSS JOIN LATERAL (
        SELECT j.id FROM chot.jobs j
         WHERE j.queue = idle.queue AND j.available_at < idle.at
           AND j.state = 'pending' AND {CLAIMABLE} AND {KNOWN_TO_A_LIVE_WORKER}
           AND {NOT_LOCKED_OUT}
           AND {_PUBLISHED} < clock_timestamp() - make_interval(
                   secs => least({LONGEST_SECONDS},
                                 :seconds * 2.0 ^ least(16, greatest(0, j.publishes - 1))))
           AND NOT EXISTS (SELECT FROM chot.outbox o WHERE o.job_id = j.id)
           AND EXISTS (
               SELECT FROM chot.worker_queues q JOIN chot.workers w USING (worker_id)
                WHERE q.queue = j.queue AND w.live_until > clock_timestamp() AND q.free_slots > 0
                  AND (q.empty_receive_at > {_PUBLISHED}
                       OR ({_PUBLISHED} < clock_timestamp()
                                        - make_interval(secs => {LONGEST_SECONDS})
                           AND q.free_since < {_PUBLISHED})))
         ORDER BY j.id LIMIT {BATCH} FOR NO KEY UPDATE OF j SKIP LOCKED) AS l),
    marked AS (
        UPDATE chot.jobs j SET published_at = clock_timestamp()
          FROM lost WHERE j.id = lost.id AND j.state = 'pending'
        RETURNING j.*)
    INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
    SELECT id, queue, kind, company, brand, trace, priority, available_at FROM marked
    RETURNING job_id""")


async def restage_lost(conn: AsyncConnection, seconds: float) -> int:
    """Stage a new message for each job that SQS lost; answers how many. In autocommit.

    Model: action reconcile.
    """
    rows = (await conn.execute(RESTAGE_LOST, {"seconds": seconds})).all()
    if rows:
        log.warning("message.lost", jobs=len(rows), first=str(rows[0].job_id))
    return len(rows)

"""Troubles: what an on-call engineer is called for, counted beside shared/jobs/counts.py.

Only what is wrong counts: a backlog that waits its turn in the outbox is no lag of SQS, what an
operator has paused or frozen starves by his will, and a job that waits for its group waits for
work, not in vain.
"""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.limits import limits_of
from shared.jobs.states import CLAIMABLE_PARTS, KNOWN_TO_A_LIVE_WORKER
from shared.jobs.stops import books_frozen, kind_paused

RECENT_SECONDS = 900
MOST_COUNTED = 10_000

# No operator has stopped it, and it waits for no group: over `j`, of a queue that is not paused.
_WANTED = f"""NOT {kind_paused("j")} AND NOT {books_frozen("j")}
              AND {CLAIMABLE_PARTS["joined"]} AND {CLAIMABLE_PARTS["resumed"]}"""
# Due jobs, by kind, that no live worker would run.
UNSERVED = f"""
    SELECT g.kind, sum(found.jobs)::bigint AS jobs
      FROM (SELECT j.queue, j.kind, j.payload_version FROM (
                SELECT DISTINCT queue, kind, payload_version FROM chot.jobs
                 WHERE state = 'pending'
                   AND available_at <= (SELECT clock_timestamp())) AS j
             WHERE NOT {KNOWN_TO_A_LIVE_WORKER}) AS g
      JOIN chot.queues q ON q.name = g.queue AND NOT q.paused
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs FROM (
               SELECT FROM chot.jobs j
                WHERE j.queue = g.queue AND j.kind = g.kind AND j.state = 'pending'
                  AND j.payload_version = g.payload_version
                  AND j.available_at <= (SELECT clock_timestamp()) AND {_WANTED}
                LIMIT {MOST_COUNTED}) AS c) AS found
     GROUP BY g.kind HAVING sum(found.jobs) > 0"""
# One statement. Of a message that was sent in vain the relay has counted more than one send; one
# that was never sent waits for SQS only where nothing of its queue is there or on its way.
READ_TROUBLES = text(f"""
    SELECT (SELECT coalesce(json_object_agg(q.name, oldest.seconds), '{{}}')
              FROM chot.queues q, LATERAL (
                   SELECT extract(epoch FROM clock_timestamp() - j.available_at)::double precision
                              AS seconds
                     FROM chot.jobs j
                    WHERE j.queue = q.name AND j.state = 'pending' AND {_WANTED}
                    ORDER BY j.available_at LIMIT 1) AS oldest
             WHERE NOT q.paused AND oldest.seconds > 0) AS starved,
           (SELECT coalesce(json_agg(u), '[]') FROM ({UNSERVED}) AS u) AS unserved,
           (SELECT greatest(0, max(extract(epoch FROM clock_timestamp() - o.since)))
              FROM (SELECT o.queue, o.kind, o.company, o.brand,
                           min(CASE WHEN o.sends = 0 THEN o.next_send_at ELSE o.created_at END)
                               AS since
                      FROM chot.outbox o JOIN (
                           SELECT q.name, EXISTS (SELECT FROM chot.published p
                                                   WHERE p.queue = q.name) AS busy
                             FROM chot.queues q WHERE NOT q.paused) AS open ON open.name = o.queue
                     WHERE o.quarantined_at IS NULL
                       AND (o.sends > 1
                            OR (o.sends = 0 AND NOT open.busy
                                AND o.next_send_at <= (SELECT clock_timestamp())))
                     GROUP BY o.queue, o.kind, o.company, o.brand) AS o
             WHERE NOT {kind_paused("o")} AND NOT {books_frozen("o")}
               AND NOT EXISTS ({limits_of("o")}))::double precision AS outbox_stuck_seconds,
           (SELECT count(*) FROM chot.lease_losses
             WHERE at > clock_timestamp() - make_interval(secs => {RECENT_SECONDS}))
               AS leases_lost,
           (SELECT count(*) FROM chot.workers
             WHERE live_until < clock_timestamp()
               AND live_until > clock_timestamp() - make_interval(secs => {RECENT_SECONDS}))
               AS workers_lost,
           (SELECT max(extract(epoch FROM clock_timestamp() - seen_at)
                       / nullif(extract(epoch FROM live_until - seen_at), 0))
              FROM chot.workers WHERE live_until > clock_timestamp())::double precision
               AS heartbeat_used,
           (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))
              FROM pg_stat_activity
             WHERE datname = current_database() AND backend_type = 'client backend'
               AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL))::double precision
               AS transaction_seconds,
           (SELECT greatest(0, max(extract(epoch FROM clock_timestamp()
                                                      - greatest(n.made_at, s.until))))
              FROM chot.alert_notices n LEFT JOIN chot.alert_silences s ON s.rule = n.rule
           )::double precision AS notice_late_seconds""")


async def read_troubles(conn: AsyncConnection) -> dict[str, Any]:
    """The numbers of one moment; None where there is nothing to measure.

    `starved` is queue → seconds, `unserved` has a row for each kind with such jobs.
    """
    return dict((await conn.execute(READ_TROUBLES)).mappings().one())

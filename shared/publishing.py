"""Order of publishing: which committed messages go to SQS next, and how many may be there.

SQS has no priorities, so it is kept short: each queue has a window of a few messages per slot that
its live workers offer, and what waits, waits in the outbox. Room in the window goes to the highest
priority, within it by deficit round robin to the brands, weighted. The head of a lane (priority and
brand) that was not served for `ageing` seconds rises by a priority, so that nothing waits for ever.

Whether a message counts is read from the truth, never from a counter: its job is pending under the
fence it was published with, no other message of the job waits, and since it was taken no receive
of a live worker came back empty (then it is lost, or in somebody's hands, not in the queue).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.states import CLAIMABLE
from shared.jobs.stops import books_frozen, kind_paused
from shared.limited_lanes import (
    ALLOWED,
    ANOTHER_ROUND,
    LANE_LIMITS,
    LIMIT_ROOM,
    PASSED_OVER,
    RISES,
    TURNS,
)

TAKE = 100
FIRST_RESEND_SECONDS = 5
LAST_RESEND_SECONDS = 300
# The window of a queue: messages per slot offered, and of a queue that nobody serves yet.
PER_SLOT = 3
UNSERVED = 10
# A message that so many windows of later ones have passed is lost, or as good as lost.
OVERTAKEN = 3
LONGEST_IN_WINDOW_SECONDS = 900
AGEING_SECONDS = 30.0

# What the live workers of queue `q` offer, and the window that makes; over `offered`.
OFFERED = """
          SELECT coalesce(sum(wq.slots), 0)::integer AS slots,
                 max(wq.empty_receive_at) AS emptied_at
            FROM chot.worker_queues wq JOIN chot.workers w USING (worker_id)
           WHERE wq.queue = q.name AND w.live_until > clock_timestamp()
             AND w.state <> 'draining'"""
WINDOW_SIZE = f"CASE WHEN offered.slots = 0 THEN {UNSERVED} ELSE {PER_SLOT} * offered.slots END"

# One relay at a time per queue, and nobody waits. A relay whose snapshot is older than another's
# take would count wrongly: it sees other `turns` in the row it locks and passes the queue over.
_OPEN_QUEUES = f"""
    SELECT q.name, q.turns, q.shares, q.weights, offered.emptied_at,
           {WINDOW_SIZE} AS size
      FROM chot.queues q
      CROSS JOIN LATERAL ({OFFERED}) AS offered
     WHERE NOT q.paused
       AND q.turns = (SELECT seen.turns FROM chot.queues seen WHERE seen.name = q.name)
       AND statement_timestamp() >= (
               SELECT min(first.at) FROM generate_series(0, 9) AS p (priority)
                CROSS JOIN LATERAL (
                      SELECT min(o.next_send_at) AS at FROM chot.outbox o
                       WHERE o.queue = q.name AND o.priority = p.priority
                         AND o.quarantined_at IS NULL) AS first)
     ORDER BY q.name
       FOR NO KEY UPDATE OF q SKIP LOCKED"""

# Which published messages count in their window; over `open_queues`.
HELD = f"""
    SELECT p.queue, p.job_id, p.kind, j.company, j.brand,
           (j.state = 'pending' AND j.fence = p.fence
            AND p.turn > q.turns - {OVERTAKEN} * q.size
            AND p.taken_at > clock_timestamp()
                           - make_interval(secs => {LONGEST_IN_WINDOW_SECONDS})
            AND (q.emptied_at IS NULL OR p.taken_at > q.emptied_at)
            AND NOT EXISTS (
                SELECT FROM chot.outbox o
                 WHERE o.job_id = p.job_id AND o.quarantined_at IS NULL
                   AND (o.take_token IS DISTINCT FROM p.take_token
                        OR o.next_send_at <= statement_timestamp()))) IS TRUE AS counts
      FROM open_queues q
      JOIN chot.published p ON p.queue = q.name
      LEFT JOIN LATERAL (
          SELECT state, fence, company, brand FROM chot.jobs
           WHERE id = p.job_id OFFSET 0) AS j ON true"""

# From lane to lane by the index, one probe each, however many messages wait in them. Rows of older
# code do not say their company ('').
_COMPANY, _BRAND = "coalesce(o.company, '')", "coalesce(o.brand, '')"
_HEAD = f"SELECT o.priority, {_COMPANY} AS company, {_BRAND} AS brand, o.kind FROM chot.outbox o"
_LAST = f"ORDER BY o.priority DESC, {_COMPANY} DESC, {_BRAND} DESC, o.kind DESC LIMIT 1"
_LANES = f"""
    SELECT w.name AS queue, w.room, head.*
      FROM windows w
      CROSS JOIN LATERAL (
          {_HEAD} WHERE o.queue = w.name AND o.quarantined_at IS NULL {_LAST}) AS head
     WHERE w.room > 0
    UNION ALL
    SELECT l.queue, l.room, head.*
      FROM lanes l
      CROSS JOIN LATERAL (
          {_HEAD} WHERE o.queue = l.queue AND o.quarantined_at IS NULL
             AND (o.priority, {_COMPANY}, {_BRAND}, o.kind)
                 < (l.priority, l.company, l.brand, l.kind) {_LAST}) AS head"""
# What an operator has stopped is passed over, whatever waits in it.
_OPEN_LANES = f"""
    SELECT * FROM lanes l
     WHERE NOT {kind_paused("l")} AND NOT {books_frozen("l")}"""

# One more than there is room for, to know which lanes go on waiting. OFFSET 0: each job is looked
# up by its id, whatever the planner believes of how many there are.
_DUE = f"""
    SELECT l.queue, l.priority, l.company, l.brand, l.kind, l.room, o.id, o.job_id, o.next_send_at,
           coalesce(job.state, 'pending') AS job_state, job.fence, job.available_at,
           coalesce(job.state = 'pending' AND job.claimable, true) AS ready
      FROM open_lanes l
      CROSS JOIN LATERAL (
          SELECT d.id, d.job_id, d.next_send_at FROM chot.outbox d
           WHERE d.queue = l.queue AND d.priority = l.priority
             AND coalesce(d.company, '') = l.company AND coalesce(d.brand, '') = l.brand
             AND d.kind = l.kind
             AND d.quarantined_at IS NULL AND d.next_send_at <= statement_timestamp()
           ORDER BY d.next_send_at, d.id LIMIT l.room + 1) AS o
      LEFT JOIN LATERAL (
          SELECT j.state, j.fence, j.available_at, {CLAIMABLE} AS claimable
            FROM chot.jobs j WHERE j.id = o.job_id OFFSET 0) AS job ON true"""

# What has a limit of its kind is a lane of its own: what else its brand is served says nothing of
# it.
_SHARES = """
    SELECT d.*, coalesce((w.weights ->> (d.company || chr(31) || d.brand))::numeric,
                         (w.weights ->> d.brand)::numeric, 1) AS weight,
           coalesce((w.shares -> (d.priority || d.lane) ->> 0)::numeric, 0) AS deficit,
           coalesce((w.shares -> (d.priority || d.lane) ->> 1)::numeric, 0) AS served,
           row_number() OVER (PARTITION BY d.queue, d.priority, d.lane
                              ORDER BY d.next_send_at, d.id) AS of_lane
      FROM (SELECT due.*, due.company || chr(31) || due.brand
                       || CASE WHEN EXISTS (
                                  SELECT FROM lane_limits k
                                   WHERE k.queue = due.queue AND k.kind = due.kind
                                     AND k.company = due.company AND k.brand = due.brand
                                     AND k.of_kind IS NOT NULL)
                               THEN chr(31) || due.kind ELSE '' END AS lane
              FROM due
             WHERE due.ready) AS d
      JOIN windows w ON w.name = d.queue"""

_LEVELS = f"""
    SELECT a.*, bool_or(a.rises > 0) OVER (PARTITION BY a.queue, a.priority, a.lane) AS has_aged
      FROM (SELECT allowed.*, CASE WHEN n = 1 THEN {RISES} ELSE 0 END AS rises
              FROM allowed) AS a"""

# The head that has risen is given, not charged; the others go in rounds of what their brand has.
_ROUNDS = """
    SELECT l.*, CASE WHEN l.rises > 0 THEN 0
                     ELSE greatest(0, ceil((l.n - l.has_aged::integer - l.deficit) / l.weight))
                END AS round
      FROM levels l"""
_PLACES = """
    SELECT r.*, row_number() OVER (
               PARTITION BY r.queue
               ORDER BY least(9, r.priority + r.rises) DESC, r.rises > 0 DESC,
                        r.rises DESC, r.round, r.lane, r.n) AS place
      FROM rounds r"""

# What each lane that goes on waiting has left: topped up by the rounds begun, less what it had.
_LEFT = """
    SELECT b.queue, jsonb_object_agg(b.priority || b.lane, jsonb_build_array(
               b.deficit + b.weight * coalesce(t.rounds, 0) - b.charged,
               CASE WHEN b.chosen > 0 THEN extract(epoch FROM statement_timestamp())
                    ELSE b.served END)) FILTER (WHERE b.waiting > b.chosen) AS shares
      FROM (SELECT s.*, coalesce(c.chosen, 0) AS chosen, coalesce(c.charged, 0) AS charged
              FROM (SELECT queue, priority, lane, weight, deficit, served, count(*) AS waiting
                      FROM shared
                     GROUP BY queue, priority, lane, weight, deficit, served) AS s
              LEFT JOIN (SELECT queue, priority, lane, count(*) AS chosen,
                                count(*) FILTER (WHERE rises = 0) AS charged
                           FROM chosen GROUP BY queue, priority, lane) AS c
                USING (queue, priority, lane)) AS b
      LEFT JOIN (SELECT queue, priority, max(round) AS rounds
                   FROM chosen WHERE rises = 0 GROUP BY queue, priority) AS t
        ON t.queue = b.queue AND t.priority = b.priority
     GROUP BY b.queue"""

# A row whose job is no longer pending has nothing left to say and is dropped; one whose job is not
# due waits until it is. A job that is unknown is published: the claim will tell. The time is the
# statement's, not clock_timestamp(), where an index is to be gone by: what is volatile goes by
# none. Nothing here waits for a lock.
TAKE_DUE = text(f"""
    WITH RECURSIVE
    open_queues AS MATERIALIZED ({_OPEN_QUEUES}),
    held AS MATERIALIZED ({HELD}),
    windows AS MATERIALIZED (
        SELECT q.*, least(:most, q.size - (
                   SELECT count(*) FROM held WHERE held.queue = q.name AND held.counts)) AS room
          FROM open_queues q),
    lanes AS ({_LANES}),
    open_lanes AS MATERIALIZED ({_OPEN_LANES}),
    due AS MATERIALIZED ({_DUE}),
    lane_limits AS MATERIALIZED ({LANE_LIMITS}),
    limit_room AS MATERIALIZED ({LIMIT_ROOM}),
    shared AS MATERIALIZED ({_SHARES}),
    turns AS ({TURNS}),
    passed_over AS MATERIALIZED ({PASSED_OVER}),
    allowed AS ({ALLOWED}),
    levels AS ({_LEVELS}),
    rounds AS ({_ROUNDS}),
    places AS ({_PLACES}),
    chosen AS MATERIALIZED (SELECT * FROM places WHERE place <= room),
    locked AS MATERIALIZED (
        SELECT o.id FROM chot.outbox o
         WHERE o.id = ANY(ARRAY(SELECT id FROM chosen UNION ALL
                                SELECT id FROM due WHERE NOT ready))
           AND o.next_send_at <= statement_timestamp()
         ORDER BY o.id FOR UPDATE OF o SKIP LOCKED),
    dropped AS (
        DELETE FROM chot.outbox o
         WHERE o.id = ANY(ARRAY(SELECT id FROM due JOIN locked USING (id)
                                 WHERE due.job_state <> 'pending'))
        RETURNING o.id),
    postponed AS (
        UPDATE chot.outbox o
           SET next_send_at = greatest((SELECT available_at FROM due WHERE due.id = o.id),
                                       clock_timestamp() + make_interval(secs => 1))
         WHERE o.id = ANY(ARRAY(SELECT id FROM due JOIN locked USING (id)
                                 WHERE due.job_state = 'pending' AND NOT due.ready))
        RETURNING o.id),
    sending AS (
        UPDATE chot.outbox o
           SET take_token = :token, sends = sends + 1,
               next_send_at = clock_timestamp()
                            + make_interval(secs => least({LAST_RESEND_SECONDS},
                                                          {FIRST_RESEND_SECONDS} * 2.0 ^ sends))
         WHERE o.id = ANY(ARRAY(SELECT id FROM chosen JOIN locked USING (id)))
        RETURNING o.id, o.job_id, o.queue, o.kind, o.brand, o.trace, o.sends),
    taken AS (SELECT sending.*, chosen.fence, chosen.place FROM sending JOIN chosen USING (id)),
    stale AS MATERIALIZED (
        SELECT p.queue, p.job_id FROM chot.published p
          JOIN held h ON h.queue = p.queue AND h.job_id = p.job_id
         WHERE NOT h.counts AND h.job_id NOT IN (SELECT job_id FROM taken)
         ORDER BY p.queue, p.job_id FOR UPDATE OF p SKIP LOCKED),
    pruned AS (
        DELETE FROM chot.published p USING stale s
         WHERE p.queue = s.queue AND p.job_id = s.job_id),
    sent AS (
        INSERT INTO chot.published AS p (queue, job_id, kind, fence, turn, take_token)
        SELECT DISTINCT ON (t.queue, t.job_id) t.queue, t.job_id, t.kind, t.fence,
               w.turns + t.place, :token
          FROM taken t JOIN windows w ON w.name = t.queue
         WHERE t.fence IS NOT NULL ORDER BY t.queue, t.job_id
        ON CONFLICT (queue, job_id) DO UPDATE
           SET fence = excluded.fence, turn = excluded.turn, take_token = excluded.take_token,
               taken_at = excluded.taken_at),
    turned AS (
        UPDATE chot.queues q
           SET turns = q.turns + (SELECT count(*) FROM chosen c WHERE c.queue = q.name),
               shares = coalesce(l.shares, '{{}}')
          FROM ({_LEFT}) AS l WHERE l.queue = q.name)
    SELECT id, job_id, queue, kind, brand, trace, sends, place, true AS taken,
           (SELECT deployment_id FROM chot.deployment) AS deployment_id FROM taken
    UNION ALL
    SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL FROM dropped
    UNION ALL
    SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL FROM postponed
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL
     WHERE EXISTS (SELECT FROM taken) AND EXISTS ({ANOTHER_ROUND})""")


# A message that was received and not claimed is in nobody's way: put off, deleted or staged anew.
LEAVE_WINDOW = text("""
    WITH gone AS MATERIALIZED (
        SELECT p.queue, p.job_id FROM chot.published p
         WHERE p.queue = :queue AND p.job_id = ANY(:ids)
         ORDER BY p.queue, p.job_id FOR UPDATE SKIP LOCKED)
    DELETE FROM chot.published p USING gone
     WHERE p.queue = gone.queue AND p.job_id = gone.job_id""")


async def leave_window(conn: AsyncConnection, queue: str, ids: Sequence[UUID]) -> None:
    """Say that these jobs' messages have left SQS, though nobody has claimed the jobs."""
    await conn.execute(LEAVE_WINDOW, {"queue": queue, "ids": list(ids)})


@dataclass(frozen=True, slots=True)
class Take:
    """What one take gave: rows in the order to send them, and whether more may be had at once."""

    rows: Sequence[Row[Any]]
    more: bool


async def take(
    conn: AsyncConnection, token: UUID, *, most: int = TAKE, ageing_seconds: float = AGEING_SECONDS
) -> Take:
    """Take due rows under `token`; nobody else takes them before `next_send_at` comes again.

    At most `most` of each queue, and no more than its window has room for; a queue that another
    relay is taking from at this moment is passed over. One statement, in autocommit.
    """
    binds = {"token": token, "most": most, "ageing": ageing_seconds}
    rows = (await conn.execute(TAKE_DUE, binds)).all()
    taken = sorted((row for row in rows if row.taken), key=lambda row: row.place)
    return Take(taken, more=len(taken) < len(rows) or len(taken) >= most)


async def take_due(conn: AsyncConnection, token: UUID, *, most: int = TAKE) -> Sequence[Row[Any]]:
    """Take due rows as `take` does; answers the rows alone.

    Model: action relay_drop.
    """
    return (await take(conn, token, most=most)).rows

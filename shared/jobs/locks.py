"""Business locks: who holds what, who waits before whom, and who is woken when somebody ends.

A job holds its locks while it is `running`, whatever its lease says. A job that was not claimed for
them is registered as a waiter; a waiter that could run but for locks reserves what it waits for
against everybody who comes after it in the one order of (priority, id). It stays registered until
it is claimed or ends. Deciding, registering and waking each hold the rows of the job's roots, which
a statement before has locked, so that no wake-up is lost.

All predicates are SQL over an alias that has the job's `id` and `lock_roots`.
"""

import re

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import IN_SCOPE
from shared.jobs.staging import NO_MESSAGE_WAITS
from shared.jobs.states import ATTEMPTS_LEFT_AFTER_LOSS, CLAIMABLE, KNOWN_TO_A_LIVE_WORKER

# What one exit wakes at most; maintenance goes on from there.
MOST_WOKEN = 500
MOST_READERS = 500
MOST_LANES = 500
NOBODY = "CAST('{}' AS uuid[])"


def _over(alias: str, predicate: str) -> str:
    """The predicate over another alias than `j`."""
    return re.sub(r"\bj\.", f"{alias}.", predicate)


def could_run(alias: str) -> str:
    """SQL: the job could be claimed now, were it not for locks. Only such a waiter reserves."""
    return f"""({alias}.state = 'pending' AND {_over(alias, CLAIMABLE)}
              AND {_over(alias, ATTEMPTS_LEFT_AFTER_LOSS)}
              AND {_over(alias, KNOWN_TO_A_LIVE_WORKER)})"""


ANY_ROOT = "true"


def holders(of: str, gone: str = NOBODY, at: str = ANY_ROOT) -> str:
    """FROM and WHERE: jobs `hj` that run, each lock `m` of `of` that one of theirs conflicts with.

    `gone` are jobs that this very statement takes out of running. `at` is a condition on `m`.
    """
    return f"""
              FROM (SELECT r.id, r.kind, r.company, r.brand FROM chot.jobs r
                     WHERE r.state = 'running' AND r.lock_roots IS NOT NULL
                       AND r.lock_roots && {of}.lock_roots AND r.id <> {of}.id
                       AND r.id <> ALL({gone}) OFFSET 0) AS hj
             CROSS JOIN LATERAL (
                 SELECT m.n, m.root, m.part, h.mode, h.period_from, h.period_to
                   FROM chot.job_locks h
                   JOIN chot.job_locks m ON m.job_id = {of}.id AND chot.locks_conflict(h, m)
                  WHERE h.job_id = hj.id OFFSET 0) AS m
             WHERE {at}"""


def waiters_before(of: str, gone: str = NOBODY, at: str = ANY_ROOT) -> str:
    """FROM and WHERE: waiters `wj` whose turn is earlier, by a lock `w` that conflicts with `of`.

    Found by the index of the part, or that of the turn for who locks all parts: of many that wait,
    only those are looked at that come before and lock the same part, or all.
    """
    return f"""
              FROM chot.job_locks m
              JOIN (VALUES ('exclusive'), ('shared')) AS o (mode)
                ON 'exclusive' IN (m.mode, o.mode)
             CROSS JOIN LATERAL (
                 SELECT l.job_id, l.mode, l.period_from, l.period_to
                   FROM (VALUES (m.part), ('')) AS p (part)
                  CROSS JOIN LATERAL (
                      SELECT l.job_id, l.mode, l.period_from, l.period_to
                        FROM chot.job_locks l
                       WHERE l.waiting AND l.root = m.root AND l.part = p.part AND l.mode = o.mode
                         AND (l.turn, l.job_id) < (m.turn, m.job_id)
                         AND chot.locks_conflict(l, m) OFFSET 0) AS l
                  WHERE m.part <> ''
                 UNION ALL
                 SELECT l.job_id, l.mode, l.period_from, l.period_to FROM chot.job_locks l
                  WHERE m.part = '' AND l.waiting AND l.part >= '' AND l.root = m.root
                    AND l.mode = o.mode AND (l.turn, l.job_id) < (m.turn, m.job_id)
                    AND chot.locks_conflict(l, m)) AS w
             CROSS JOIN LATERAL (
                 SELECT wj.id, wj.kind, wj.company, wj.brand, wj.priority FROM chot.jobs wj
                  WHERE wj.id = w.job_id AND {could_run("wj")} OFFSET 0) AS wj
             WHERE m.job_id = {of}.id AND wj.id <> ALL({gone}) AND {at}"""


def unlocked(of: str, gone: str = NOBODY, at: str = ANY_ROOT) -> str:
    """SQL: no lock of `of` conflicts with one of somebody who runs, or of a waiter who goes first.

    OFFSET 0 keeps each a look-up for one job, whatever the planner believes of how many there are.
    """
    return f"""({of}.lock_roots IS NULL OR (NOT EXISTS (
            SELECT {holders(of, gone, at)} OFFSET 0)
        AND NOT EXISTS (
            SELECT {waiters_before(of, gone, at)} OFFSET 0)))"""


# The last part of Claimable, over `j`. Claim and /why ask for it; the relay does not: who has never
# been refused for a lock is no waiter yet, and would be passed by for ever.
UNLOCKED = unlocked("j")
# Over `j`: it waits for a lock, and whoever frees it has yet to stage its message.
WAITS = """(j.lock_roots IS NOT NULL AND EXISTS (
            SELECT FROM chot.job_locks l
             WHERE l.job_id = j.id AND l.waiting AND l.woken_at IS NULL))"""
# Over `j`: its message may be lost; of a waiter that is still locked out there is none to lose.
NOT_LOCKED_OUT = f"""(j.lock_roots IS NULL OR {UNLOCKED} OR NOT EXISTS (
            SELECT FROM chot.job_locks l WHERE l.job_id = j.id AND l.waiting))"""

# Over `j`, in the words of /why: who is in its way, the first of those that the caller may see. Of
# somebody else's it is told that there is one.
_SEEN = _over("hj", IN_SCOPE)
LOCK_HELD = f"""
    SELECT m.root AS held_root, m.part AS held_part, m.mode AS held_mode,
           m.period_from AS held_period_from, m.period_to AS held_period_to,
           CASE WHEN {_SEEN} THEN hj.id END AS holder_id,
           CASE WHEN {_SEEN} THEN hj.kind END AS holder_kind
           {holders("j")}
     ORDER BY {_SEEN} DESC, hj.id, m.n LIMIT 1"""
_SEEN_WAITER = _over("wj", IN_SCOPE)
LOCK_RESERVED = f"""
    SELECT m.root AS reserved_root, m.part AS reserved_part, w.mode AS reserved_mode,
           w.period_from AS reserved_period_from, w.period_to AS reserved_period_to,
           CASE WHEN {_SEEN_WAITER} THEN wj.id END AS waiter_id,
           CASE WHEN {_SEEN_WAITER} THEN wj.kind END AS waiter_kind
           {waiters_before("j")}
     ORDER BY {_SEEN_WAITER} DESC, wj.priority DESC, wj.id, m.n LIMIT 1"""

# What is locked by a claim before it decides, and what has to be made first: a root's row is made
# by a transaction of its own, or two claims that make two roots could wait for each other.
READ_ROOTS = text("""
    SELECT j.lock_roots AS roots,
           ARRAY(SELECT u FROM unnest(j.lock_roots) AS u
                  WHERE NOT EXISTS (SELECT FROM chot.lock_roots r WHERE r.root = u)) AS missing
      FROM chot.jobs j
     WHERE j.id = ANY(:ids) AND j.lock_roots IS NOT NULL AND j.state IN ('pending', 'running')""")
MAKE_ROOTS = text("""
    INSERT INTO chot.lock_roots (root)
    SELECT u FROM unnest(CAST(:roots AS text[])) AS u ORDER BY u ON CONFLICT DO NOTHING""")
# Whoever holds roots waits for a job's row only as long as a relay takes to note that it has sent
# its message. Once it is locked nobody merges into it, so that the locks which the next statement
# reads are those it has.
LOCK_LOCKED = text("""
    SELECT j.lock_roots AS roots
      FROM (SELECT set_config('lock_timeout', '250ms', true) OFFSET 0) AS soon, chot.jobs j
     WHERE j.id = :job_id FOR NO KEY UPDATE OF j""")
# In the claim's transaction: not won for a lock (or for somebody who goes first).
REGISTER = text(f"""
    WITH blocked AS (
        UPDATE chot.jobs j SET blocked_by = 'a business lock'
         WHERE j.id = :job_id AND j.state = 'pending' AND {CLAIMABLE} AND NOT {UNLOCKED}
        RETURNING j.id)
    UPDATE chot.job_locks l SET waiting = true, woken_at = NULL
      FROM blocked b WHERE l.job_id = b.id""")


def unregistered(rows: str) -> str:
    """A CTE, named `unregistered`: the jobs of `rows` wait no more."""
    return f"""unregistered AS (
        UPDATE chot.job_locks l SET waiting = false, woken_at = NULL
          FROM {rows} WHERE l.job_id = {rows}.id AND l.waiting)"""


def _candidates(lane: str, gone: str, most: str) -> str:
    """Unwoken waiters of a lane that could run but for locks, the first ones."""
    return f"""
             SELECT j.id, j.lock_roots, l.turn
               FROM chot.job_locks l
              CROSS JOIN LATERAL (
                  SELECT j.id, j.lock_roots FROM chot.jobs j
                   WHERE j.id = l.job_id AND {could_run("j")} OFFSET 0) AS j
              WHERE l.waiting AND l.woken_at IS NULL AND l.root = {lane}.root
                AND l.part = {lane}.part AND l.lane = {lane}.lane AND j.id <> ALL({gone})
              ORDER BY l.turn, l.job_id LIMIT {most}"""


# An exit holds the rows of its own roots only. At another root somebody may be ending at this very
# moment, whom it still sees running: if each of the two left a waiter of both to the other, nobody
# would wake it. Who is woken for one root and meets a lock at another is registered once more.
_AT_FREED = "m.root IN (SELECT f.root FROM freed f)"


def _lanes_at(freed: str) -> str:
    """CTEs: from lane to lane of the unwoken waiters at these places, each by one probe."""
    return f"""freed AS MATERIALIZED ({freed}),
    ranges AS (
        SELECT root, '' AS low, CASE part WHEN '' THEN chr(1114111) ELSE '' END AS high FROM freed
         UNION
        SELECT root, part, part FROM freed WHERE part <> ''),
    lanes AS (
        SELECT r.root, r.high, first.*
          FROM ranges r CROSS JOIN LATERAL (
              SELECT l.part, l.lane FROM chot.job_locks l
               WHERE l.waiting AND l.woken_at IS NULL AND l.root = r.root
                 AND l.part >= r.low AND l.part <= r.high
               ORDER BY l.part, l.lane LIMIT 1) AS first
        UNION ALL
        SELECT n.root, n.high, next.*
          FROM lanes n CROSS JOIN LATERAL (
              SELECT l.part, l.lane FROM chot.job_locks l
               WHERE l.waiting AND l.woken_at IS NULL AND l.root = n.root
                 AND (l.part, l.lane) > (n.part, n.lane) AND l.part <= n.high
               ORDER BY l.part, l.lane LIMIT 1) AS next)"""


def wake(
    freed: str,
    gone: str = NOBODY,
    *,
    most_lanes: str = str(MOST_LANES),
    was_in_its_way: str = "true",
) -> str:
    """CTEs of a recursive WITH: `woken_staged` has a row for each waiter that may run now.

    `freed` is a SELECT of (root, part). Jobs with the same locks are one lane: of an exclusive lane
    only the first may run, of a shared one those before the first conflict. So a few rows of each
    lane are looked at, however many wait. They are marked, and get a message where they stood.
    `was_in_its_way` is a predicate over a lane's first waiter `head`.

    Model: action exit_check.
    """
    return f"""
    {_lanes_at(freed)},
    heads AS MATERIALIZED (
        SELECT lane.*
          FROM (SELECT DISTINCT ON (lane) root, part, lane
                  FROM (SELECT * FROM lanes LIMIT {most_lanes}) AS these ORDER BY lane) AS lane
         CROSS JOIN LATERAL ({_candidates("lane", gone, "1")}) AS head
         WHERE {was_in_its_way} AND {unlocked("head", gone, _AT_FREED)}),
    runnable AS MATERIALIZED (
        SELECT one.id, one.turn
          FROM heads
         CROSS JOIN LATERAL ({
        _candidates("heads", gone, f"CASE WHEN heads.lane < 'x' THEN {MOST_READERS} ELSE 1 END")
    }) AS one
         WHERE {unlocked("one", gone, _AT_FREED)}
         ORDER BY one.turn, one.id LIMIT {MOST_WOKEN}),
    waking AS MATERIALIZED (
        SELECT l.job_id, l.turn FROM chot.job_locks l
         WHERE l.job_id = ANY(ARRAY(SELECT id FROM runnable)) AND l.n = 1
           AND (l.waiting AND l.woken_at IS NULL) IS TRUE
         ORDER BY l.job_id FOR UPDATE OF l SKIP LOCKED),
    woken AS (
        UPDATE chot.job_locks l SET woken_at = clock_timestamp()
          FROM waking WHERE l.job_id = waking.job_id),
    woken_staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        SELECT j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority, j.available_at
          FROM waking JOIN chot.jobs j ON j.id = waking.job_id
         WHERE j.state = 'pending' AND {NO_MESSAGE_WAITS}
         ORDER BY waking.turn, j.id
        RETURNING job_id)"""


# Over `gone`: what ended has held its locks, or waited for them before others.
FREED_BY_EXIT = """
        SELECT DISTINCT l.root, l.part FROM gone JOIN chot.job_locks l ON l.job_id = gone.id"""
GONE = "ARRAY(SELECT id FROM gone)"
# Readers end all the time where somebody shares a root with them and waits at another one.
_WAS_IN_ITS_WAY = f"""EXISTS (
             SELECT FROM chot.job_locks g JOIN chot.job_locks m ON chot.locks_conflict(g, m)
              WHERE g.job_id = ANY({GONE}) AND m.job_id = head.id OFFSET 0)"""
WAKE_AT_EXIT = f"""{unregistered("gone")},
    {wake(FREED_BY_EXIT, GONE, was_in_its_way=_WAS_IN_ITS_WAY)}"""

# What no exit has freed: a pause, a freeze, a maximum of what one exit wakes. Holds no root, for it
# only adds messages; who is not claimed after all is registered again.
WAKE_WAITERS = text(f"""
    WITH RECURSIVE {
    wake(
        '''
        SELECT DISTINCT l.root, '' AS part FROM chot.job_locks l
         WHERE l.waiting AND l.woken_at IS NULL''',
        most_lanes="ALL",
    )
}
    SELECT count(*) FROM woken_staged""")


async def wake_waiters(conn: AsyncConnection) -> int:
    """Stage a message for each waiter that may run and has none; answers how many. In autocommit.

    Two workers that do it at once take each its own.

    Model: action wake_net.
    """
    woken = 0
    while count := int(await conn.scalar(WAKE_WAITERS) or 0):
        woken += count
        if count < MOST_WOKEN:
            break
    return woken

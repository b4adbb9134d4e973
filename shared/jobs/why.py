"""Why jobs are not running, or not done: everything that decides it, by one statement.

One statement has one snapshot, and this one a single look at the clock, so that what it says of
the job, its queue, its workers and its message is of one moment. The predicates are those that
claim, relay and reconciler go by; a count is bounded, and tells a caller with a scope nothing of
what lies outside.
"""

import re
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import IN_SCOPE, Scope
from shared.jobs.back import ACTIVE_TWIN
from shared.jobs.limits import LIMIT_REACHED, TAKEN_OF_KIND
from shared.jobs.locks import LOCK_HELD, LOCK_RESERVED
from shared.jobs.read import MOMENT, READ_ARCHIVED
from shared.jobs.states import (
    ATTEMPTS_LEFT_AFTER_LOSS,
    CHARGED,
    CLAIMABLE_PARTS,
    KNOWS_KIND,
    LIVE_WORKERS,
    LOST_LEASES,
    RUNS_ALONE_AFTER,
)
from shared.jobs.stops import covers_books
from shared.jobs.words import MOST_AHEAD
from shared.publishing import HELD, OFFERED, WINDOW_SIZE

_PARTS = ", ".join(f"({part}) AS {name}" for name, part in CLAIMABLE_PARTS.items())

# Of the workers that live and serve the job's queue; what they offer counts where it could run. For
# jobs of one queue, kind and version it is counted once.
_CREW = f"""
    SELECT count(*) AS live,
           count(*) FILTER (WHERE w.kinds ->> j.kind IS NOT NULL) AS know_kind,
           max((w.kinds ->> j.kind)::integer) AS newest_version,
           count(*) FILTER (WHERE {KNOWS_KIND}) AS know_version,
           count(*) FILTER (WHERE {KNOWS_KIND} AND w.state = 'working') AS working,
           count(*) FILTER (WHERE {KNOWS_KIND} AND w.state = 'alone') AS working_alone,
           coalesce(sum(wq.slots) FILTER (WHERE {KNOWS_KIND} AND w.state = 'working'), 0)
               ::integer AS slots,
           coalesce(sum(wq.free_slots) FILTER (WHERE {KNOWS_KIND} AND w.state = 'working'), 0)
               ::integer AS free_slots
      FROM {LIVE_WORKERS}"""
_CREWS = f"""
    SELECT j.queue AS of_queue, j.kind AS of_kind, j.payload_version AS of_version, crew.*
      FROM (SELECT DISTINCT queue, kind, payload_version FROM job) AS j
     CROSS JOIN LATERAL ({_CREW}) AS crew"""

# Who runs it, as its worker's own heartbeat told last. One that is silent for more than half of its
# lease has missed a beat and is about to miss the next.
_OWNER = """
    SELECT w.seen_at AS owner_seen_at,
           extract(epoch FROM clock_timestamp() - w.seen_at)::double precision AS owner_silent_for,
           clock_timestamp() > w.seen_at + (w.live_until - w.seen_at) / 2 AS owner_silent
      FROM chot.workers w WHERE w.worker_id = j.worker_id"""

# Of several freezes that stop it the widest is told, since it must go in any case.
_FROZEN = f"""
    SELECT cf.company AS frozen_company, cf.brand AS frozen_brand, cf.reason AS frozen_for,
           cf.frozen_at
      FROM chot.freezes cf WHERE {covers_books("j")}
     ORDER BY cf.brand NULLS FIRST LIMIT 1"""

# One that waits is worth more than one that was refused for good.
_MESSAGE = """
    SELECT o.id, o.next_send_at, o.next_send_at <= clock_timestamp() AS sendable, o.sends,
           o.last_error, o.quarantined_at IS NOT NULL AS refused,
           extract(epoch FROM o.next_send_at - clock_timestamp())::double precision AS sent_in
      FROM chot.outbox o WHERE o.job_id = j.id
     ORDER BY o.quarantined_at IS NOT NULL, o.next_send_at, o.id LIMIT 1"""
_AHEAD = f"""
    SELECT count(*) AS ahead FROM (
        SELECT FROM chot.outbox o
         WHERE o.queue = j.queue AND o.priority = j.priority AND o.kind = j.kind
           AND coalesce(o.company, '') = j.company
           AND coalesce(o.brand, '') = coalesce(j.brand, '') AND o.quarantined_at IS NULL
           AND (o.next_send_at, o.id) < (m.next_send_at, m.id)
         LIMIT {MOST_AHEAD}) AS a"""
_HIGHER = f"""
    SELECT CASE WHEN CAST(:scope_company AS text) IS NULL THEN count(*) END AS higher FROM (
        SELECT FROM chot.outbox o
         WHERE CAST(:scope_company AS text) IS NULL
           AND o.queue = j.queue AND o.priority > j.priority AND o.quarantined_at IS NULL
           AND o.next_send_at <= clock_timestamp()
         LIMIT {MOST_AHEAD}) AS a"""

_COUNTED_AHEAD = f"""
     CROSS JOIN LATERAL ({_AHEAD}) AS ahead
     CROSS JOIN LATERAL ({_HIGHER}) AS higher"""
_NOT_COUNTED = """
     CROSS JOIN (SELECT NULL::bigint AS ahead) AS ahead
     CROSS JOIN (SELECT NULL::bigint AS higher) AS higher"""


def _explained(which: str, ahead: str) -> TextClause:
    """The statement for the jobs of which `which` holds over `j`.

    Each predicate asks the clock anew, and two that do may disagree by a microsecond. Here they are
    asked at one moment, so that no fact of an answer can contradict another.
    """
    explained = f"""
    job AS MATERIALIZED (
        SELECT j.* FROM chot.jobs j WHERE {which} AND {IN_SCOPE}),
    crews AS MATERIALIZED ({_CREWS}),
    open_queues AS MATERIALIZED (
        SELECT q.name, q.turns, offered.emptied_at, {WINDOW_SIZE} AS size
          FROM chot.queues q
         CROSS JOIN LATERAL ({OFFERED}) AS offered
         WHERE q.name IN (SELECT queue FROM job WHERE state = 'pending')),
    held AS MATERIALIZED ({HELD}),
    windows AS MATERIALIZED (
        SELECT q.name, q.size AS window_size,
               (SELECT count(*) FROM held WHERE held.queue = q.name AND counts) AS window_used
          FROM open_queues q)
    SELECT j.*, {MOMENT}, {_PARTS}, {CHARGED} AS charged,
           {ATTEMPTS_LEFT_AFTER_LOSS} AS attempts_left,
           {LOST_LEASES} >= {RUNS_ALONE_AFTER} AS runs_alone,
           extract(epoch FROM j.lease_expires_at - clock_timestamp())::double precision
               AS lease_left,
           extract(epoch FROM clock_timestamp() - j.published_at)::double precision
               AS published_for,
           extract(epoch FROM clock_timestamp() - a.started_at)::double precision AS going_for,
           a.started_at AS attempt_started_at, a.outcome AS last_outcome,
           a.outcome = 'released' AND a.error ->> 'type' = 'Snoozed' AS snoozed,
           a.error ->> 'message' AS last_words,
           CASE WHEN j.state IN ('pending', 'dead') THEN coalesce(u.error, a.error) END AS error,
           crew.*, k.max_running,
           CASE WHEN k.max_running IS NOT NULL THEN {TAKEN_OF_KIND} END AS places_taken,
           CASE WHEN q.alone_until > clock_timestamp() THEN q.alone_worker END AS alone_worker,
           m.id IS NOT NULL AS staged, m.sendable, m.sends, m.last_error, m.refused, m.sent_in,
           gr.state AS group_state, gr.outcome AS group_outcome, gr.total AS group_total,
           gr.remaining AS group_remaining,
           ahead.ahead, higher.higher, owner.*, frozen.*, reached.*, held_by.*, reserved_by.*,
           windows.window_size, coalesce(windows.window_used, 0) AS window_used,
           CASE WHEN j.state = 'dead' THEN {ACTIVE_TWIN} END AS twin,
           p.payload
      FROM job j
      JOIN crews AS crew ON crew.of_queue = j.queue AND crew.of_kind = j.kind
                        AND crew.of_version = j.payload_version
      LEFT JOIN chot.job_outputs u ON u.job_id = j.id
      LEFT JOIN chot.job_payloads p ON p.job_id = j.id AND j.state = 'dead'
      LEFT JOIN chot.kinds k ON k.name = j.kind
      LEFT JOIN chot.queues q ON q.name = j.queue
      LEFT JOIN windows ON windows.name = j.queue AND j.state = 'pending'
      LEFT JOIN chot.groups gr ON gr.id = j.joins
      LEFT JOIN LATERAL (
          SELECT x.started_at, x.outcome, x.error FROM chot.attempts x
           WHERE x.job_id = j.id ORDER BY x.fence DESC LIMIT 1) AS a ON true
      LEFT JOIN LATERAL ({_OWNER}) AS owner ON j.state = 'running'
      LEFT JOIN LATERAL ({_FROZEN}) AS frozen ON j.state = 'pending'
      LEFT JOIN LATERAL ({LIMIT_REACHED}) AS reached ON j.state = 'pending'
      LEFT JOIN LATERAL ({LOCK_HELD}) AS held_by
        ON j.state = 'pending' AND j.lock_roots IS NOT NULL
      LEFT JOIN LATERAL ({LOCK_RESERVED}) AS reserved_by
        ON j.state = 'pending' AND j.lock_roots IS NOT NULL
      LEFT JOIN LATERAL ({_MESSAGE}) AS m ON j.state = 'pending'
     {ahead}"""
    stopped = re.sub(r"\b(clock|statement)_timestamp\(\)", "(SELECT at FROM moment)", explained)
    return text(f"WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at), {stopped}")


OF_IDS = "j.id = ANY(CAST(:ids AS uuid[]))"
EXPLAIN_JOB = _explained("j.id = :job_id", _COUNTED_AHEAD)
# The same of many jobs at once; and without what lies ahead of each, which decides nothing.
EXPLAIN_JOBS = _explained(OF_IDS, _COUNTED_AHEAD)
EXPLAIN_REASONS = _explained(OF_IDS, _NOT_COUNTED)


async def explain_job(conn: AsyncConnection, job_id: UUID, scope: Scope) -> RowMapping | None:
    """What decides when this job goes on, at one moment; None when there is none in this scope.

    An archived job comes as show_job() reads it: it has ended for good.
    """
    binds = {"job_id": job_id, **scope.binds()}
    found = (await conn.execute(EXPLAIN_JOB, binds)).mappings().one_or_none()
    return found or (await conn.execute(READ_ARCHIVED, binds)).mappings().one_or_none()


async def explain_jobs(
    conn: AsyncConnection, ids: Sequence[UUID], scope: Scope, *, ahead: bool = True
) -> dict[UUID, RowMapping]:
    """explain_job() of many jobs by one statement; archived ones are left out.

    Without `ahead` it is not counted how many stand before each: the reason is the same.
    """
    if not ids:
        return {}
    statement = EXPLAIN_JOBS if ahead else EXPLAIN_REASONS
    rows = await conn.execute(statement, {"ids": list(ids), **scope.binds()})
    return {row["id"]: row for row in rows.mappings()}

"""What /why says of a job, against what the rows say right before and right after."""

from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

# In words of its own, not those of the statement that /why asks; of many who stand in the way the
# first few will do.
_CONFLICT = """(m.part = '' OR h.part = '' OR m.part = h.part)
       AND NOT (m.mode = 'shared' AND h.mode = 'shared')
       AND m.period_from <= h.period_to || '~' AND h.period_from <= m.period_to || '~'"""
HOLDERS = f"""
    WITH running AS MATERIALIZED (SELECT id FROM chot.jobs WHERE state = 'running')
    SELECT DISTINCT h.job_id::text AS id
      FROM running r JOIN chot.job_locks h ON h.job_id = r.id
      JOIN chot.job_locks m ON m.job_id = $1 AND m.root = h.root AND m.job_id <> h.job_id
     WHERE {_CONFLICT}"""
WAITERS = f"""
    WITH mine AS MATERIALIZED (
        SELECT l.*, j.priority FROM chot.job_locks l JOIN chot.jobs j ON j.id = l.job_id
         WHERE l.job_id = $1),
    before AS MATERIALIZED (
        SELECT DISTINCT j.priority, j.id
          FROM mine m JOIN chot.job_locks h ON h.root = m.root AND h.waiting
          JOIN chot.jobs j ON j.id = h.job_id
         WHERE {_CONFLICT} AND j.state = 'pending' AND j.available_at <= now()
           AND (j.priority > m.priority OR (j.priority = m.priority AND j.id < $1)))
    SELECT id::text FROM before ORDER BY priority DESC, id LIMIT 3"""
JOB = """
    SELECT j.state, j.fence, j.available_at <= now() AS due, j.lost_leases >= 2 AS alone,
           EXISTS (SELECT FROM chot.outbox o WHERE o.job_id = j.id) AS staged,
           coalesce((SELECT g.state = 'cancelling' FROM chot.groups g WHERE g.id = j.group_id),
                    false) AS stops,
           j.joins IS NOT NULL AND NOT EXISTS (
               SELECT FROM chot.groups g
                WHERE g.id = j.joins AND g.state = 'ended' AND g.outcome = 'succeeded') AS joins,
           (SELECT count(*) >= k.max_running FROM chot.jobs r
             WHERE r.kind = j.kind AND r.state = 'running') AS kind_full,
           EXISTS (
               SELECT FROM chot.running_limits l
                WHERE coalesce(l.kind, j.kind) = j.kind
                  AND coalesce(l.company, j.company) = j.company
                  AND (l.brand IS NULL OR l.brand = j.brand)
                  AND l.max_running <= (
                      SELECT count(*) FROM chot.jobs r
                       WHERE r.state = 'running' AND coalesce(l.kind, r.kind) = r.kind
                         AND coalesce(l.company, r.company) = r.company
                         AND (l.brand IS NULL OR l.brand = r.brand))) AS limited
      FROM chot.jobs j LEFT JOIN chot.kinds k ON k.name = j.kind WHERE j.id = $1"""
# Of the workers' own state nothing is read here: whether they are alone, or stopping.
OF_WORKERS = frozenset(
    {"no-worker", "kind-unknown", "version-unknown", "workers-stopping", "workers-alone"}
)
WAITS_FOR_ITS_TIME = frozenset({"backoff", "handed-back", "scheduled", "snoozed"})
WAITS_IN_OUTBOX = frozenset({"window-full", "publishing", "publishing-failed", "message-refused"})
IN_SQS = frozenset({"slots-busy", "delivery"})


@dataclass(slots=True)
class Agreement:
    """How often /why was asked, what it said where nothing moved meanwhile, and where it erred."""

    asked: int = 0
    compared: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


async def truth_of(connection: asyncpg.Connection, job_id: str) -> dict[str, Any] | None:
    """What decides about the job, of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(JOB, job_id)
        if row is None:
            return None
        found = dict(row)
        if found["state"] == "pending":
            for name, query in (("holders", HOLDERS), ("waiters", WAITERS)):
                found[name] = frozenset(r["id"] for r in await connection.fetch(query, job_id))
    return found


async def compare(
    connection: asyncpg.Connection, http: httpx.AsyncClient, job_id: str, told: Agreement
) -> None:
    """Ask once; what had changed by the second look says nothing."""
    before = await truth_of(connection, job_id)
    answer = await http.get(f"/v1/jobs/{job_id}/why")
    after = await truth_of(connection, job_id)
    told.asked += 1
    if before is None or before != after or answer.status_code != httpx.codes.OK:
        return
    reason = answer.json()["reason"]
    if reason in OF_WORKERS:
        return
    told.compared[reason] = told.compared.get(reason, 0) + 1
    expected = expected_reasons(before)
    if reason not in expected:
        said = answer.json().get("sentence", "")
        told.wrong.append(f"{job_id} is told {reason} ({said}); true is {sorted(expected)}")


def expected_reasons(truth: dict[str, Any]) -> frozenset[str]:
    """What may be said of a job of which this is true, the first that holds."""
    state = truth["state"]
    if state == "running":
        return frozenset({"running", "lease-expired", "worker-silent"})
    if state != "pending":
        return frozenset({state})
    for holds, reasons in (
        (not truth["due"], WAITS_FOR_ITS_TIME),
        (truth["stops"], frozenset({"group-cancelling"})),
        (truth["joins"], frozenset({"group-open"})),
        (truth["holders"], frozenset({"lock-held"})),
        (truth["waiters"], frozenset({"lock-reserved"})),
        (truth["alone"], frozenset({"runs-alone"})),
        (truth["kind_full"], frozenset({"kind-maximum"})),
        (truth["limited"], frozenset({"limit-reached"})),
        (truth["staged"], WAITS_IN_OUTBOX),
    ):
        if holds:
            return reasons
    return IN_SQS

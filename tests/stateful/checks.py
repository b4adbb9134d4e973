"""Invariants: what holds after every step, whatever the steps were.

The first half asks the database alone and knows no model; the second compares row by row.
"""

from collections.abc import Sequence
from typing import Any

from tests.stateful.model import ACTIVE, Job, Model
from tests.stateful.world import World

READ_JOBS = """
    SELECT j.*, (p.payload ->> 'number')::integer AS number,
           ARRAY(SELECT jsonb_array_elements_text(p.payload -> 'items')) AS items,
           ARRAY(SELECT jsonb_array_elements_text(j.followup_payload -> 'items')) AS followup_items,
           j.available_at <= clock_timestamp() AS due,
           j.lease_expires_at <= clock_timestamp() AS expired,
           (SELECT coalesce(array_agg(o.next_send_at <= clock_timestamp() ORDER BY o.id), '{}')
              FROM chot.outbox o WHERE o.job_id = j.id) AS messages
      FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id ORDER BY j.id"""
READ_ATTEMPTS = "SELECT * FROM chot.attempts ORDER BY job_id, fence"
READ_EFFECTS = "SELECT job_id, chunk, fence FROM probe.effects ORDER BY n"
FINAL = ("succeeded", "cancelled")
GROWING = ("fence", "attempt", "lost_leases", "interruptions", "checkpoint_no", "max_attempts")


class Checks:
    """Looks at the database after each step and remembers what it saw before."""

    def __init__(self, world: World, model: Model) -> None:
        self._world = world
        self._model = model
        self._before: dict[Any, Any] = {}

    async def look(self) -> None:
        """Read everything and hold it against the rules and the model."""
        jobs = await self._world.rows(READ_JOBS)
        attempts = await self._world.rows(READ_ATTEMPTS)
        effects = await self._world.rows(READ_EFFECTS)
        self._safe(jobs, attempts, effects)
        self._history(jobs)
        self._adopt(jobs)
        for row in jobs:
            job = self._model.by_id(row.id)
            _same_job(row, job)
            _same_runs([each for each in attempts if each.job_id == row.id], job)
            found = [(each.chunk, each.fence) for each in effects if each.job_id == row.id]
            assert found == job.effects, f"{job.name}: effects {found}, not {job.effects}"
        assert len(jobs) == len(self._model.jobs), "no job vanishes"

    def _safe(self, jobs: Sequence[Any], attempts: Sequence[Any], effects: Sequence[Any]) -> None:
        chunks = [(each.job_id, each.chunk) for each in effects]
        assert len(chunks) == len(set(chunks)), "each (job, chunk) has its effect at most once"
        newest: dict[Any, int] = {}
        for each in effects:
            assert each.fence >= newest.get(each.job_id, 0), "no effect under an older fence"
            newest[each.job_id] = each.fence
        active = [row.fingerprint for row in jobs if row.state in ACTIVE]
        assert len(active) == len(set(active)), "one active job of the same work"
        for row in jobs:
            if row.state == "pending":
                assert row.messages or row.publishes, "a pending job is announced, or was"
            running = [e for e in attempts if e.job_id == row.id and e.outcome is None]
            assert len(running) == (row.state == "running"), "an attempt is open while it runs"
            assert row.attempt == row.fence, "each claim is an attempt"
            assert row.lost_leases <= 2 * row.max_attempts, "the budget of lost leases holds"

    def _history(self, jobs: Sequence[Any]) -> None:
        for row in jobs:
            before = self._before.get(row.id)
            if before is not None:
                assert before.state not in FINAL or row.state == before.state, "final is final"
                for name in GROWING:
                    assert getattr(row, name) >= getattr(before, name), f"{name} only grows"
        self._before = {row.id: row for row in jobs}

    def _adopt(self, jobs: Sequence[Any]) -> None:
        """Jobs that nobody submitted are exactly the follow-ups that must have come to be."""
        known = {job.id for job in self._model.jobs}
        found = [row for row in jobs if row.id not in known]
        for row in found:
            parents = [
                each
                for each in self._model.born
                if (each.kind, each.number) == (row.kind, row.number)
            ]
            assert parents, "a follow-up is born once, and only where one was asked for"
            born = parents[0]
            self._model.born.remove(born)
            self._model.jobs.append(
                Job(
                    id=row.id,
                    name=f"job {len(self._model.jobs) + 1}",
                    kind=born.kind,
                    number=born.number,
                    max_attempts=born.max_attempts,
                    items=born.items,
                    messages=[True],
                )
            )
            self._world.seen[f"follow-up born of {born.of}"] += 1
        assert not self._model.born, "a follow-up that was asked for is not lost"


def _same_job(row: Any, job: Job) -> None:
    found = {
        "state": row.state,
        "fence": row.fence,
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "lost_leases": row.lost_leases,
        "interruptions": row.interruptions,
        "checkpoint_no": row.checkpoint_no,
        "token": row.lease_token,
        "worker": row.worker_id,
        "expired": bool(row.expired),
        "cleanup_due": row.cleanup_due,
        "messages": sorted(row.messages),
        "published": row.publishes > 0,
        "items": sorted(row.items),
        "followup": None if row.followup_version is None else sorted(row.followup_items),
    } | ({"due": row.due} if row.state == "pending" else {})
    wanted = {name: getattr(job, name, None) for name in found} | {
        "messages": sorted(job.messages),
        "published": job.publishes > 0,
        "items": sorted(job.items),
        "followup": None if job.followup is None else sorted(job.followup),
    }
    wrong = {name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]}
    assert not wrong, f"{job.name} (found, must be): {wrong}"


def _same_runs(rows: Sequence[Any], job: Job) -> None:
    found = [
        (
            each.fence,
            each.attempt,
            each.lease_token,
            each.worker_id,
            each.claimed_checkpoint_no,
            each.checkpoint_no,
            each.outcome,
        )
        for each in rows
    ]
    wanted = [
        (
            run.fence,
            run.attempt,
            run.token,
            run.worker,
            run.claimed_checkpoint_no,
            run.checkpoint_no,
            run.outcome,
        )
        for run in job.runs
    ]
    assert found == wanted, f"{job.name}: attempts {found}, not {wanted}"
    for each in rows:
        assert (each.outcome is None) == (each.ended_at is None), "closed with its outcome"

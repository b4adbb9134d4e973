"""The timeline of one job: client calls, transitions, effects, faults and logs, merged by time."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.faults.evidence import Evidence, Ordered, Transition

Line = tuple[float, str, str]
NEAR_SECONDS = 2.0
HIDDEN = frozenset({"event", "timestamp", "level", "job_id"})


def print_timeline(home: Path, evidence: Evidence, job_id: str) -> str:
    """The job's story as text, one line an event, seconds since the run began."""
    seen = Ordered(evidence)
    job = seen.jobs.get(job_id)
    lines = [*_calls(seen, job_id), *_transitions(seen, job_id), *_effects(seen, job_id)]
    lines += _logs(home, evidence, job_id)
    if lines:
        first, last = min(lines)[0] - NEAR_SECONDS, max(lines)[0] + NEAR_SECONDS
        lines += _faults(seen, first, last)
    what = "no row" if job is None else f"{job.kind} {json.dumps(job.payload)}, {job.state}"
    began = evidence.facts.began
    shown = (f"{at - began:9.3f}  {who:<11}{text}" for at, who, text in sorted(lines))
    return "\n".join([f"job {job_id}: {what}", *shown])


def _calls(seen: Ordered, job_id: str) -> Iterator[Line]:
    job = seen.jobs.get(job_id)
    for call in seen.evidence.calls:
        same_work = job is not None and call.op in ("submit", "enqueue") and call.work == job.work
        if call.job_id == job_id or (same_work and call.outcome == "info"):
            sent = {k: v for k, v in call.args.items() if k != "payload"}
            who = f"client {call.process}"
            yield call.began, who, f"call {call.id}: {call.op} {json.dumps(sent)}"
            short = {k: v for k, v in call.answer.items() if k != "body"}
            yield call.ended, who, f"call {call.id}: {call.outcome} {json.dumps(short)}"


def _transitions(seen: Ordered, job_id: str) -> Iterator[Line]:
    before: Transition | None = None
    for each in seen.transitions.get(job_id, []):
        changed = [
            f"{name} {getattr(each, name)}"
            for name in ("fence", "attempt", "lost_leases", "interruptions", "checkpoint_no")
            if before is None or getattr(each, name) != getattr(before, name)
        ]
        what = each.state if each.old_state in (None, each.state) else f"→ {each.state}"
        if each.lease_expires_at is not None:
            changed.append(f"lease to {each.lease_expires_at - seen.facts.began:.3f}")
        yield each.at, "database", f"{what}: {', '.join(changed)} (n {each.n}, by {each.by_name})"
        before = each


def _effects(seen: Ordered, job_id: str) -> Iterator[Line]:
    for each in seen.effects.get(job_id, []):
        item = "" if each.item is None else f" {each.item}"
        yield (
            each.at,
            "effect",
            f"chunk {each.chunk}{item} under fence {each.fence}, pid {each.pid}",
        )


def _faults(seen: Ordered, first: float, last: float) -> Iterator[Line]:
    for window in seen.evidence.windows:
        if window.ended >= first and window.began <= last:
            detail = json.dumps(window.detail) if window.detail else ""
            yield window.began, "fault", f"{window.fault} on {window.target} {detail}"
            yield window.ended, "fault", f"{window.fault} on {window.target} healed"


def _logs(home: Path, evidence: Evidence, job_id: str) -> Iterator[Line]:
    """Log lines that name the job; those of a process whose clock was moved are marked."""
    for log in sorted((home / "logs").glob("*.log")):
        for line in log.read_text(errors="replace").splitlines():
            found = _parsed(line) if job_id in line else None
            if found is None:
                continue
            at = datetime.fromisoformat(found["timestamp"]).timestamp()
            said = {k: v for k, v in found.items() if k not in HIDDEN}
            inside = evidence.facts.began - 60 <= at <= evidence.facts.ended + 60
            mark = "" if inside else " (its clock is elsewhere)"
            at = at if inside else evidence.facts.ended
            yield at, log.stem, f"{found['event']} {json.dumps(said)}{mark}"


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "timestamp" in found and "event" in found else None

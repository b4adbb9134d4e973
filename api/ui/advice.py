"""What one can do about a job that waits: for each reason the places to look and the commands.

The words are those of `why.do.REASON`; a link leads to what is in the way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from api.ui.findings import kind_place, queue_place
from shared.jobs.reasons import Reason

View = Mapping[str, Any]
WORKERS = "/ui/#workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A link: the key of its words and their values, and where it leads."""

    key: str
    href: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do, by the key of its words; where to look; what to type."""

    key: str
    places: tuple[Place, ...] = ()
    command: str | None = None


def advice_of(why: View, job: View) -> Advice:
    """Of what WhyView and JobView describe."""
    reason = Reason(why["reason"])
    places = PLACES.get(reason, _nowhere)(why, job)
    command = COMMANDS[reason](why, job) if reason in COMMANDS else None
    return Advice(key=f"why.do.{reason}", places=places, command=command)


def jobs(**filters: str | None) -> str:
    """The address of a list of jobs."""
    given = {name: value for name, value in filters.items() if value}
    return f"/ui/jobs?{urlencode(given)}"


def _nowhere(_why: View, _job: View) -> tuple[Place, ...]:
    return ()


def _workers(_why: View, _job: View) -> tuple[Place, ...]:
    return (Place(key="why.to.workers", href=WORKERS),)


def _queue(why: View, _job: View) -> tuple[Place, ...]:
    queue = why["queue"]
    return (Place(key="why.to.queue", href=queue_place(queue), name=queue),)


def _blocker(why: View, _job: View) -> tuple[Place, ...]:
    """The job that has the lock, or goes first; of somebody else's there is nothing to see."""
    job_id = why["lock"]["job_id"]
    if job_id is None:
        return ()
    return (Place(key="why.to.blocker", href=f"/ui/jobs/{job_id}", name=why["lock"]["kind"]),)


def _running(why: View, _job: View) -> tuple[Place, ...]:
    """What has the places of a limit, or of a kind's maximum."""
    limit = why["limit"] or {"kind": why["kind"], "company": None, "brand": None}
    href = jobs(state="running", kind=limit["kind"], company=limit["company"], brand=limit["brand"])
    return (Place(key="why.to.running", href=href),)


def _line(why: View, job: View) -> tuple[Place, ...]:
    """Those that stand in line before it, and what is out."""
    ahead = jobs(state="pending", kind=why["kind"], company=job["company"], brand=job["brand"])
    return (
        Place(key="why.to.line", href=ahead),
        Place(key="why.to.running", href=jobs(state="running")),
        *_workers(why, job),
    )


def _frozen(_why: View, job: View) -> tuple[Place, ...]:
    href = jobs(state="pending", company=job["company"])
    return (Place(key="why.to.frozen", href=href, name=job["company"]),)


def _group(_why: View, job: View) -> tuple[Place, ...]:
    group = job["joins"] or job["group"]
    return (Place(key="why.to.members", href=jobs(group=group, state="pending,running")),)


def _attempts(_why: View, job: View) -> tuple[Place, ...]:
    if not job["attempts"]:
        return ()
    last = job["attempts"][-1]
    href = f"#attempt-{last['fence']}"
    return (Place(key="why.to.attempt", href=href, name=str(last["attempt"])),)


def _dead(why: View, job: View) -> tuple[Place, ...]:
    met = why["redrive"] or {}
    found = _attempts(why, job)
    if met.get("twin"):
        found += (Place(key="why.to.twin", href=f"/ui/jobs/{met['twin']}"),)
    if met.get("refused") == "cleanup-pending":
        found += _workers(why, job)
    if met.get("refused") == "payload-outdated":
        found += (Place(key="why.to.payload", href="#payload"),)
    return found


def _kind(why: View, _job: View) -> tuple[Place, ...]:
    """The page with the button that resumes it, and those that wait for that."""
    kind = why["kind"]
    return (
        Place(key="why.to.paused_kind", href=kind_place(kind), name=kind),
        Place(key="why.to.kind", href=jobs(kind=kind, state="pending"), name=kind),
    )


def _migration(_why: View, job: View) -> tuple[Place, ...]:
    return (*_attempts(_why, job), Place(key="why.to.audit", href="#acts"))


PLACES: Mapping[Reason, Callable[[View, View], tuple[Place, ...]]] = {
    Reason.BACKOFF: _attempts,
    Reason.SNOOZED: _attempts,
    Reason.HANDED_BACK: _attempts,
    Reason.QUEUE_PAUSED: _queue,
    Reason.KIND_PAUSED: _kind,
    Reason.BOOKS_FROZEN: _frozen,
    Reason.JOB_PAUSED: _migration,
    Reason.GROUP_CANCELLING: _group,
    Reason.GROUP_OPEN: _group,
    Reason.OUT_OF_ATTEMPTS: _attempts,
    Reason.NO_WORKER: _workers,
    Reason.KIND_UNKNOWN: _workers,
    Reason.VERSION_UNKNOWN: _workers,
    Reason.WORKERS_STOPPING: _workers,
    Reason.LOCK_HELD: _blocker,
    Reason.LOCK_RESERVED: _blocker,
    Reason.RUNS_ALONE: _workers,
    Reason.WORKERS_ALONE: _workers,
    Reason.KIND_MAXIMUM: _running,
    Reason.LIMIT_REACHED: _running,
    Reason.MESSAGE_REFUSED: _queue,
    Reason.WINDOW_FULL: _line,
    Reason.PUBLISHING_FAILED: _queue,
    Reason.PUBLISHING: _queue,
    Reason.SLOTS_BUSY: _workers,
    Reason.DELIVERY: _workers,
    Reason.LEASE_EXPIRED: _workers,
    Reason.WORKER_SILENT: _workers,
    Reason.RUNNING: _workers,
    Reason.DEAD: _dead,
}
COMMANDS: Mapping[Reason, Callable[[View, View], str]] = {
    Reason.QUEUE_PAUSED: lambda why, _: f"chot resume {why['queue']}",
    Reason.KIND_PAUSED: lambda why, _: f"chot resume --kind {why['kind']}",
    Reason.BOOKS_FROZEN: lambda why, _: _thaw(why["freeze"]),
    Reason.JOB_PAUSED: lambda why, _: f"chot migrations resume {why['id']}",
    Reason.LIMIT_REACHED: lambda why, _: _raise(why["limit"]),
}


def _raise(limit: View) -> str:
    named = (f" --{name} {limit[name]}" for name in ("kind", "company", "brand") if limit[name])
    return f"chot limits set N{''.join(named)}"


def _thaw(freeze: View) -> str:
    brand = "" if freeze["brand"] is None else f" --brand {freeze['brand']}"
    return f"chot thaw {freeze['company']}{brand}"

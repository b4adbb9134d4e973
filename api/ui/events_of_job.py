"""What happened to a job, in the order of time: the table beside the drawing, and what it draws.

Everything is of what the database keeps: of messages the last one, of a lease where it ends now,
of heartbeats the last. Earlier ones leave no trace, and none is made up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from shared.jobs.pace import Row
from shared.types import JobState

Tone = Literal["plain", "good", "bad", "warn", "info"]
TONE_OF_OUTCOME: Mapping[str | None, Tone] = {
    None: "info",
    "succeeded": "good",
    "failed": "bad",
    "lost_lease": "bad",
    "released": "warn",
    "cancelled": "warn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One event: when, the key of its words with their values, and how it is coloured."""

    at: datetime
    key: str
    values: Mapping[str, object] = field(default_factory=dict)
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt as it is drawn; `until` is when it ended, or None while it runs.

    `taken_by` is the fence of the attempt that came after a lease that was lost.
    """

    attempt: int
    fence: int
    worker: str
    began: datetime
    until: datetime | None
    outcome: str | None
    tone: Tone
    taken_by: int | None


def runs_of(job: Mapping[str, Any]) -> list[Run]:
    """The attempts of a job_view(), oldest first."""
    attempts = job["attempts"]
    following = [*attempts[1:], None]
    return [
        Run(
            attempt=each["attempt"],
            fence=each["fence"],
            worker=each["worker_id"],
            began=datetime.fromisoformat(each["started_at"]),
            until=_until(each, after),
            outcome=each["outcome"],
            tone=TONE_OF_OUTCOME.get(each["outcome"], "plain"),
            taken_by=None if each["outcome"] != "lost_lease" or after is None else after["fence"],
        )
        for each, after in zip(attempts, following, strict=False)
    ]


def _until(attempt: Mapping[str, Any], after: Mapping[str, Any] | None) -> datetime | None:
    """When it ended: of one that was taken over, when the next began at the latest."""
    if attempt["ended_at"] is None:
        return None
    ended = datetime.fromisoformat(attempt["ended_at"])
    return ended if after is None else min(ended, datetime.fromisoformat(after["started_at"]))


def events_of(
    row: Row, runs: Sequence[Run], why: Row, acts: Sequence[Mapping[str, Any]]
) -> list[Happened]:
    """Of a row of show_job(), its runs, a row of explain_job() and the job's rows of the audit."""
    found = [*_life(row, acts), *_attempts(runs), *_messages(row, why)]
    if row["state"] == JobState.RUNNING:
        found += _lease(row, why)
    # What happened in one statement has one instant: as it was written, then.
    return sorted(found, key=lambda each: each.at)


def _life(row: Row, acts: Sequence[Mapping[str, Any]]) -> list[Happened]:
    created = row["created_at"]
    found = [
        Happened(at=created, key="job.event.submitted", values={"by": row["principal"]}),
        *filter(None, map(_act, acts)),
    ]
    told = {each.key for each in found}
    if row["redriven_at"] is not None and "job.event.redriven" not in told:
        by = {"by": row["redriven_by"]}
        found.append(
            Happened(at=row["redriven_at"], key="job.event.redriven", values=by, tone="info")
        )
    if row["paused_at"] is not None:
        found.append(Happened(at=row["paused_at"], key="job.event.paused", tone="warn"))
    if row["state"] == JobState.PENDING and row["due_in"] > 0:
        found.append(Happened(at=row["available_at"], key="job.event.due", tone="info"))
    ended = row["finished_at"]
    state = row["state"]
    if ended is not None and not (state == JobState.CANCELLED and "job.event.cancelled" in told):
        tone: Tone = "good" if state == JobState.SUCCEEDED else "bad"
        found.append(Happened(at=ended, key=f"job.event.ended.{state}", tone=tone))
    return found


def _act(act: Mapping[str, Any]) -> Happened | None:
    """What somebody did, of a row of the audit; a submit that made the job stands there already."""
    by = {"by": act["principal"]}
    match act["action"]:
        case "job.cancel":
            return Happened(at=act["at"], key="job.event.cancelled", values=by, tone="warn")
        case "job.redrive":
            return Happened(at=act["at"], key="job.event.redriven", values=by, tone="info")
        case "job.submit" if not act["facts"].get("created"):
            return Happened(at=act["at"], key="job.event.joined", values=by, tone="info")
    return None


def _messages(row: Row, why: Row) -> list[Happened]:
    found = []
    if row["published_at"] is not None:
        times = {"n": row["publishes"]}
        found.append(
            Happened(at=row["published_at"], key="job.event.published", values=times, tone="info")
        )
    if why.get("staged") and why.get("sends"):
        values = {"n": why["sends"], "error": why["last_error"] or "–"}
        found.append(
            Happened(at=why["read_at"], key="job.event.sending", values=values, tone="warn")
        )
    return found


def _attempts(runs: Sequence[Run]) -> list[Happened]:
    found = []
    for run in runs:
        who = {"n": run.attempt, "fence": run.fence, "worker": run.worker}
        found.append(Happened(at=run.began, key="job.event.claimed", values=who, tone="info"))
        if run.until is None:
            continue
        if run.taken_by is None:
            key = f"job.event.attempt.{run.outcome}"
            found.append(Happened(at=run.until, key=key, values=who, tone=run.tone))
        else:
            values = who | {"next": run.taken_by}
            found.append(
                Happened(at=run.until, key="job.event.takeover", values=values, tone="bad")
            )
    return found


def _lease(row: Row, why: Row) -> list[Happened]:
    found = []
    if row["progress_at"] is not None and row["progress_fence"] == row["fence"]:
        found.append(Happened(at=row["progress_at"], key="job.event.moved"))
    if why.get("owner_seen_at") is not None:
        found.append(Happened(at=why["owner_seen_at"], key="job.event.heartbeat"))
    if row["lease_expires_at"] is not None:
        over = row["lease_expires_at"] <= row["read_at"]
        key = "job.event.lease_over" if over else "job.event.lease_until"
        tone: Tone = "bad" if over else "plain"
        found.append(
            Happened(at=row["lease_expires_at"], key=key, values={"fence": row["fence"]}, tone=tone)
        )
    return found

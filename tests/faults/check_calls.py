"""Checks of what clients were told against what there is."""

from collections import Counter, defaultdict

from tests.faults.check_groups import GROUP_KINDS, PARENT
from tests.faults.evidence import TERMINAL, Call, Job, Ordered
from tests.faults.kinds import POISON
from tests.faults.violations import Found

INTERNAL_ERROR = 500


def acknowledged_jobs_end(seen: Ordered) -> Found:
    """Every job that a client was given exists and has ended."""
    for call in seen.submits:
        if call.outcome != "ok":
            continue
        job = seen.jobs.get(str(call.job_id))
        if job is None:
            yield call.job_id, f"call {call.id} was answered with a job that does not exist"
        elif job.state not in TERMINAL:
            yield job.id, f"was accepted by call {call.id} and is {job.state} after the drain"


def is_poison(job: Job) -> bool:
    """Whether the job was made to die."""
    return job.kind == "fault.harm" and job.payload.get("how") in POISON


def healthy_jobs_succeed(seen: Ordered) -> Found:
    """Not poison: succeeded, or cancelled by somebody. Poison: dead, or cancelled.

    Of groups: members_end_as_they_were_told.
    """
    asked = {call.job_id for call in seen.calls("cancel", "ok", "info")}
    for job in seen.evidence.jobs:
        if job.kind in GROUP_KINDS and job.kind != PARENT:
            continue
        if job.state == "cancelled":
            if job.id not in asked:
                yield job.id, "is cancelled, and nobody asked for that"
        elif is_poison(job):
            if job.state == "succeeded":
                yield job.id, "is poison and succeeded"
        elif job.state == "dead":
            yield job.id, f"is dead, though nothing is wrong with it ({job.kind})"


def cancelled_stay_cancelled(seen: Ordered) -> Found:
    """A cancel that was acknowledged is final, and no effect is committed after it.

    By the trail, not by when the effect was written: a commit may come long after that.
    """
    for call in seen.calls("cancel", "ok"):
        job = seen.jobs.get(str(call.job_id))
        if job is not None and job.state != "cancelled":
            yield job.id, f"call {call.id} cancelled it, and it is {job.state}"
        trail = seen.transitions.get(str(call.job_id), [])
        ended = next((each.n for each in trail if each.state == "cancelled"), None)
        for effect in seen.effects.get(str(call.job_id), []):
            fenced = seen.commit_of(effect)
            late = fenced is None or (ended is not None and fenced.n > ended)
            if late or effect.at > call.ended:
                yield call.job_id, f"chunk {effect.chunk} was committed after the cancel"


def no_job_from_nowhere(seen: Ordered) -> Found:
    """Every job was given to a client, may come from an unknown call, or follows another.

    Of groups: members_come_from_calls.
    """
    given = {call.job_id for call in seen.submits if call.outcome == "ok"}
    unknown: Counter[tuple[str, int | None]] = Counter()
    for call in seen.submits:
        follows = call.outcome == "ok" and call.answer.get("duplicate") == "follow_up"
        if follows or call.outcome == "info":
            unknown[call.work] += 1
    for job in seen.evidence.jobs:
        if job.id in given or (job.kind in GROUP_KINDS and job.kind != PARENT):
            continue
        unknown[job.work] -= 1
        if unknown[job.work] < 0:
            yield job.id, f"no call accounts for it ({job.kind} {job.payload.get('number')})"


def refused_leave_nothing(seen: Ordered) -> Found:
    """A transaction that was rolled back left neither job nor order; orders go with their jobs."""
    may_be = {call.work for call in seen.submits if call.outcome != "fail"}
    there = {job.work: job for job in seen.evidence.jobs}
    for call in seen.submits:
        if call.outcome == "fail" and call.work in there and call.work not in may_be:
            yield there[call.work].id, f"call {call.id} was refused or rolled back, and it is there"
    ordered = {job_id for _, job_id in seen.facts.orders}
    for _, job_id in seen.facts.orders:
        if job_id not in seen.jobs:
            yield job_id, "its order was committed without it"
    for call in seen.calls("enqueue", "ok"):
        if call.job_id not in ordered:
            yield call.job_id, f"call {call.id} committed it without its order"


def one_answer_per_key(seen: Ordered) -> Found:
    """All answers under one key are the same bytes, one job, and what is stored."""
    stored = {key.key: key for key in seen.evidence.keys}
    answers: dict[str, list[Call]] = defaultdict(list)
    for call in seen.calls("submit", "ok"):
        if call.args.get("key"):
            answers[call.args["key"]].append(call)
    for key, calls in answers.items():
        bodies = {(call.answer["status"], call.answer["body"]) for call in calls}
        if len(bodies) > 1:
            yield calls[0].job_id, f"key {key} was answered in {len(bodies)} ways"
        if len({call.job_id for call in calls}) > 1:
            yield calls[0].job_id, f"key {key} has more than one job"
        kept = stored.get(key)
        if kept is None or kept.job_id != calls[0].job_id:
            yield calls[0].job_id, f"key {key} is not stored as it was answered"
    if len(stored) != len(seen.evidence.keys):
        yield None, "a key is stored twice"


def new_jobs_are_distinct(seen: Ordered) -> Found:
    """Two calls that were both told "created" have two jobs, unless they share their key."""
    made: dict[str | None, Call] = {}
    for call in seen.submits:
        if call.outcome != "ok" or not call.answer.get("created"):
            continue
        first = made.setdefault(call.job_id, call)
        if first is not call and not (
            call.args.get("key") and call.args["key"] == first.args.get("key")
        ):
            yield call.job_id, f"calls {first.id} and {call.id} were both told they made it"


def gathered_items_come_out_once(seen: Ordered) -> Found:
    """What was merged into a job or its follow-up comes out of exactly one that succeeded.

    Who merely joined a job that has not begun is told so, and brings nothing into it.
    """
    out: Counter[str] = Counter(e.item for e in seen.evidence.effects if e.item is not None)
    cancelled = {
        item
        for job in seen.evidence.jobs
        if job.state == "cancelled"
        for item in job.payload.get("items", [])
    }
    for call in seen.submits:
        for item in call.args.get("payload", {}).get("items", []):
            brought = call.outcome == "ok" and call.answer.get("duplicate") != "joined"
            least = int(brought and item not in cancelled)
            most = int(call.outcome != "fail")
            if not least <= out[item] <= most:
                yield call.job_id, f"item {item} ({call.outcome}) came out {out[item]} times"


def no_answer_is_a_bug(seen: Ordered) -> Found:
    """Whatever the faults do, no client reads 500: an outage has words of its own."""
    for call in seen.evidence.calls:
        if call.answer.get("status") == INTERNAL_ERROR:
            yield call.job_id, f"call {call.id} ({call.op}) was answered with an internal error"


CALL_CHECKS = (
    acknowledged_jobs_end,
    healthy_jobs_succeed,
    cancelled_stay_cancelled,
    no_job_from_nowhere,
    refused_leave_nothing,
    one_answer_per_key,
    new_jobs_are_distinct,
    gathered_items_come_out_once,
    no_answer_is_a_bug,
)

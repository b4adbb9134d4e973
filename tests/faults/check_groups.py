"""Checks of groups: counters, generations, and the join that runs once when all have ended."""

from collections import Counter
from collections.abc import Iterator

from tests.faults.evidence import TERMINAL, Group, Job, Ordered, Transition
from tests.faults.kinds import child_number
from tests.faults.violations import Found

MEMBER, PARENT, JOIN = "fault.member", "fault.parent", "fault.join"
GROUP_KINDS = (MEMBER, PARENT, JOIN)


def groups_end(seen: Ordered) -> Found:
    """A group that was sealed has ended, and its join with it."""
    for group in seen.evidence.groups:
        if group.state == "open":
            continue
        if group.state != "ended":
            yield None, f"group {group.id} is {group.state} after the drain"
        join = seen.jobs.get(group.join_job_id or "")
        if group.join_job_id is not None and (join is None or join.state not in TERMINAL):
            state = "gone" if join is None else join.state
            yield group.join_job_id, f"joins group {group.id} and is {state} after the drain"


def acknowledged_members_are_there(seen: Ordered) -> Found:
    """Each member that an append has told of is a job, and of this group unless it was let go."""
    for call in seen.calls("append", "ok"):
        for job_id in call.answer["members"]:
            job = seen.jobs.get(job_id)
            if job is None:
                yield job_id, f"call {call.id} appended it, and it does not exist"
            elif job.group_id not in (call.args["group"], None):
                yield job_id, f"call {call.id} appended it to another group"
            elif job.group_id is None and job.state != "cancelled":
                yield job_id, f"is {job.state} and no member of its group any more"


def members_come_from_calls(seen: Ordered) -> Found:
    """A member was appended by a call, or spawned by a job; what was refused left nothing.

    A cancelled member that a redrive has replaced may be there once for each redrive.
    """
    may_be: Counter[tuple[str, int]] = Counter()
    for call in seen.calls("append", "ok", "info"):
        may_be.update({(MEMBER, number): 1 for number in call.args["numbers"]})
    opened = [*seen.calls("open", "ok", "info")]
    may_be.update((JOIN, call.args["number"]) for call in opened if call.args["joined"])
    for job in seen.evidence.jobs:
        if job.kind == PARENT:
            may_be.update(spawned_by(job))
    again = len(seen.calls("redrive_group", "ok", "info")) + len(
        seen.calls("redrive", "ok", "info")
    )
    found = Counter(job.work for job in seen.evidence.jobs if job.kind in (MEMBER, JOIN))
    for work, count in found.items():
        known = may_be[work]  # type: ignore[index] # every member has a number
        if not known or count > known + again:
            yield None, f"{count} jobs of {work}; {known} calls account for it"


def spawned_by(parent: Job) -> dict[tuple[str, int], int]:
    """The work that a job of fault.parent spawns: see tests.faults.handlers."""
    number = parent.payload["number"]
    works = {(MEMBER, child_number(number, place)): 1 for place in range(parent.payload["spawns"])}
    return works | ({(JOIN, number): 1} if parent.payload["joined"] else {})


def group_counters_are_true(seen: Ordered) -> Found:
    """What the counter row says is what there is."""
    for group in seen.evidence.groups:
        states = Counter(job.state for job in seen.members.get(group.id, []))
        counted = {
            "total": (group.total, states.total()),
            "remaining": (group.remaining, states["pending"] + states["running"]),
            **{
                state: (getattr(group, state), states[state])
                for state in ("succeeded", "dead", "cancelled")
            },
        }
        for name, (told, true) in counted.items():
            if told != true:
                yield None, f"group {group.id} counts {told} {name}; there are {true}"


def the_join_runs_once_when_all_have_ended(seen: Ordered) -> Found:
    """A join begins only while no member is active, and succeeds once a generation.

    A generation begins when a member of an ended group is active again.
    """
    for group in seen.evidence.groups:
        active: set[str] = set()
        succeeded = 0
        for job, each in _story(seen, group):
            if job.joins is None:
                succeeded = 0 if each.state == "pending" and not active else succeeded
                (active.discard if each.state in TERMINAL else active.add)(job.id)
            elif each.state == "running" and each.old_state == "pending" and active:
                yield job.id, f"joins group {group.id}, of which {len(active)} had not ended"
            elif each.state == "succeeded":
                succeeded += 1
                if succeeded > 1:
                    yield job.id, f"is one more join of one generation of group {group.id}"
        yield from _last_join(seen, group, succeeded)


def _last_join(seen: Ordered, group: Group, succeeded: int) -> Found:
    """The last generation has its join, unless somebody has cancelled it."""
    if group.state != "ended" or group.join_job_id is None:
        return
    asked = {call.job_id for call in seen.calls("cancel", "ok", "info")}
    if group.outcome == "succeeded" and not succeeded and group.join_job_id not in asked:
        yield group.join_job_id, f"did not run, though group {group.id} has ended well"
    if group.outcome != "succeeded" and succeeded:
        yield group.join_job_id, f"ran, though group {group.id} has {group.outcome}"


def _story(seen: Ordered, group: Group) -> Iterator[tuple[Job, Transition]]:
    """What members and joins of a group did, in the order of commits; renewals left out."""
    jobs = [*seen.members.get(group.id, []), *seen.joins.get(group.id, [])]
    steps = [(job, each) for job in jobs for each in seen.transitions.get(job.id, [])]
    for job, each in sorted(steps, key=lambda step: step[1].n):
        if each.old_state != each.state:
            yield job, each


def members_end_as_they_were_told(seen: Ordered) -> Found:
    """Poison dies, others succeed; cancelled is who was asked for, or whose group was stopped."""
    asked = {call.job_id for call in seen.calls("cancel", "ok", "info")}
    stopped = {call.args["group"] for call in seen.calls("cancel_group", "ok", "info")}
    groups = {group.id: group for group in seen.evidence.groups}
    for job in seen.evidence.jobs:
        if job.kind not in GROUP_KINDS:
            continue
        group = groups.get(job.group_id or job.joins or "")
        fails_fast = group is None or group.policy == "fail_fast" or group.id in stopped
        if job.state == "cancelled" and job.id not in asked and not fails_fast:
            yield job.id, "is cancelled, and nobody asked for that"
        poison = bool(job.payload.get("poison"))
        if job.state == "succeeded" and poison:
            yield job.id, "is poison and succeeded"
        ended_ill = job.joins is not None and group is not None and group.outcome != "succeeded"
        if job.state == "dead" and not poison and not ended_ill:
            yield job.id, f"is dead, though nothing is wrong with it ({job.kind})"


GROUP_CHECKS = (
    groups_end,
    acknowledged_members_are_there,
    members_come_from_calls,
    group_counters_are_true,
    the_join_runs_once_when_all_have_ended,
    members_end_as_they_were_told,
)

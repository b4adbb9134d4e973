"""Checks of the protocol's own trail: transitions, fences, counters, attempts, effects."""

from collections import Counter
from itertools import pairwise

from shared.jobs.states import TRANSITIONS
from tests.faults.check_groups import GROUP_KINDS
from tests.faults.evidence import TERMINAL, Job, Ordered, Transition
from tests.faults.violations import Found
from worker.outcome import FREE_RELEASES

LEGAL = {(str(old.value), str(new.value)) for old, new in TRANSITIONS} | {("running", "running")}
CHUNKED = (
    "fault.write", "fault.move", "fault.lock_write", "fault.lock_read", "fault.lock_two",
    "fault.limited", *GROUP_KINDS,
)  # fmt: skip


def only_legal_transitions(seen: Ordered) -> Found:
    """States follow the machine, and each change starts where the last one ended."""
    for job_id, trail in seen.transitions.items():
        if trail[0].old_state is not None or trail[0].state != "pending":
            yield job_id, f"begins as {trail[0].state}"
        for before, after in pairwise(trail):
            if after.old_state != before.state:
                yield job_id, f"was {before.state}, then left {after.old_state} (n {after.n})"
            step = (after.old_state, after.state)
            joins = job_id in seen.jobs and seen.jobs[job_id].joins is not None
            ended_with_its_group = joins and step == ("pending", "dead")
            if step not in LEGAL and not ended_with_its_group and step[0] != step[1]:
                yield job_id, f"went from {after.old_state} to {after.state} (n {after.n})"
        job = seen.jobs.get(job_id)
        if job is not None and trail[-1].state != job.state:
            yield job_id, f"is {job.state}; its last transition says {trail[-1].state}"


def the_dead_rise_by_redrive_only(seen: Ordered) -> Found:
    """As many ways out of `dead` as redrives that were acknowledged, or unknown.

    With its group, or with one of its group's members, a job may rise as well.
    """
    sure = Counter(str(call.job_id) for call in seen.calls("redrive", "ok"))
    maybe = Counter(str(call.job_id) for call in seen.calls("redrive", "info"))
    for call in seen.calls("redrive_all", "ok"):
        sure.update(call.answer["redriven"])
        maybe.update(call.answer["refused"])
    unknown = Counter(call.args["kind"] for call in seen.calls("redrive_all", "info"))
    for job_id, trail in seen.transitions.items():
        rose = sum(each.old_state == "dead" and each.state != "dead" for each in trail)
        job = seen.jobs.get(job_id)
        any_time = 0 if job is None else unknown[job.kind] + _of_its_group(seen, job)
        if not sure[job_id] <= rose <= sure[job_id] + maybe[job_id] + any_time:
            yield job_id, f"left dead {rose} times; {sure[job_id]} redrives were acknowledged"


def _of_its_group(seen: Ordered, job: Job) -> int:
    """How many redrives of its group, or of others in it, may have brought it back."""
    group = job.group_id or job.joins
    if group is None:
        return 0
    others = {each.id for each in seen.members.get(group, [])} - {job.id}
    asked = [*seen.calls("redrive", "ok", "info"), *seen.calls("redrive_group", "ok", "info")]
    return sum(call.job_id in others or call.args.get("group") == group for call in asked)


def fences_grow_by_claims(seen: Ordered) -> Found:
    """A claim, and nothing else, moves the fence by one and brings a token never seen before."""
    for job_id, trail in seen.transitions.items():
        tokens: set[str] = set()
        for before, after in pairwise(trail):
            claimed = after.fence != before.fence
            if after.fence - before.fence not in (0, 1):
                yield job_id, f"fence went from {before.fence} to {after.fence} (n {after.n})"
            if claimed != (after.attempt != before.attempt):
                yield job_id, f"fence and attempt do not move together (n {after.n})"
            if claimed and (after.state != "running" or after.token in tokens):
                yield job_id, f"fence {after.fence} has no new token of its own (n {after.n})"
            if not claimed and after.state == "running" and after.token != before.token:
                yield job_id, f"the token changed under fence {after.fence} (n {after.n})"
            if after.token is not None:
                tokens.add(after.token)


def _charged(each: Transition) -> int:
    return each.attempt - each.lost_leases - each.interruptions


def counters_stay_within_budgets(seen: Ordered) -> Found:
    """Counters only grow; charged attempts, lost leases and free releases have their limits."""
    for job_id, trail in seen.transitions.items():
        for before, after in pairwise(trail):
            for name in ("fence", "attempt", "lost_leases", "interruptions", "checkpoint_no"):
                if getattr(after, name) < getattr(before, name):
                    yield job_id, f"{name} went back (n {after.n})"
            if _charged(after) > after.max_attempts:
                yield job_id, f"{_charged(after)} attempts charged of {after.max_attempts}"
            if after.lost_leases > 2 * after.max_attempts:
                yield job_id, f"{after.lost_leases} leases lost, {after.max_attempts} attempts"
        released = Counter(
            attempt.claimed_checkpoint_no
            for attempt in seen.attempts.get(job_id, [])
            if attempt.outcome == "released"
        )
        job = seen.jobs.get(job_id)
        if job is not None and job.interruptions > FREE_RELEASES * max(1, len(released)):
            yield job_id, f"{job.interruptions} free releases at {len(released)} checkpoints"


def attempts_tell_the_same(seen: Ordered) -> Found:
    """One closed row a claim; outcomes add up to the counters, and to the end."""
    for job in seen.evidence.jobs:
        rows = seen.attempts.get(job.id, [])
        ends = Counter(row.outcome for row in rows)
        if [row.fence for row in rows] != list(range(1, job.fence + 1)):
            yield job.id, f"fence {job.fence}, attempts of fences {[row.fence for row in rows]}"
        if job.state in TERMINAL and ends[None]:
            yield job.id, f"is {job.state} with an attempt that has no outcome"
        if ends["lost_lease"] != job.lost_leases:
            yield job.id, f"{job.lost_leases} lost leases, {ends['lost_lease']} such attempts"
        if ends["released"] < job.interruptions:
            yield job.id, f"{job.interruptions} interruptions, {ends['released']} such attempts"
        if ends["succeeded"] != (job.state == "succeeded"):
            yield job.id, f"is {job.state} with {ends['succeeded']} successful attempts"
        if job.state == "succeeded" and rows and rows[-1].outcome != "succeeded":
            yield job.id, f"succeeded, and its last attempt {rows[-1].outcome}"


def effects_are_written_once(seen: Ordered) -> Found:
    """Each (job, chunk) at most once, in order; all of them where the job succeeded."""
    for job_id, effects in seen.effects.items():
        chunks = [effect.chunk for effect in effects]
        for chunk, times in Counter(chunks).items():
            if times > 1:
                yield job_id, f"chunk {chunk} was written {times} times"
        if job_id not in seen.jobs:
            yield job_id, "has effects and no row"
        elif chunks != sorted(chunks):
            yield job_id, f"chunks were committed in the order {chunks}"
    for job in seen.evidence.jobs:
        wanted = expected_effects(job)
        found = len(seen.effects.get(job.id, []))
        if wanted is not None and found != wanted:
            yield job.id, f"{job.state} with {found} effects of {wanted}"


def expected_effects(job: Job) -> int | None:
    """How many effects a job must have left at its end; None where that depends."""
    if job.state == "succeeded":
        if job.kind in CHUNKED:
            return int(job.payload.get("chunks", 1))
        if job.kind == "fault.harm":
            return 1
        if job.kind in ("fault.merge", "fault.follow"):
            return len(job.payload.get("items", []))
    if job.kind in CHUNKED and job.state == "cancelled":
        return job.checkpoint_no
    return None


def no_effect_under_an_older_fence(seen: Ordered) -> Found:
    """In the order of their commits fences of effects never go back; each is its commit's own.

    That order is the fenced transition's: an effect may have been written long before. And each
    fence belongs to one process, and to a claim there was.
    """
    for job_id, effects in seen.effects.items():
        claims = {row.fence: row for row in seen.attempts.get(job_id, [])}
        pids: dict[int, int] = {}
        for before, after in pairwise(effects):
            if after.fence < before.fence:
                yield job_id, f"fence {after.fence} committed after fence {before.fence}"
        for effect in effects:
            fenced = seen.commit_of(effect)
            if fenced is None:
                yield job_id, f"an effect of fence {effect.fence} was committed with no transition"
            elif fenced.fence != effect.fence:
                text = f"an effect of fence {effect.fence} was committed under {fenced.fence}"
                yield job_id, f"{text} (n {fenced.n})"
            claim = claims.get(effect.fence)
            if claim is None or claim.attempt != effect.attempt:
                yield job_id, f"an effect of fence {effect.fence} has no such attempt"
            if pids.setdefault(effect.fence, effect.pid) != effect.pid:
                yield job_id, f"fence {effect.fence} wrote from two processes"


def each_effect_has_its_fenced_commit(seen: Ordered) -> Found:
    """Effects under a fence are as many as checkpoints counted under it: one commit each."""
    for job in seen.evidence.jobs:
        trail = seen.transitions.get(job.id, [])
        if job.kind not in CHUNKED or not trail:
            continue
        commits: Counter[int] = Counter()
        for before, after in pairwise(trail):
            ends_alone = after.state == "succeeded" and not job.payload.get("complete")
            if not ends_alone:
                commits[after.fence] += after.checkpoint_no - before.checkpoint_no
        written = Counter(effect.fence for effect in seen.effects.get(job.id, []))
        for fence in commits.keys() | written.keys():
            if commits[fence] != written[fence]:
                text = f"fence {fence}: {written[fence]} effects in {commits[fence]} fenced commits"
                yield job.id, text


FENCE_CHECKS = (
    only_legal_transitions,
    the_dead_rise_by_redrive_only,
    fences_grow_by_claims,
    counters_stay_within_budgets,
    attempts_tell_the_same,
    effects_are_written_once,
    no_effect_under_an_older_fence,
    each_effect_has_its_fenced_commit,
)

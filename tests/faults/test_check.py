"""Each check of the checker finds the violation that is planted for it, and nothing where all is
well: a checker that never complains proves nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults import (
    check_books,
    check_calls,
    check_fences,
    check_groups,
    check_liveness,
    check_locks,
)
from tests.faults.check import CHECKS, check_evidence
from tests.faults.evidence import Attempt, Call, Evidence, Ordered, Window, load_evidence
from tests.faults.sound import (
    CANCELLED,
    GROUP,
    JOIN,
    MOVER,
    POISON,
    WAITER,
    WRITER,
    call,
    effect,
    job,
    lock,
    many,
    sound,
    submit,
    trail,
)
from tests.faults.timeline import print_timeline
from tests.faults.violations import Check


def change(rows: list[Any], place: int, **changes: Any) -> None:
    """Put a changed copy in the place of a row."""
    rows[place] = replace(rows[place], **changes)


Plant = Callable[[Evidence], Any]


def told(number: int, **changes: Any) -> Plant:
    return lambda e: change(e.calls, number, **changes)


def moved(n: int, /, **changes: Any) -> Plant:
    """Change the transition with this number."""

    def plant(evidence: Evidence) -> None:
        place = next(p for p, each in enumerate(evidence.transitions) if each.n == n)
        change(evidence.transitions, place, **changes)

    return plant


def stated(**changes: Any) -> Plant:
    def plant(evidence: Evidence) -> None:
        evidence.facts = replace(evidence.facts, **changes)

    return plant


def two_jobs_of_an_unknown_call(evidence: Evidence) -> None:
    payload = {"number": 77}
    evidence.calls.append(submit(70, "?", "fault.write", payload, outcome="info", answer={}))
    evidence.jobs += [job(name, "fault.write", payload) for name in "xy"]


def written_in_time_and_committed_after_the_cancel(evidence: Evidence) -> None:
    """The fence is broken: it moves the checkpoint of a job that is cancelled."""
    late = replace(evidence.transitions[-1], n=54, old_state="cancelled", checkpoint_no=2, xact=54)
    evidence.transitions.append(late)
    evidence.effects.append(effect(51, CANCELLED, 1, 1, xact=54))


def never_again(evidence: Evidence) -> None:
    """Nothing follows the reaping of the writer."""
    evidence.transitions[:] = [t for t in evidence.transitions if t.job_id != WRITER or t.n <= 13]


def risen(evidence: Evidence) -> None:
    """The poison job left dead once more."""
    evidence.transitions.extend(
        replace(each, n=each.n + 1, old_state="dead")
        for each in trail(42, POISON, ("pending", 1, 0, 1))
    )


def second_join(evidence: Evidence) -> None:
    """Somebody else has seen the count at zero, too."""
    evidence.jobs.append(job("j2", "fault.join", {"number": 12, "complete": True}, joins=GROUP))
    done = (("pending", 0, 0, 0), ("running", 1, 0, 0), ("succeeded", 1, 0, 1))
    evidence.transitions += trail(90, "j2", *done)


PLANTED: list[tuple[Check, str, Plant]] = [
    (check_calls.acknowledged_jobs_end, "lost job", lambda e: e.jobs.pop(1)),
    (
        check_calls.acknowledged_jobs_end,
        "job that never ends",
        lambda e: change(e.jobs, 0, state="pending"),
    ),
    (
        check_calls.healthy_jobs_succeed,
        "healthy job buried",
        lambda e: change(e.jobs, 0, state="dead"),
    ),
    (
        check_calls.healthy_jobs_succeed,
        "poison that succeeded",
        lambda e: change(e.jobs, 3, state="succeeded"),
    ),
    (
        check_calls.healthy_jobs_succeed,
        "cancelled by nobody",
        lambda e: change(e.jobs, 0, state="cancelled"),
    ),
    (
        check_calls.cancelled_stay_cancelled,
        "cancelled and yet succeeded",
        lambda e: change(e.jobs, 4, state="succeeded"),
    ),
    (
        check_calls.cancelled_stay_cancelled,
        "effect after the cancel",
        lambda e: e.effects.append(effect(70, CANCELLED, 1, 1)),
    ),
    (
        check_calls.cancelled_stay_cancelled,
        "written before the cancel, committed after it",
        written_in_time_and_committed_after_the_cancel,
    ),
    (
        check_calls.no_job_from_nowhere,
        "job nobody submitted",
        lambda e: e.jobs.append(job("x", "fault.write", {"number": 77})),
    ),
    (
        check_calls.no_job_from_nowhere,
        "two jobs of one unknown call",
        two_jobs_of_an_unknown_call,
    ),
    (
        check_calls.refused_leave_nothing,
        "job of a rolled back transaction",
        lambda e: e.jobs.append(job("x", "fault.write", {"number": 99})),
    ),
    (check_calls.refused_leave_nothing, "order without its job", stated(orders=[(1, "x")])),
    (check_calls.refused_leave_nothing, "job without its order", stated(orders=[])),
    (
        check_calls.one_answer_per_key,
        "other bytes in a replay",
        told(2, answer={"job_id": MOVER, "status": 202, "body": "other"}),
    ),
    (
        check_calls.one_answer_per_key,
        "second job under a key",
        told(2, answer={"job_id": "x", "status": 202, "body": f"answer of {MOVER}"}),
    ),
    (check_calls.one_answer_per_key, "answer not stored", lambda e: e.keys.clear()),
    (
        check_calls.new_jobs_are_distinct,
        "one job made twice",
        lambda e: e.calls.append(submit(70, MOVER, "fault.move", {"number": 2})),
    ),
    (
        check_calls.gathered_items_come_out_once,
        "merged item lost",
        lambda e: e.effects.pop(4),
    ),
    (
        check_calls.gathered_items_come_out_once,
        "merged item twice",
        lambda e: e.effects.append(effect(80, "y", 0, 1, item="i1")),
    ),
    (
        check_calls.no_answer_is_a_bug,
        "internal error",
        lambda e: e.calls.append(call(70, "cancel", outcome="info", answer={"status": 500})),
    ),
    (check_fences.only_legal_transitions, "succeeded after dead", moved(42, old_state="succeeded")),
    (check_fences.only_legal_transitions, "resurrection", moved(13, state="succeeded")),
    (
        check_fences.the_dead_rise_by_redrive_only,
        "risen by itself",
        risen,
    ),
    (
        check_fences.the_dead_rise_by_redrive_only,
        "redrive acknowledged, not done",
        lambda e: e.calls.append(call(70, "redrive", args={"job_id": POISON})),
    ),
    (
        check_fences.the_dead_rise_by_redrive_only,
        "redrive of many acknowledged, not done",
        lambda e: e.calls.append(
            call(70, "redrive_all", args={"kind": "fault.harm"}, answer=many(POISON))
        ),
    ),
    (check_fences.fences_grow_by_claims, "fence jumps", moved(14, fence=3)),
    (check_fences.fences_grow_by_claims, "fence stands still", moved(14, fence=1)),
    (check_fences.fences_grow_by_claims, "token used again", moved(14, token=f"{WRITER}1")),
    (check_fences.fences_grow_by_claims, "token changes alone", moved(12, token=WRITER)),
    (check_fences.counters_stay_within_budgets, "counter goes back", moved(15, lost_leases=0)),
    (check_fences.counters_stay_within_budgets, "too many attempts", moved(16, max_attempts=0)),
    (
        check_fences.counters_stay_within_budgets,
        "endless free releases",
        lambda e: change(e.jobs, 0, interruptions=21),
    ),
    (
        check_fences.attempts_tell_the_same,
        "attempt left open",
        lambda e: change(e.attempts, 1, outcome=None),
    ),
    (check_fences.attempts_tell_the_same, "claim without a row", lambda e: e.attempts.pop(0)),
    (
        check_fences.attempts_tell_the_same,
        "lost lease not counted",
        lambda e: change(e.jobs, 0, lost_leases=0),
    ),
    (
        check_fences.effects_are_written_once,
        "effect twice",
        lambda e: e.effects.append(effect(16, WRITER, 1, 2)),
    ),
    (check_fences.effects_are_written_once, "chunk missing", lambda e: e.effects.pop(1)),
    (
        check_fences.effects_are_written_once,
        "effect of no job",
        lambda e: e.effects.append(effect(90, "z", 0, 1)),
    ),
    (
        check_fences.effects_are_written_once,
        "effect lost by a cancelled job",
        lambda e: e.effects.pop(5),
    ),
    (
        check_fences.no_effect_under_an_older_fence,
        "zombie writes",
        lambda e: e.effects.append(effect(17, WRITER, 2, 1)),
    ),
    (
        check_fences.no_effect_under_an_older_fence,
        "zombie writes first and commits last",
        lambda e: e.effects.append(effect(11, WRITER, 2, 1, xact=16)),
    ),
    (
        check_fences.no_effect_under_an_older_fence,
        "effect beside every transition",
        lambda e: change(e.effects, 5, xact=1),
    ),
    (
        check_fences.no_effect_under_an_older_fence,
        "effect of no attempt",
        lambda e: change(e.effects, 1, fence=3),
    ),
    (
        check_fences.no_effect_under_an_older_fence,
        "one fence, two processes",
        lambda e: e.effects.append(effect(17, WRITER, 2, 2, pid=9)),
    ),
    (
        check_fences.each_effect_has_its_fenced_commit,
        "effect beside the fence",
        lambda e: e.effects.append(effect(17, WRITER, 2, 2)),
    ),
    (
        check_fences.each_effect_has_its_fenced_commit,
        "effect moved to another fence",
        lambda e: change(e.effects, 1, fence=1),
    ),
    (check_books.debit_equals_credit, "one side missing", lambda e: e.entries.pop()),
    (check_books.debit_equals_credit, "wrong balance", stated(balances={"0": 1})),
    (check_books.debit_equals_credit, "entries without an effect", lambda e: e.effects.pop(2)),
    (
        check_books.every_read_of_the_books_balances,
        "money seen that is not",
        told(7, answer={"total": 1}),
    ),
    (
        check_books.costing_equals_the_oracle,
        "wrong cost",
        stated(costed={"RED/A movement 1": [[6, 0, None]]}),
    ),
    (check_books.costing_equals_the_oracle, "movement not costed", stated(costed={})),
    (check_liveness.everything_drains, "does not come to rest", stated(drained=False)),
    (check_liveness.everything_drains, "message left behind", stated(outbox=1)),
    (
        check_liveness.drained_processes_end_well,
        "drain had to be killed",
        lambda e: change(e.windows, 0, detail={"exit_code": "SIGKILL after 12 s"}),
    ),
    (check_liveness.no_lease_outlives_its_time, "nobody reaps", moved(13, at=30.0)),
    (check_liveness.a_reaped_job_runs_again_in_time, "nobody claims", moved(14, at=19.0)),
    (check_liveness.a_reaped_job_runs_again_in_time, "no claim to the end", never_again),
    (
        check_liveness.no_two_owners_at_once,
        "taken before it ran out",
        moved(12, fence=2, token=MOVER, attempt=2),
    ),
    (check_locks.no_two_holders, "the reader begins before the writer ends", moved(62, n=66)),
    (
        check_locks.no_two_holders,
        "an expired holder is passed by",
        moved(62, state="running", lease_expires_at=62.0),
    ),
    (check_locks.each_locked_job_has_its_locks, "locks lost", lambda e: e.locks.clear()),
    (
        check_locks.each_locked_job_has_its_locks,
        "locks of a job that asked for none",
        lambda e: e.locks.append(lock(WRITER, "shared")),
    ),
    (check_locks.limits_are_never_exceeded, "two where one may", moved(22, n=36)),
    (check_locks.a_free_lock_is_taken_in_time, "nobody wakes the waiter", moved(64, at=70.1)),
    (
        check_locks.a_free_lock_is_taken_in_time,
        "waits to the end",
        lambda e: e.transitions.__setitem__(
            slice(None), [t for t in e.transitions if t.job_id != WAITER or t.n < 64]
        ),
    ),
    (check_groups.groups_end, "never ends", lambda e: change(e.groups, 0, state="sealed")),
    (
        check_groups.groups_end,
        "join left waiting",
        lambda e: e.jobs.append(replace(e.jobs.pop(), state="pending")),
    ),
    (check_groups.acknowledged_members_are_there, "member lost", lambda e: e.jobs.pop(-2)),
    (
        check_groups.acknowledged_members_are_there,
        "member of no group",
        lambda e: change(e.jobs, -2, group_id=None),
    ),
    (
        check_groups.members_come_from_calls,
        "member nobody appended",
        lambda e: e.jobs.append(job("x", "fault.member", {"number": 77}, group_id=GROUP)),
    ),
    (
        check_groups.members_come_from_calls,
        "member there twice",
        lambda e: e.jobs.append(job("x", "fault.member", {"number": 13}, group_id=GROUP)),
    ),
    (check_groups.group_counters_are_true, "miscounted", lambda e: change(e.groups, 0, dead=1)),
    (
        check_groups.group_counters_are_true,
        "not counted down",
        lambda e: change(e.groups, 0, remaining=1),
    ),
    (
        check_groups.the_join_runs_once_when_all_have_ended,
        "begins before the last has ended",
        moved(75, n=78),
    ),
    (
        check_groups.the_join_runs_once_when_all_have_ended,
        "a second join",
        second_join,
    ),
    (
        check_groups.the_join_runs_once_when_all_have_ended,
        "no join",
        lambda e: e.transitions.__setitem__(
            slice(None), [t for t in e.transitions if t.job_id != JOIN]
        ),
    ),
    (
        check_groups.the_join_runs_once_when_all_have_ended,
        "a join of a failed group",
        lambda e: change(e.groups, 0, outcome="failed"),
    ),
    (
        check_groups.members_end_as_they_were_told,
        "cancelled by nobody",
        lambda e: change(e.jobs, -2, state="cancelled"),
    ),
    (
        check_groups.members_end_as_they_were_told,
        "buried for nothing",
        lambda e: change(e.jobs, -2, state="dead"),
    ),
    (
        check_groups.members_end_as_they_were_told,
        "poison that succeeded",
        lambda e: change(e.jobs, -2, payload={"number": 14, "poison": True}),
    ),
]


@pytest.mark.parametrize(
    ("check", "plant"),
    [pytest.param(c, p, id=f"{c.__name__}: {name}") for c, name, p in PLANTED],
)
def test_each_check_finds_what_is_planted_for_it(check: Check, plant: Plant) -> None:
    evidence = sound()
    plant(evidence)
    assert list(check(Ordered(evidence))) != []


def test_a_sound_run_has_no_violation() -> None:
    assert check_evidence(sound()) == []


def test_every_check_has_a_violation_planted_for_it() -> None:
    assert {check for check, _, _ in PLANTED} == set(CHECKS)


@pytest.mark.parametrize(
    "told",
    [
        call(70, "redrive_all", args={"kind": "fault.harm"}, answer=many(POISON)),
        call(70, "redrive_all", args={"kind": "fault.harm"}, outcome="info"),
        call(70, "redrive_all", args={}, answer=many() | {"refused": [POISON]}),
    ],
    ids=["told", "no answer", "in doubt"],
)
def test_a_redrive_of_many_accounts_for_the_risen(told: Call) -> None:
    evidence = sound()
    risen(evidence)
    evidence.calls.append(told)
    assert list(check_fences.the_dead_rise_by_redrive_only(Ordered(evidence))) == []


def test_a_drain_that_a_job_has_ended_is_the_jobs_doing_and_no_other() -> None:
    """Its code alone excuses nobody: the killing job must have run in that very process."""
    evidence = sound()
    change(evidence.windows, 0, detail={"exit_code": 137, "pid": 4711})
    check = check_liveness.drained_processes_end_well
    assert list(check(Ordered(evidence))) != []
    evidence.jobs.append(job("killer", "fault.harm", {"how": "exit"}, state="dead"))
    claimed: dict[str, Any] = {
        "fence": 1,
        "attempt": 1,
        "outcome": "lost_lease",
        "claimed_checkpoint_no": 0,
    }
    for pid, excused in ((4712, False), (4711, True)):
        ran = Attempt(job_id="killer", worker_id=f"vm-{pid}-abc", **claimed)
        evidence.attempts.append(ran)
        assert (list(check(Ordered(evidence))) == []) is excused


def test_time_under_a_fault_does_not_count_as_stuck() -> None:
    evidence = sound()
    moved(13, at=30.0)(evidence)
    evidence.windows.append(Window(fault="pg_restart", target="database", began=14, ended=26))
    assert list(check_liveness.no_lease_outlives_its_time(Ordered(evidence))) == []


@pytest.mark.parametrize(
    ("at", "windows"),
    [
        (17.9, []),
        (28.0, [("pg_restart", "database", 14, 24)]),
        (28.0, [("stop", f"worker {number}", 14, 24) for number in (1, 2, 3)]),
        (40.0, [("sqs_black_hole", "sqs", 14, 15)]),
        (34.9, [("kill", "api 1", 13, 14)]),
    ],
    ids=["in time", "no database", "no worker", "no queue", "died with the message"],
)
def test_a_reaped_job_waits_for_whom_it_must(at: float, windows: list[Any]) -> None:
    evidence = sound()
    moved(14, at=at)(evidence)
    for fault, target, began, ended in windows:
        evidence.windows.append(Window(fault=fault, target=target, began=began, ended=ended))
    assert list(check_liveness.a_reaped_job_runs_again_in_time(Ordered(evidence))) == []


@pytest.mark.parametrize(("others", "excused"), [(18, True), (17, False)])
def test_a_reaped_job_waits_while_all_slots_are_taken(others: int, *, excused: bool) -> None:
    """Eighteen slots: one that is free ends the excuse."""
    evidence = sound()
    for n, at in ((14, 30.0), (15, 31.0), (16, 32.0)):
        moved(n, at=at)(evidence)
    for number in range(others):
        name = f"other {number}"
        evidence.jobs.append(job(name, "fault.write", {"number": 100 + number}))
        held = trail(200 + 5 * number, name, ("pending", 0, 0, 0), ("running", 1, 0, 0))
        evidence.transitions += [replace(each, at=13.0) for each in held]
    found = list(check_liveness.a_reaped_job_runs_again_in_time(Ordered(evidence)))
    assert (found == []) is excused


def test_time_counts_while_one_worker_is_well() -> None:
    evidence = sound()
    moved(13, at=40.0)(evidence)
    for number, began in ((1, 0.0), (2, 0.0), (3, 32.0)):
        window = Window(fault="stop", target=f"worker {number}", began=began, ended=36)
        evidence.windows.append(window)
    (found,) = check_liveness.no_lease_outlives_its_time(Ordered(evidence))
    assert found[0] == WRITER
    (stuck, *_) = check_liveness.stuck_leases(Ordered(evidence))
    assert stuck.seconds == pytest.approx(32 - 15), "from the expiry to when the last one fell ill"


def test_evidence_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    sound().save(tmp_path)
    assert load_evidence(tmp_path) == sound()


def test_a_timeline_tells_calls_transitions_effects_faults_and_logs(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    line = '{"event": "lease.reaped", "job_id": "%s", "timestamp": "1970-01-01T00:00:13.5Z"}'
    (tmp_path / "logs" / "worker1.log").write_text(line % WRITER)
    evidence = sound()
    evidence.windows.append(Window(fault="kill", target="worker 2", began=12.5, ended=13.0))
    told = print_timeline(tmp_path, evidence, WRITER)
    times = [float(line.split()[0]) for line in told.splitlines()[1:]]
    assert times == sorted(times)
    for words in ("call 1: enqueue", "→ running", "chunk 1 under fence 2", "kill on worker 2"):
        assert words in told
    assert "lease.reaped" in told

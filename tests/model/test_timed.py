"""Traces with time: the same plan, the same trace, and every step of it is the model's own."""

import json
import random
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import pytest

from shared.model.model import Model
from shared.model.timed.clock import DUE, SECOND
from shared.model.timed.plan import FENCE, LIMITS, Plan, PlanRefused
from shared.model.timed.play import (
    BEAT,
    MOST_ENTRIES,
    MOST_SECONDS,
    MOST_STEPS,
    Entry,
    TooLong,
    Trace,
    play,
    play_counterexample,
)
from shared.model.timed.stories import STORIES
from shared.model.trace import Action, take

BUSY = Plan(crash=25, pause=25, duplicate=40, loss=20, jobs=3)
QUIET = Plan(workers=1, jobs=1, pieces=1, crash=0, pause=0, duplicate=0, loss=0)


def test_two_plays_of_one_plan_are_one_and_the_same() -> None:
    first, again, other = play(BUSY), play(BUSY), play(replace(BUSY, seed=2))
    assert first == again
    assert first.entries != other.entries


@pytest.mark.parametrize("seed", range(12))
def test_every_step_is_possible_in_the_model_and_breaks_nothing(seed: int) -> None:
    """The actions alone, without the clock, are taken by a model of its own."""
    plan = drawn(seed)
    model = Model(plan.bounds, plan.protections)
    state = model.initial()
    for entry in play(plan).entries:
        if entry.action == BEAT:
            continue
        move = take(model, state, Action(name=entry.action, worker=entry.worker, job=entry.job))
        assert move.broken is None, (plan, entry)
        assert not entry.broken
        state = move.state


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1_000, 100))
def test_no_property_breaks_over_a_thousand_seeds(first: int) -> None:
    for seed in range(first, first + 100):
        trace = play(drawn(seed), cpu_seconds=60)
        assert trace.broken == [], trace.plan


def test_without_the_fence_the_same_plans_write_twice() -> None:
    """Not each of them: it takes a worker that comes back too late."""
    doubled = 0
    for seed in range(12):
        trace = play(replace(BUSY, seed=seed, fence=False))
        if trace.doubled is None:
            continue
        doubled += 1
        entry = trace.entries[trace.doubled]
        assert "effect_once" in trace.broken
        assert entry.job is not None
        effects = entry.jobs[entry.job]["effects"][(entry.doubled or 0) - 1]
        assert len(effects) > 1
        assert play(replace(BUSY, seed=seed)).doubled is None
    assert doubled >= 6


def test_the_shortest_double_write_is_the_explorers() -> None:
    trace = play_counterexample()
    assert len(trace.entries) == 13
    assert trace.doubled == 12
    assert trace.entries[-1].broken == ("effect_once",)
    assert [entry.at for entry in trace.entries] == sorted({e.at for e in trace.entries})
    assert not trace.plan.fence


def test_the_stories_of_the_tour_end_as_they_are_told() -> None:
    told = {name: play(plan) for name, plan in STORIES.items()}
    assert actions(told["normal"]) == [
        "submit", "relay_publish", "receive", "claim", "read_input", "commit_chunk", "complete",
        "delete_message",
    ]  # fmt: skip
    assert {"crash", "expire_unheld", "reap"} < set(actions(told["crash"]))
    assert {"pause", "resume", "lose_lease"} < set(actions(told["zombie"]))
    assert "lose_lease" not in actions(told["nofence"])
    assert told["nofence"].doubled is not None
    for name in ("normal", "crash", "zombie"):
        assert told[name].broken == []
        assert told[name].entries[-1].at < 80 * SECOND
        assert last_job(told[name])["state"] == "succeeded"


def test_a_lease_runs_out_its_length_after_the_last_heartbeat() -> None:
    trace = play(STORIES["crash"])
    renewed = [e.at for e in trace.entries if e.action in {"claim", BEAT} and e.worker == 0]
    (ran_out,) = (e.at for e in trace.entries if e.action == "expire_unheld")
    assert ran_out == renewed[-1] + trace.plan.lease * SECOND
    beats = [e.at for e in trace.entries if e.action == BEAT and e.worker == 0]
    assert {b - a for a, b in pairwise(beats)} == {trace.plan.heartbeat * SECOND}


def test_a_message_of_a_stopped_worker_comes_back_after_its_visibility() -> None:
    trace = play(STORIES["zombie"])
    (back,) = (e.at for e in trace.entries if e.action == "redeliver")
    beats = [e.at for e in trace.entries if e.action == BEAT and e.worker == 0]
    assert back == beats[-1] + trace.plan.visibility * SECOND


def test_a_heartbeat_slower_than_the_lease_loses_it_while_its_owner_lives() -> None:
    slow = replace(QUIET, workers=2, work=60, lease=5, heartbeat=20)
    assert not slow.safe
    assert "expire" in actions(play(slow))
    assert Plan().safe


def test_a_lost_message_is_staged_again_by_the_reconciler() -> None:
    trace = play(replace(QUIET, loss=60, seed=3))
    assert {"lose", "reconcile"} <= set(actions(trace))
    assert last_job(trace)["state"] == "succeeded"


def test_a_trace_is_bounded_in_steps_seconds_and_cpu_time() -> None:
    endless = replace(QUIET, loss=100)
    assert play(endless).stopped == "seconds"
    assert play(endless).entries[-1].at <= MOST_SECONDS * SECOND
    largest = Plan(workers=6, jobs=8, pieces=5, crash=60, pause=60, duplicate=100)
    many = play(largest, cpu_seconds=60)
    assert len(many.entries) <= MOST_ENTRIES
    assert sum(e.action != BEAT for e in many.entries) <= MOST_STEPS
    with pytest.raises(TooLong):
        play(largest, cpu_seconds=0)


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_a_plan_beyond_a_limit_is_refused_by_name(name: str) -> None:
    least, most = LIMITS[name]
    for value in (least - 1, most + 1):
        with pytest.raises(PlanRefused) as refused:
            with_one(name, value)
        assert (refused.value.field, refused.value.value) == (name, value)
        assert refused.value.rule == f"must be a whole number from {least} to {most}"
    with_one(name, least)
    with_one(name, most)


def test_removing_the_fence_removes_all_that_it_compares_and_nothing_else() -> None:
    plan = replace(QUIET, fence=False)
    assert QUIET.protections - plan.protections == set(FENCE)


def test_every_fault_that_is_drawn_happens_and_each_move_has_a_time() -> None:
    happened = {action for seed in range(8) for action in actions(play(drawn(seed)))}
    assert set(DUE) - happened <= {"relay_drop"}


def test_a_trace_can_be_written_as_json() -> None:
    assert json.loads(json.dumps([asdict(entry) for entry in play(BUSY).entries]))


def with_one(name: str, value: int) -> Plan:
    changed: dict[str, Any] = {name: value}
    return replace(QUIET, **changed)


def drawn(seed: int) -> Plan:
    """A plan by lot: every kind of fault, also times that no real worker would start with."""
    lot = random.Random(seed)
    return Plan(
        workers=lot.randint(2, 5),
        jobs=lot.randint(1, 5),
        pieces=lot.randint(1, 4),
        work=lot.randint(1, 40),
        lease=lot.randint(2, 60),
        heartbeat=lot.randint(1, 20),
        visibility=lot.randint(2, 90),
        crash=lot.choice([10, 40, 80]),
        pause=lot.choice([10, 40, 80]),
        pause_seconds=lot.randint(1, 200),
        duplicate=lot.choice([10, 50, 100]),
        loss=lot.choice([10, 30, 60]),
        seed=seed,
    )


def actions(trace: Trace) -> list[str]:
    return [entry.action for entry in trace.entries if entry.action != BEAT]


def last_job(trace: Trace) -> dict[str, object]:
    last: Entry = [entry for entry in trace.entries if 0 in entry.jobs][-1]
    return last.jobs[0]

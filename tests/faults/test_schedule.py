"""The schedule is the seed's, whole; and the page about the suite names what there is."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.check import CHECKS
from tests.faults.evidence import Call
from tests.faults.nemeses import NEMESES, some_entries, sqs_knobs
from tests.faults.restore import forget_between
from tests.faults.schedule import FAULTS, JOBS, SQS, Step, make_schedule
from tests.sqs_proxy import SqsProxy

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def schedule(seed: int, *, only: tuple[str, ...] = (), seconds: float = 90) -> list[Step]:
    return make_schedule(
        random.Random(seed), seconds=seconds, lease=3.0, workers=3, apis=2, only=only
    )


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert schedule(7) == schedule(7)
    assert schedule(7) != schedule(8)


def test_faults_of_one_target_never_overlap_and_end_in_time() -> None:
    for seed in range(20):
        lanes: dict[str, list[Step]] = {}
        for step in schedule(seed):
            lanes.setdefault(step.target, []).append(step)
            assert step.at + step.seconds <= 90.1
        for steps in lanes.values():
            assert all(a.at + a.seconds <= b.at + 0.02 for a, b in pairwise(steps))


def test_every_fault_happens_within_twenty_seeds() -> None:
    seen = Counter(step.fault for seed in range(20) for step in schedule(seed))
    assert seen.keys() == set(FAULTS)


def test_a_choice_of_faults_leaves_only_those() -> None:
    assert {step.fault for step in schedule(1, only=("kill", "sqs_lose"))} == {"kill", "sqs_lose"}


def test_every_fault_can_be_carried_out() -> None:
    assert NEMESES.keys() | set(JOBS.faults) == set(FAULTS)


@pytest.mark.parametrize("fault", SQS.faults)
def test_every_fault_of_sqs_turns_knobs_that_are_there(fault: str) -> None:
    proxy = SqsProxy("http://127.0.0.1:1")
    step = next(s for seed in range(50) for s in schedule(seed) if s.fault == fault)
    knobs = sqs_knobs(step, 3.0)
    assert all(getattr(proxy, name) != value for name, value in knobs.items())
    for name, value in knobs.items():
        setattr(proxy, name, value)
    proxy.heal()
    assert all(getattr(proxy, name) != value for name, value in knobs.items())


def test_partial_failures_hit_some_entries_and_not_all() -> None:
    refuse = some_entries(random.Random(1), 0.4)
    entries = [{"Id": str(number)} for number in range(200)]
    hit = refuse(1, entries)
    assert 40 < len(hit) < 120
    assert set(hit.values()) == {"omit", "receiver"}


def test_what_was_acknowledged_before_a_restore_is_unknown_after_it() -> None:
    def call(number: int, began: float, ended: float) -> Call:
        return Call(
            id=number,
            process=1,
            op="submit",
            args={},
            began=began,
            ended=ended,
            outcome="ok",
            answer={},
        )

    calls = [call(1, 1, 2), call(2, 4, 6), call(3, 6, 7), call(4, 11, 12)]
    seen = forget_between(calls, 5, 10)
    assert [each.outcome for each in seen] == ["ok", "info", "info", "ok"]


def test_the_page_names_every_fault_and_every_check() -> None:
    page = PAGE.read_text()
    missing = [name for name in FAULTS if f"`{name}`" not in page]
    missing += [check.__name__ for check in CHECKS if f"`{check.__name__}`" not in page]
    assert missing == []

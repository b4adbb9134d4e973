"""The worlds of locks and of groups: everything holds, every fair run ends, every guard is needed."""

from dataclasses import replace
from typing import Any

import pytest

from shared.model.__main__ import main
from shared.model.ends import check_ends
from shared.model.families import GROUPS, LOCKS, Family
from shared.model.graph import Graph
from shared.model.groups.bounds import TWO
from shared.model.locks.bounds import MIXED, PAIR
from shared.model.locks.state import read, write
from shared.model.trace import Counterexample, find_counterexample, take, told

SMALL = (LOCKS, GROUPS)
TESTED = [
    pytest.param(family, bounds, id=f"{family.name}-{number}")
    for family in SMALL
    for number, bounds in enumerate(family.test, 1)
]
WHOLE = [
    pytest.param(family, bounds, id=f"{family.name}-{number}")
    for family in SMALL
    for number, bounds in enumerate(family.full, 1)
]
GUARDS = [pytest.param(family, name, id=name) for family in SMALL for name in family.protections]


def explored(family: Family, bounds: Any, *, reduce: bool = True) -> Graph:
    return family.search(family.build(bounds, ()), reduce).explore()


def assert_holds(graph: Graph) -> None:
    """Every property in every state, and the end of every fair run: nothing goes round at all."""
    assert graph.complete
    assert graph.broken == {}
    ending = check_ends(graph)
    assert ending.endless is None
    assert ending.within == set()


@pytest.mark.parametrize(("family", "bounds"), TESTED)
def test_a_small_world_survives_and_ends(family: Family, bounds: Any) -> None:
    assert_holds(explored(family, bounds))


@pytest.mark.long
@pytest.mark.parametrize(("family", "bounds"), WHOLE)
def test_a_larger_world_survives_and_ends(family: Family, bounds: Any) -> None:
    """The bounds that the page documents; minutes."""
    assert_holds(explored(family, bounds))


@pytest.mark.parametrize(("family", "name"), GUARDS)
def test_without_one_protection_the_property_it_guards_falls(family: Family, name: str) -> None:
    """A counterexample is found, is told, and when it is played again it breaks the same."""
    example = found(family, name)
    assert example.broken == family.protections[name].breaks
    assert list(told(example))[-1].startswith(f"BROKEN  {example.broken}")
    world = family.build(example.bounds, example.removed)
    state, broken = world.initial(), None
    for number, action in enumerate(example.actions, 1):
        move = take(world, state, action)
        state = move.state
        broken = move.broken or world.broken(state)
        if broken == example.broken:
            assert number == len(example.actions), "it was broken before"
    # Who never comes to an end has often broken something before: a count, an order.
    assert example.broken in {broken, "every_run_ends"}
    assert not world.has_ended(state) or example.broken != "every_run_ends"


def found(family: Family, *removed: str) -> Counterexample:
    """The counterexample, which must be there."""
    example = find_counterexample(removed, family=family)
    assert example is not None, f"nothing falls without {removed}"
    return example


@pytest.mark.parametrize("family", SMALL, ids=lambda family: family.name)
def test_every_property_can_fall(family: Family) -> None:
    """No property is one that nothing could break."""
    falls = {protection.breaks for protection in family.protections.values()}
    assert falls == set(family.properties)
    assert all(family.properties.values())


@pytest.mark.parametrize(
    ("family", "bounds"),
    [(LOCKS, replace(PAIR, crashes=1, expiries=1)), (GROUPS, replace(TWO, fails=1, crashes=1))],
    ids=["locks", "groups"],
)
def test_only_names_of_workers_are_merged(family: Family, bounds: Any) -> None:
    """Every state of the whole world has its stand-in in the reduced one, and no more."""
    world = family.build(bounds, ())
    whole, reduced = (family.search(world, merge) for merge in (False, True))
    every, fewer = whole.explore(), reduced.explore()
    assert {reduced.key(key) for key in every.keys} == set(fewer.keys)
    assert fewer.states < every.states


def test_two_claims_in_one_statement_each_both_win() -> None:
    """The race of design §7b, step by step: both look, then both lock, then both commit."""
    names = [action.name for action in found(LOCKS, "roots_before_check").actions]
    assert names == [
        "receive", "claim_check", "claim_root", "receive", "claim_check",
        "claim", "claim_root", "claim",
    ]  # fmt: skip


def test_an_exit_without_its_roots_loses_the_wake_up() -> None:
    """The waiter registers after the holder has looked for waiters."""
    names = [action.name for action in found(LOCKS, "exits_lock_roots").actions]
    assert names.index("complete") < len(names) - 1
    assert names[-1] == "register"


def test_two_exits_on_two_roots_free_one_waiter_between_them() -> None:
    """Each sees the other's job still running: so each must judge its own roots only."""
    example = found(LOCKS, "wake_judges_own_roots")
    names = [action.name for action in example.actions]
    assert names[-2:] == ["complete", "complete"]
    assert len({action.job for action in example.actions}) == 3


def test_readers_that_keep_coming_cannot_pass_a_waiting_writer() -> None:
    """A writer ranks before two readers: with the reservation none of them is claimed past it."""
    readers = replace(MIXED, locks=((write(0),), (read(0),), (read(0),)), releases=1)
    assert_holds(explored(LOCKS, readers))
    example = find_counterexample(["reservation"], worlds=[readers], family=LOCKS)
    assert example is not None
    assert example.broken == "rank_order_is_kept"


def test_the_command_explores_traces_and_walks_each_world(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "--world", "groups", "--bounds", "test"]) == 0
    assert "holds        all" in capsys.readouterr().out
    assert main(["trace", "--without", "roots_before_check"]) == 1
    said = capsys.readouterr().out
    assert "job 1: write root 0; job 2: read root 0" in said
    assert "BROKEN  no_two_holders" in said
    assert main(["trace", "--without", "zero_by_counter", "--json"]) == 1
    assert '"broken": "every_run_ends"' in capsys.readouterr().out
    assert main(["walk", "--world", "locks", "--seed", "3", "--steps", "200"]) == 0
    assert capsys.readouterr().out.endswith("ended\n")
    assert main(["explore", "--world", "groups", "--chunks", "3"]) == 2
    assert "the world of groups has no chunks" in capsys.readouterr().err
    assert main(["trace", "--world", "groups", "--without", "reservation"]) == 2

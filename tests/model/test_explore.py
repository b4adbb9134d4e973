"""The whole state space within bounds: everything holds, and every fair run ends."""

from dataclasses import replace

import pytest

from shared.model.ends import check_ends
from shared.model.explore import Explorer
from shared.model.families import EVERYTHING, FULL, QUIET
from shared.model.graph import Graph
from shared.model.model import Model
from shared.model.properties import PROPERTIES
from shared.model.protections import COURTESIES, without
from shared.model.state import Bounds

# The numbers in the page.
TEST_STATES = 73_364
FULL_STATES = 1_345_927


def assert_holds(graph: Graph) -> None:
    """Every property in every state, and the end of every fair run."""
    assert graph.complete
    assert graph.broken == {}
    ending = check_ends(graph)
    assert ending.endless is None
    # Nothing but messages and idle workers goes round, so whoever could always leave the round is
    # one and the same worker all along: fairness per action and fairness per worker are the same.
    assert ending.within <= {"receive", "put_off"}


def test_one_job_survives_every_kind_of_fault() -> None:
    """Crash, pause, duplicate, loss, doubt, cancel, failure and release, each once."""
    graph = Explorer(Model(EVERYTHING)).explore()
    assert_holds(graph)
    assert graph.states == TEST_STATES


@pytest.mark.parametrize(
    "bounds",
    [
        replace(QUIET, crashes=1, doubts=1, cancels=1, fails=1, max_attempts=2, releases=1),
        replace(QUIET, crashes=1, fails=1, redrives=1),
        replace(QUIET, doubts=1, copies=3, duplicates=2),
        replace(QUIET, chunks=3, doubts=2, crashes=1),
        replace(QUIET, workers=3, pauses=1, copies=1),
        replace(QUIET, jobs=2, twins=True, copies=1, crashes=1),
        replace(QUIET, jobs=3, copies=1),
    ],
    ids=["budgets", "redrive", "copies", "chunks", "three-workers", "twins", "three-jobs"],
)
def test_other_worlds_are_safe_and_end_as_well(bounds: Bounds) -> None:
    """Wider in one direction each, with fewer faults."""
    assert_holds(Explorer(Model(bounds)).explore())


@pytest.mark.long
def test_two_jobs_and_two_workers_survive_every_kind_of_fault() -> None:
    """The bounds that the page documents; a few minutes."""
    graph = Explorer(Model(FULL)).explore()
    assert_holds(graph)
    assert graph.states == FULL_STATES


@pytest.mark.parametrize("name", COURTESIES)
def test_nothing_depends_on_heartbeats_or_kept_messages(name: str) -> None:
    """What the design calls a courtesy can be left out: safety and end still hold."""
    model = Model(Bounds(copies=1), without(name))
    assert_holds(Explorer(model).explore())


@pytest.mark.parametrize(
    "bounds",
    [
        replace(QUIET, doubts=1, pauses=1, crashes=1, copies=1),
        replace(QUIET, cancels=1, fails=1, releases=1, crashes=1, copies=1),
        replace(QUIET, fails=1, redrives=1),
        replace(QUIET, jobs=2, copies=1),
    ],
    ids=["faults", "budgets", "redrive", "two-jobs"],
)
def test_the_reduction_leaves_out_no_state(bounds: Bounds) -> None:
    """Every state of the unreduced world has its stand-in in the reduced one, and no more."""
    model = Model(bounds)
    whole, reduced = Explorer(model, reduce=False), Explorer(model)
    every = whole.explore()
    fewer = reduced.explore()
    assert not every.broken
    assert {reduced.key(whole.state(key)) for key in every.keys} == set(fewer.keys)
    assert 2 * fewer.states < every.states


def test_the_same_exploration_finds_the_same_states() -> None:
    """Numbers in the page can be compared with a run of one's own."""
    first, second = (Explorer(Model(QUIET)).explore() for _ in range(2))
    assert first.keys == second.keys
    assert first.targets == second.targets


def test_every_property_has_its_words() -> None:
    assert all(words for words in PROPERTIES.values())
    assert "every_run_ends" in PROPERTIES

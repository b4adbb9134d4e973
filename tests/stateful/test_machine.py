"""The protocol under any sequence of steps: what the model says happens, and nothing else."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.services import Database
from tests.stateful.machine import OPENINGS, ProtocolMachine
from tests.stateful.world import World

EVERY_DAY = settings(
    max_examples=5,
    stateful_step_count=20,
    deadline=None,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    # To explain a failure takes many more runs than to shrink it, and its steps say more.
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LONG = settings(EVERY_DAY, max_examples=600, stateful_step_count=50)


REACHED = frozenset(
    {
        "commit: won",
        "commit: lost",
        "an exit came to nothing: lost",
        "taken over",
        "submit: follow_up",
        "follow-up born of succeeded",
        "follow-up born of cancelled",
        "follow-up born of dead",
        "failed: dead",
        "cleaned up",
        "redrive: Redriven",
    }
)


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    """A database with the probes, on a loop of its own."""
    opened = World(database)
    yield opened
    opened.close()


def run(world: World, chosen: settings, begins: str | None = None, number: int = 0) -> None:
    """Run the machine in this world; a failure is shrunk and printed step by step."""

    class Machine(ProtocolMachine):
        opening = begins

        def __init__(self) -> None:
            super().__init__(world)

    run_state_machine_as_test(seed(number)(Machine) if begins else Machine, settings=chosen)


def test_any_sequence_of_steps_keeps_the_protocol(world: World) -> None:
    """The same sequences every day, some from each opening; what they must reach, they reach."""
    for number, opening in enumerate(OPENINGS):
        run(world, EVERY_DAY, opening, number)
    assert world.seen.keys() >= REACHED, REACHED - world.seen.keys()


@pytest.mark.long
def test_many_sequences_of_steps_keep_the_protocol(world: World) -> None:
    """New sequences each time; a failure prints its steps and the blob that repeats it."""
    run(world, LONG)

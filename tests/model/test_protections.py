"""The checker can fail: take any one protection away, and a named property falls."""

from dataclasses import replace

import pytest

from shared.model.explore import Explorer
from shared.model.families import QUIET, WORLDS
from shared.model.model import Model
from shared.model.properties import PROPERTIES
from shared.model.protections import PROTECTIONS, without
from shared.model.simulation import Simulation
from shared.model.trace import Counterexample, find_counterexample, told

# Where one layer stands behind another, it takes both to reach the books.
TOGETHER = {
    "one_owner": (["fence_compares_fence"],),
    "effect_once": (["settle_doubt", "fence_compares_checkpoint"],),
    "fences_only_grow": (["fence_compares_fence", "fence_compares_checkpoint"],),
}


def found(removed: list[str], broken: str | None = None) -> Counterexample:
    """The counterexample, which must be there."""
    example = find_counterexample(removed, broken)
    assert example is not None, f"nothing falls without {removed}"
    return example


@pytest.mark.parametrize("name", PROTECTIONS)
def test_without_one_protection_the_property_it_guards_falls(name: str) -> None:
    """A counterexample is found, is told, and when it is played again it breaks the same."""
    example = found([name])
    assert example.broken == PROTECTIONS[name].breaks
    assert list(told(example))[-1].startswith(f"BROKEN  {example.broken}")
    played = Simulation.of(example)
    played.replay(example.actions[:-1])
    if example.broken != "every_run_ends":
        assert all(entry["broken"] != example.broken for entry in played.trace)
    played.replay(example.actions[-1:])
    if example.broken == "every_run_ends":
        assert played.broken is None
        assert not played.ended
    else:
        assert played.trace[-1]["broken"] == example.broken


@pytest.mark.parametrize("broken", TOGETHER)
def test_layers_behind_each_other_fall_together(broken: str) -> None:
    for removed in TOGETHER[broken]:
        assert found(removed, broken).broken == broken


@pytest.mark.parametrize("name", ["settle_doubt", "fence_compares_checkpoint"])
def test_one_layer_of_two_still_keeps_effects_single(name: str) -> None:
    """Without one of the two a worker may err, but it commits nothing twice."""
    graph = Explorer(Model(replace(QUIET, doubts=1, crashes=1), without(name))).explore()
    assert set(graph.broken) == {"the_owner_knows"}


def test_every_property_can_fall() -> None:
    """No property is one that nothing could break."""
    falls = {protection.breaks for protection in PROTECTIONS.values()} | set(TOGETHER)
    assert falls == set(PROPERTIES)


def test_a_trace_is_the_shortest_one() -> None:
    """The zombie's write: claim, expiry, reaping, second claim, late commit; not a step more."""
    example = found(["fence_compares_fence"])
    names = [action.name for action in example.actions]
    assert names == [
        "submit", "relay_publish", "receive", "claim", "read_input", "expire",
        "reap", "relay_publish", "receive", "claim", "commit_chunk",
    ]  # fmt: skip
    assert {action.worker for action in example.actions if action.worker is not None} == {0, 1}


def test_with_every_protection_no_world_has_a_counterexample() -> None:
    assert find_counterexample([], worlds=WORLDS[:4]) is None


def test_a_misspelt_protection_is_refused() -> None:
    """It must not pass for one that is not needed."""
    with pytest.raises(ValueError, match="no such protection: fence"):
        find_counterexample(["fence"])

"""The simulation: by hand, at random, along a counterexample; the same seed, the same run."""

import json

import pytest

from shared.model.__main__ import main
from shared.model.families import FULL, QUIET
from shared.model.protections import without
from shared.model.simulation import Simulation
from shared.model.state import Bounds
from shared.model.trace import Action, find_counterexample


def action(name: str, worker: int | None = None, job: int | None = 0) -> Action:
    return Action(name=name, worker=worker, job=job)


def test_one_job_taken_by_hand_from_submit_to_succeeded() -> None:
    played = Simulation(QUIET)
    played.replay(
        [
            action("submit"),
            action("relay_publish"),
            action("receive", 0),
            action("claim", 0),
            action("read_input", 0),
            action("commit_chunk", 0),
            action("complete", 0),
            action("delete_message", 0),
        ]
    )
    job = played.state["jobs"][0]
    assert (job["state"], job["fence"], job["open_attempts"]) == ("succeeded", 1, [])
    assert job["effects"] == [{"chunk": 1, "fences": [1]}, {"chunk": 2, "fences": [1]}]
    assert played.ended
    assert played.broken is None


def test_two_runs_of_one_seed_are_one_and_the_same() -> None:
    first, second, other = (Simulation(FULL, seed=seed) for seed in (7, 7, 8))
    taken = first.walk(80)
    assert taken == second.walk(80)
    assert first.trace == second.trace
    assert first.state == second.state
    assert taken != other.walk(80)


@pytest.mark.parametrize("seed", range(20))
def test_no_random_walk_breaks_a_property(seed: int) -> None:
    walked = Simulation(FULL, seed=seed)
    for _ in range(120):
        walked.walk(1)
        assert walked.broken is None, walked.trace
        json.dumps(walked.state)


def test_enabled_actions_are_taken_and_others_are_refused() -> None:
    played = Simulation(QUIET)
    assert played.enabled() == [action("submit")]
    with pytest.raises(ValueError, match="claim is not possible now"):
        played.step(action("claim", 0))
    assert played.step(played.enabled()[0]) == action("submit")
    assert played.state["outbox"] == ["job 1"]
    assert played.trace[0]["implements"] == "shared.jobs.enqueue.enqueue"


def test_without_the_fence_the_page_can_show_the_double_write() -> None:
    """Played step by step: a zombie, then the same chunk under two fences."""
    removed = ["fence_compares_fence", "fence_compares_checkpoint"]
    example = find_counterexample(removed, "fences_only_grow")
    assert example is not None
    played = Simulation.of(example)
    zombies = 0
    for each in example.actions:
        played.step(each)
        zombies += sum(worker["zombie"] for worker in played.state["workers"])
    assert zombies
    assert sorted(played.state["jobs"][0]["effects"][0]["fences"]) == [1, 2]
    assert [each["property"] for each in played.state["broken"]][-1] == "fences_only_grow"


def test_a_walk_without_the_fence_breaks_something() -> None:
    removed = without("fence_compares_fence", "fence_compares_checkpoint")
    broken = set()
    for seed in range(60):
        walked = Simulation(Bounds(releases=2), removed, seed=seed)
        walked.walk(80)
        broken.add(walked.broken)
    assert broken & {"one_owner", "only_the_owner_writes", "fences_only_grow", "effect_once"}


def test_explore_prints_its_numbers_and_answers_by_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--jobs", "1", "--crashes", "0", "--pauses", "0", "--cancels", "0", "--fails", "0"]
    assert main(["explore", *few]) == 0
    printed = capsys.readouterr().out
    assert "states" in printed
    assert "transitions" in printed
    assert "holds        all" in printed
    assert main(["explore", *few, "--without", "exit_closes_attempt"]) == 1
    assert "BROKEN       attempts_are_closed" in capsys.readouterr().out


def test_trace_prints_the_way_and_walk_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--without", "reconciler"]) == 1
    assert "SQS loses job 1's message" in capsys.readouterr().out
    assert main(["trace", "--without", "fence_compares_state", "--json"]) == 1
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert steps[-1]["broken"] == "terminal_is_final"
    assert main(["walk", "--seed", "3"]) == 0
    assert "  1  " in capsys.readouterr().out
    assert main(["trace"]) == 2
    assert main(["trace", "--without", "nothing_of_ours"]) == 2
    assert "no such protection" in capsys.readouterr().err

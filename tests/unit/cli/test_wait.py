import json
from typing import Any

import pytest

from api.example_bodies import SUBMITTED
from shared.cli import run
from shared.cli.progress import Pace
from tests.unit.cli.conftest import Peer, job

Said = tuple[int, dict[str, Any], dict[str, str]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.cli.wait.LEAST_SECONDS", 0.001)


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("dead", 1), ("cancelled", 6)])
def test_the_exit_code_tells_how_the_job_ended(peer: Peer, state: str, code: int) -> None:
    peer.say(200, job("pending"))
    peer.say(200, job("running"))
    peer.say(200, job(state))
    assert run(["wait", "0190-job"]) == code


@pytest.mark.parametrize(
    ("outcome", "code"), [("completed_with_errors", 1), ("succeeded", 0), ("nothing_to_do", 0)]
)
@pytest.mark.parametrize(
    "words", [["wait", "0190-job"], ["submit", "k", "--company", "C", "--wait"]]
)
def test_what_was_done_in_part_only_is_not_done(
    peer: Peer, words: list[str], outcome: str, code: int
) -> None:
    """A posting of which some documents were refused, a costing of which items failed."""
    if words[0] == "submit":
        peer.say(202, dict(SUBMITTED))
    peer.say(200, job("succeeded", result={"outcome": outcome}))
    assert run(words) == code


def test_a_job_that_takes_too_long_is_left_alone_with_124(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, job("running"))
    assert run(["wait", "0190-job", "--timeout", "0.05"]) == 124
    said = capsys.readouterr().err
    assert "it goes on" in said
    assert "`chot why 0190-job`" in said
    assert {asked.method for asked in peer.asked} == {"GET"}


def test_without_a_terminal_a_line_says_what_changed(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change of state or owner is a line; the same again is none."""
    peer.say(200, job("running"))
    peer.say(200, job("running"))
    peer.say(200, job("running", attempt=2, fence=2))
    peer.say(200, job("succeeded", attempt=2, fence=2))
    assert run(["wait", "0190-job"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "running, attempt 1, fence 1",
        "running, attempt 2, fence 2",
        "succeeded, attempt 2, fence 2",
    ]
    assert "10/40 items (25%)" in lines[0]


def test_a_job_that_does_not_begin_says_what_keeps_it(
    peer: Peer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once after some seconds, said in commands; where it cannot be asked nothing is said."""
    monkeypatch.setattr("shared.cli.wait.ASKED_AFTER_SECONDS", 0.0)
    paused = "queue costing is paused: POST /v1/queues/costing/resume lets it go on"
    waiting: Said = (200, job("pending", progress=None), {})
    told: Said = (200, {"sentence": paused}, {})
    cases: tuple[tuple[Said, str], ...] = (
        (told, "pending, attempt 1, fence 1  queue costing is paused: "),
        ((404, {"title": "no such route"}, {}), "pending, attempt 1, fence 1"),
    )
    for why, line in cases:
        peer.asked.clear()
        peer.script = [waiting, waiting, why, waiting, (200, job("succeeded"), {})]
        assert run(["wait", "0190-job"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [asked.path.partition("?")[0] for asked in peer.asked].count(
            "/v1/jobs/0190-job/why"
        ) == 1
        assert lines[-2].startswith(line)
        assert ("`chot resume costing`" in lines[-2]) is (why[0] == 200)
        assert len(lines) == (3 if why[0] == 200 else 2)
    peer.script = [waiting, waiting, (200, job("succeeded"), {})]
    assert run(["wait", "0190-job", "--json"]) == 0


def test_json_is_the_final_job_and_nothing_else(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, job("running"))
    peer.say(200, job("dead", error={"code": "PERIOD_CLOSED", "message": "2026-01 is closed"}))
    assert run(["wait", "0190-job", "--json"]) == 1
    written = capsys.readouterr()
    assert json.loads(written.out)["error"]["code"] == "PERIOD_CLOSED"
    assert written.err == ""


def test_submit_and_wait_is_one_command(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Which needs no advice on how to wait; without --wait there is some."""
    peer.say(202, {"id": "0190-job", "created": True})
    peer.say(200, job("dead"))
    assert run(["submit", "k", "--company", "ACME", "--wait"]) == 1
    assert "chot wait" not in capsys.readouterr().err
    peer.script = [(202, {"id": "0190-job", "created": True}, {})]
    assert run(["submit", "k", "--company", "ACME"]) == 0
    assert "`chot wait 0190-job` follows it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["wait", "0190-job"], ["submit", "k", "--company", "C", "--wait"]]
)
def test_ctrl_c_says_that_the_job_goes_on(
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    if words[0] == "submit":
        peer.say(202, {"id": "0190-job", "created": True})
    peer.say(200, job("running"))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shared.cli.wait.time.sleep", interrupt)
    assert run(words) == 130
    said = capsys.readouterr().err
    assert "job 0190-job goes on" in said
    assert "`chot wait 0190-job`" in said
    assert "`chot cancel 0190-job`" in said


def test_the_pace_is_of_the_last_seconds() -> None:
    """A job that idled for an hour and now moves has the pace it has now."""
    pace = Pace()
    pace.add(0, 0.0)
    pace.add(0, 3600.0)
    pace.add(100, 3601.0)
    pace.add(400, 3604.0)
    assert pace.rate == 100.0


def test_a_new_owner_has_a_pace_of_its_own() -> None:
    """The dead time of a lost lease says nothing of how fast the next one is."""
    pace = Pace()
    pace.add(10, 0.0, fence=1)
    pace.add(10, 30.0, fence=2)
    pace.add(12, 34.0, fence=2)
    assert pace.rate == 0.5


def test_progress_that_falls_back_starts_the_pace_anew() -> None:
    """A new owner begins at the last checkpoint, behind what the old one had reported."""
    pace = Pace()
    pace.add(500, 0.0)
    pace.add(900, 1.0)
    pace.add(600, 2.0)
    assert pace.rate == 0.0
    pace.add(700, 3.0)
    assert pace.rate == 100.0

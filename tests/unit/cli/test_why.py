"""`chot why`, and the pace that status, bar and lines show."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.cli import run, show
from shared.cli.progress import Pace, facts
from shared.cli.words import in_commands
from shared.jobs.words import error_words
from tests.unit.cli.conftest import Peer, job

WHY: dict[str, Any] = {
    "id": "0190-job",
    "state": "pending",
    "reason": "slots-busy",
    "sentence": "The job's message is in SQS, and all 4 slots were busy; it starts in its turn.",
    "queue_paused": False,
    "error": None,
    "workers": {"live": 1, "slots": 4000},
    "owner": None,
}


def test_the_sentence_comes_first_and_then_the_facts(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups by their names; what is not known is not told."""
    peer.say(200, WHY)
    assert run(["why", "0190-job"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0] == WHY["sentence"]
    told = dict(line.split(maxsplit=1) for line in lines[1:] if ":" not in line)
    assert (told["state"], told["reason"]) == ("pending", "slots-busy")
    assert any(line.split() == ["workers:", "slots", "4,000"] for line in lines)
    assert any(line.split() == ["queue", "paused", "no"] for line in lines)
    assert "owner" not in told
    assert peer.asked[0].path == "/v1/jobs/0190-job/why"


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("Queue a-b.c is paused; POST /v1/queues/a-b.c/resume lets", "; `chot resume a-b.c` lets"),
        ("It died; POST /v1/jobs/019a-1/redrive tries it", "; `chot redrive 019a-1` tries it"),
        ("result is in GET /v1/jobs/019a-1.", "is in `chot status 019a-1`."),
        ("The books of company A are frozen; POST /v1/books/thaw lets", "; `chot thaw A` lets"),
        (
            "The books of brand R of company A are frozen; POST /v1/books/thaw lets",
            "; `chot thaw A --brand R` lets",
        ),
    ],
)
def test_what_to_do_is_said_in_commands(
    peer: Peer, capsys: pytest.CaptureFixture[str], said: str, command: str
) -> None:
    """With --json the api's own words."""
    peer.say(200, WHY | {"sentence": said})
    assert run(["why", "0190-job"]) == 0
    shown = capsys.readouterr().out
    assert command in shown
    assert "/v1/" not in shown
    assert run(["why", "0190-job", "--json"]) == 0
    assert "/v1/" in capsys.readouterr().out


def test_no_sentence_of_the_api_is_left_in_words_of_http() -> None:
    """Except for what this command line has no word for."""
    source = (Path(__file__).parents[3] / "shared/jobs/words.py").read_text()
    requests = re.findall(r"(?:POST|GET) /v1/[^\s\"`;.,]+", source.replace("{row['id']}", "ID"))
    requests = [re.sub(r"\{\w+\}", "q", each) for each in requests]
    assert len(requests) >= 3
    assert [each for each in requests if "/v1/" in in_commands(each)] == []


@pytest.mark.parametrize("message", ["PERIOD_CLOSED: 2026-01 is closed", "2026-01 is closed"])
def test_an_errors_code_is_said_once(message: str) -> None:
    error = {"code": "PERIOD_CLOSED", "message": message}
    assert error_words(error) == "PERIOD_CLOSED: 2026-01 is closed"


def test_an_error_that_nobody_meant_is_said_with_its_type() -> None:
    """The message of a KeyError is a key: alone it says nothing."""
    error = {"code": "FAILED", "type": "KeyError", "message": "'store 17'"}
    assert error_words(error) == "FAILED: KeyError: 'store 17'"
    assert error_words(error | {"type": "PermanentError"}) == "FAILED: 'store 17'"


def test_json_is_what_the_api_said(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(200, WHY)
    assert run(["why", "0190-job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == WHY


def test_a_job_that_is_not_there_is_exit_code_3(peer: Peer) -> None:
    peer.say(404, {"type": "https://chot.example/problems/job-not-found", "detail": "unknown"})
    assert run(["why", "0190-job"]) == 3


def paced(**progress: Any) -> dict[str, Any]:
    """A running job whose api tells its pace."""
    known = {"done": 10, "total": 40, "unit": "items", "message": "", "moved_at": None}
    return job("running", progress=known | {"rate": None, "eta": None} | progress)


def test_the_pace_is_the_apis_own() -> None:
    """Known at the first look, and not guessed at where the api says that it is not known."""
    eta = (datetime.now(UTC) + timedelta(seconds=90.9)).isoformat()
    assert facts(paced(rate=1500.0, eta=eta), Pace()) == (
        "10/40 items (25%), 1,500/s, 1 min 30 s left"
    )
    seen = Pace()
    seen.add(0, 0.0)
    seen.add(10, 1.0)
    assert facts(paced(), seen) == "10/40 items (25%)"
    assert facts(job("running"), seen) == "10/40 items (25%), 10/s, 3.0 s left"


def test_a_time_that_has_passed_is_not_told() -> None:
    past = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    assert show.pace(paced(rate=2.0, eta=past)) == "2.0/s"


@pytest.mark.parametrize(
    ("rate", "said"), [(1500.4, "1,500/s"), (10.0, "10/s"), (3.25, "3.2/s"), (0.00421, "0.0042/s")]
)
def test_a_rate_keeps_what_tells_it_from_nothing(rate: float, said: str) -> None:
    assert show.rate(rate) == said


def test_status_shows_the_pace(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(200, paced(rate=12.0))
    assert run(["status", "0190-job"]) == 0
    assert "12/s" in capsys.readouterr().out

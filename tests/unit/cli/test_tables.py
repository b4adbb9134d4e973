"""Tables on a narrow terminal: what one needs to act upon is never cut."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from shared.cli import run, show
from shared.cli.tables import table
from tests.unit.cli.conftest import Peer, job

ID = "019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f"
WHY = "period 2026-01 of SAMPLE/LUA is closed; open it, or run the job for a period that is open"
ERROR = {"code": "PERIOD_CLOSED", "type": "PermanentError", "message": WHY}
REASON = f"PERIOD_CLOSED: {WHY}"
NOW = datetime.now().astimezone()
WHOLE: dict[str, Any] = {
    "id": ID,
    "brand": "LUA",
    "attempt": 3,
    "lost_leases": 1,
    "created_at": NOW.isoformat(),
    "started_at": NOW.isoformat(),
    "finished_at": NOW.isoformat(),
    "error": ERROR,
}
ATTEMPT = {
    "attempt": 1,
    "fence": 12,
    "worker_id": "ip-10-0-3-117.ap-southeast-1.compute.internal-1-5f6e",
    "started_at": NOW.isoformat(),
    "ended_at": NOW.isoformat(),
    "outcome": "lost_lease",
    "error": ERROR,
}
MESSAGE = {
    "id": 7,
    "queue": "costing",
    "reason": "it has no job_id",
    "created_at": NOW.isoformat(),
    "body": "???",
}
ACT = {
    "at": NOW.isoformat(),
    "action": "dead_letters.redrive",
    "principal": "operations-night-shift",
    "key_id": "3f9a1c0b7d52",
    "approver": "controller",
    "source": "10.0.3.117",
    "job_id": ID,
    "target": None,
    "company": "SAMPLE",
    "brand": "LUA",
    "facts": {"reason": "the period was opened again by the controller on Monday"},
}
REFUSED = {"title": "no", "errors": [{"field": "jobs[0].brand", "rule": WHY}]}
SHOWN: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {
    "list": (
        ["list"],
        {"jobs": [job("succeeded", **WHOLE)], "next_cursor": None},
        [ID, "costing.run", "ACME/LUA", "succeeded", "10/40 items (25%)"],
    ),
    "dead letters": (
        ["dead-letters"],
        {"jobs": [job("dead", **WHOLE)], "messages": [MESSAGE]},
        [ID, "costing.run", REASON, "costing", "it has no job_id", "???"],
    ),
    "attempts": (
        ["status", ID],
        job("dead", **WHOLE | {"attempts": [ATTEMPT], "error": None}),
        ["lost_lease", REASON, "12"],
    ),
    "audit": (
        ["audit"],
        {"acts": [ACT], "next_cursor": None},
        [
            "target",
            ID,
            "dead_letters.redrive",
            "operations-night-shift (3f9a1c0b7d52)",
            "approved by controller",
            "reason=the period was opened again by the controller on Monday",
        ],
    ),
}


@pytest.fixture(params=[80, 100, 129, 200])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of that width, whose colours are not looked at."""
    found: int = request.param
    monkeypatch.setattr(show, "console", lambda: Console(width=found, highlight=False))
    return found


def words(text: str) -> str:
    """A text as a reader puts it together again, wherever its lines were broken."""
    return " ".join(text.split())


@pytest.mark.parametrize("case", SHOWN)
def test_nothing_that_one_acts_upon_is_cut(
    peer: Peer, capsys: pytest.CaptureFixture[str], width: int, case: str
) -> None:
    asked, answer, whole = SHOWN[case]
    peer.say(200, answer)
    assert run(asked) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    if width < 130:  # wider ones may break a reason inside its column
        assert [each for each in whole if each not in words(shown)] == []
    else:
        assert [each for part in whole for each in part.split() if each not in shown] == []


def test_refused_lines_keep_their_reason(
    peer: Peer, capsys: pytest.CaptureFixture[str], width: int, tmp_path: Any
) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("{}\n")
    peer.say(200, {"jobs": [{"outcome": "error", "error": REFUSED}]})
    assert run(["submit-batch", str(file)]) == 4
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    assert [each for each in WHY.split() if each not in shown] == []


def test_a_pipe_gets_a_line_for_a_row(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its length, and without blanks at its end: something else reads it."""
    long = f"{REASON} {'again ' * 2000}".strip()
    peer.say(200, {"jobs": [job("dead", **WHOLE | {"error": long})], "messages": []})
    assert run(["dead-letters"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [ID in row and long in row for row in rows].count(True) == 1
    assert len(rows) == 3
    assert [row for row in rows if row != row.rstrip()] == []


def test_a_row_that_fits_no_terminal_is_broken_between_words() -> None:
    console = Console(width=60, highlight=False)
    kind = "a-kind-with-a-name-of-its-own"
    with console.capture() as captured:
        console.print(table("", ("id", "kind", "state"), [(ID, kind, "succeeded")]))
    lines = captured.get().splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert {ID, kind, "succeeded"} <= set(captured.get().split())


def test_brackets_in_a_value_are_its_own() -> None:
    console = Console(width=200, highlight=False)
    with console.capture() as captured:
        console.print(table("", ("why",), [("'[red]' is no [store]",)]))
    assert "'[red]' is no [store]" in captured.get()


def test_of_today_the_time_is_enough() -> None:
    noon = NOW.replace(hour=12, minute=0, second=0)
    assert show.clock(noon.isoformat()) == "12:00:00"
    before = noon - timedelta(days=1)
    assert show.clock(before.isoformat()) == before.strftime("%Y-%m-%d 12:00:00")
    assert show.clock(None) == ""

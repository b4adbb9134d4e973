"""What others wrote reaches a terminal as text: no markup, no sequence that steers it."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from shared.cli import run
from shared.cli.plain import json_text, visible, visible_lines
from shared.cli.progress import LiveBar
from tests.unit.cli.conftest import Peer, job

ESC, CSI = "\x1b", "\x9b"
# Markup that ends what nobody began, that would be swallowed, and what clears a screen.
BAD = f"[/x] [store] [red]{ESC}[2J{CSI}2J\u202e\u2028\x07\ud800 ü"
SHOWN = r"[/x] [store] [red]\x1b[2J\x9b2J\u202e\u2028\x07\ud800 ü"


def dead(**more: Any) -> dict[str, Any]:
    """A dead job whose every word is somebody's."""
    at = "2026-01-31T00:00:00Z"
    error = {"code": "X", "message": BAD}
    attempt = {"attempt": 1, "fence": 1, "worker_id": BAD, "outcome": "failed", "error": error}
    progress = {"done": 1, "total": 2, "unit": BAD, "message": BAD}
    times = {"started_at": at, "finished_at": at, "created_at": at}
    words = {"kind": BAD, "company": BAD, "brand": BAD, "result": {BAD: BAD}, "error": error}
    attempts = [attempt | {"started_at": at, "ended_at": at}]
    return job("dead", **times, **words, progress=progress, attempts=attempts) | more


ACT = {
    "at": "2026-01-31T00:00:00Z",
    "action": BAD,
    "principal": BAD,
    "key_id": BAD,
    "approver": BAD,
    "source": BAD,
    "job_id": None,
    "target": BAD,
    "company": BAD,
    "brand": None,
    "facts": {BAD: BAD},
}
MESSAGE = {"id": 1, "queue": BAD, "created_at": ACT["at"], "reason": BAD, "body": BAD}
COMMANDS: dict[str, tuple[list[str], int, dict[str, Any]]] = {
    "status": (["status", "x"], 200, dead()),
    "wait": (["wait", "x"], 200, dead()),
    "cancel": (["cancel", "x"], 200, job(BAD)),
    "list": (["list"], 200, {"jobs": [dead()], "next_cursor": None}),
    "why": (["why", "x"], 200, {"sentence": BAD, "state": BAD, "owner": {"worker": BAD}}),
    "dead-letters": (["dead-letters"], 200, {"jobs": [dead()], "messages": [MESSAGE]}),
    "redrive": (
        ["redrive", "--all"],
        200,
        {
            "redriven": [],
            "refused": [{"id": BAD, "detail": BAD, "reason": BAD}],
            "next_cursor": None,
        },
    ),
    "audit": (["audit"], 200, {"acts": [ACT], "next_cursor": None}),
    "problem": (["status", "x"], 404, {"title": BAD, "detail": BAD}),
    "fields": (
        ["status", "x"],
        422,
        {"title": BAD, "errors": [{"field": BAD, "rule": BAD, "value": BAD}]},
    ),
    "submit": (["submit", "k", "--company", "C"], 202, {"id": BAD, "duplicate": None}),
}


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_a_job_steers_the_terminal(
    peer: Peer, capsys: pytest.CaptureFixture[str], name: str, form: list[str]
) -> None:
    """Nothing is swallowed, nothing raises, and with --json the document says what was said."""
    words, status, body = COMMANDS[name]
    peer.say(status, body)
    assert run([*words, *form]) in {0, 1, 3, 4, 5}
    written = capsys.readouterr()
    both = written.out + written.err
    assert not set(both) & set(f"{ESC}{CSI}\u202e\u2028\x07\ud800")
    both.encode()
    if not form:
        assert SHOWN in both.replace("\\\\", "\\")
    elif status < 300 and name not in {"redrive", "list", "audit", "submit"}:
        assert json.loads(written.out) == body


def test_the_bar_takes_no_markup_and_no_sequence() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with LiveBar(console) as bar:
        bar.show(dead() | {"state": BAD})
        bar.say(BAD)
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert f"{ESC}[2J" not in drawn
    assert drawn.count(r"[store] [red]\x1b[2J") >= 3


def test_lines_of_our_own_stay_lines() -> None:
    assert visible("a\nb\tc\r") == r"a\nb\tc\r"
    assert visible_lines("a\nb\x85c\x7f") == "a\nb\\x85c\\x7f"


def test_json_keeps_its_meaning() -> None:
    document = {"a": BAD, "b": [1, {"ü": "\x7f"}]}
    for indent in (None, 2):
        written = json_text(document, indent=indent)
        assert json.loads(written) == document
        written.encode()
        assert not set(written) & set(f"{ESC}{CSI}\x7f\u202e\ud800")
        assert "ü" in written

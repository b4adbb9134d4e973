"""`chot group`: what it asks for, what it prints, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.cli import run
from tests.unit.cli.conftest import Peer

ID = "019a8f3e-9c0d-7e1f-8a2b-3c4d5e6f7a8b"


def group(**more: Any) -> dict[str, Any]:
    """A group as the api shows it."""
    return {
        "id": ID,
        "company": "ACME",
        "brand": None,
        "state": "sealed",
        "policy": "finish",
        "outcome": None,
        "generation": 1,
        "total": 1200,
        "remaining": 3,
        "succeeded": 1196,
        "dead": 1,
        "cancelled": 0,
        "join": {"id": "the-join", "state": "pending", "status_url": "/v1/jobs/the-join"},
        **more,
    }


def test_a_group_is_opened_with_its_join(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Its id alone on stdout, for the commands that follow."""
    peer.say(201, group(state="open"))
    words = ["group", "open", "--company", "ACME", "--policy", "join", "--join", "a.b", "day=7"]
    assert run(words) == 0
    assert capsys.readouterr().out == f"{ID}\n"
    asked = peer.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/groups")
    assert json.loads(asked.body) == {
        "company": "ACME",
        "policy": "join",
        "join": {"kind": "a.b", "payload": {"day": "7"}},
    }
    assert asked.headers["idempotency-key"].startswith("group-")


def test_a_payload_without_a_join_is_a_wrong_command(peer: Peer) -> None:
    """Nothing is sent."""
    assert run(["group", "open", "--company", "ACME", "day=7"]) == 2
    assert peer.asked == []


def test_lines_are_appended_under_keys_of_their_content(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command again has the same key; a refused line is told by its number."""
    file = tmp_path / "jobs"
    file.write_text('{"kind": "a.b"}\n\n{"kind": "a.c"}\n')
    items = [
        {"outcome": "created", "job": {"id": "x"}},
        {"outcome": "error", "error": {"detail": "the kind is unknown"}},
    ]
    peer.say(200, {"jobs": items})
    assert run(["group", "append", ID, str(file)]) == 4
    shown = capsys.readouterr()
    assert "line 3: the kind is unknown" in shown.out
    assert "1 appended, 0 were members already, 1 refused" in shown.err
    assert run(["group", "append", ID, str(file), "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["outcomes"], told["refused"][0]["line"]) == ({"created": 1, "error": 1}, 3)
    first, second = peer.asked
    assert first.path == f"/v1/groups/{ID}/jobs:batch"
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_what_an_earlier_run_has_appended_is_told_apart(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stored answer appends nothing now; of one asked for twice nobody knows."""
    file = tmp_path / "jobs"
    file.write_text('{"kind": "a.b"}\n')
    answer = {"jobs": [{"outcome": "created", "job": {"id": "x"}}]}
    peer.say(200, answer, Idempotency_Replayed="true")
    assert run(["group", "append", ID, str(file)]) == 0
    assert "0 appended now, 1 appended by an earlier run" in capsys.readouterr().err
    assert run(["group", "append", ID, str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["earlier"] == 1
    peer.script = [None, (200, answer, {"Idempotency-Replayed": "true"})]
    assert run(["group", "append", ID, str(file)]) == 0
    assert "0 appended now, 1 appended by an earlier request" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["seal", "cancel", "redrive", "status"])
def test_an_act_shows_the_group(peer: Peer, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """How far it is as a whole, in one look."""
    peer.say(200, group())
    assert run(["group", verb, ID]) == 0
    shown = capsys.readouterr().out
    assert "1,200 jobs: 3 to end, 1,196 succeeded, 1 dead" in shown
    assert "join the-join pending" in shown
    assert "generation 1\n" in shown
    rest = "" if verb == "status" else f"/{verb}"
    assert peer.asked[0].path == f"/v1/groups/{ID}{rest}"


@pytest.mark.parametrize(("outcome", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 6)])
def test_a_wait_ends_as_the_group_does(
    peer: Peer, capsys: pytest.CaptureFixture[str], outcome: str, code: int
) -> None:
    """Told on the way, on stderr."""
    peer.say(200, group())
    peer.say(200, group(state="ended", outcome=outcome, remaining=0, join=None))
    assert run(["group", "wait", ID]) == code
    shown = capsys.readouterr()
    assert "1,197 of 1,200 ended" in shown.err
    assert outcome in shown.out


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("dead", 1), ("cancelled", 6)])
def test_a_wait_is_for_the_join_too(
    peer: Peer, capsys: pytest.CaptureFixture[str], state: str, code: int
) -> None:
    """The group has succeeded, and what was asked for is what its join does."""
    for join in ("pending", "running", state):
        ended = group(state="ended", outcome="succeeded", remaining=0)
        peer.say(200, ended | {"join": ended["join"] | {"state": join}})
    assert run(["group", "wait", ID]) == code
    shown = capsys.readouterr()
    assert "1,200 of 1,200 ended, join the-join running" in shown.err
    assert f"join the-join {state}" in shown.out


def test_a_join_that_is_in_no_archive_any_more_is_waited_for_by_nobody(peer: Peer) -> None:
    """What the group knows itself is its end."""
    ended = group(state="ended", outcome="failed", remaining=0)
    peer.say(200, ended | {"join": ended["join"] | {"state": None}})
    assert run(["group", "wait", ID]) == 1


def test_a_wait_whose_join_is_late_says_so(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no cancel of a group that has ended."""
    peer.say(200, group(state="ended", outcome="succeeded", remaining=0))
    assert run(["group", "wait", ID, "--timeout", "0"]) == 124
    said = capsys.readouterr().err
    assert "`chot why the-join` says" in said
    assert "cancel" not in said


def test_a_wait_ends_in_its_time(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """The group goes on."""
    peer.say(200, group())
    assert run(["group", "wait", ID, "--timeout", "0"]) == 124
    assert f"chot group cancel {ID}" in capsys.readouterr().err


def test_a_list_of_a_groups_jobs(peer: Peer) -> None:
    """By the group's id."""
    peer.say(200, {"jobs": [], "next_cursor": None})
    assert run(["list", "--group", ID]) == 0
    assert f"group={ID}" in peer.asked[0].path


def test_an_approval_of_a_group_is_told_in_commands(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which command another account runs, and which one then follows."""
    problem = {
        "type": "https://chot.example/problems/approval-required",
        "title": "Another account has to approve this",
        "status": 403,
        "action": "group.redrive",
        "target": ID,
        "reason": "missing",
    }
    peer.say(403, problem)
    assert run(["group", "redrive", ID]) == 4
    said = capsys.readouterr().err
    assert f"chot approve group.redrive {ID}" in said
    assert f"chot group redrive {ID} --approval" in said

"""`chot migrations`: what it asks for, what it prints, and its exit codes."""

import json

import pytest

from api.migration_examples import FULL_MIGRATION, MIGRATION, PAUSED, REJECT
from shared.cli import run, show
from shared.cli.words import in_commands
from tests.unit.cli.conftest import Peer, job

ID = MIGRATION["id"]


def test_migrations_are_listed_to_the_limit(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Page by page; one that waits says what for, one that is paused that it is."""
    waits = MIGRATION | {"waits_for": "books.documents is being vacuumed"}
    peer.say(200, {"migrations": [waits], "next_cursor": "x"})
    peer.say(200, {"migrations": [MIGRATION | {"paused": True}], "next_cursor": "y"})
    assert run(["migrations", "list", "--company", "SAMPLE", "--limit", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("movements.backfill") == 2
    assert "is being vacuumed" in shown.out
    assert "paused" in shown.out
    assert "--limit 4" in shown.err
    assert [each.path for each in peer.asked] == [
        "/v1/migrations?company=SAMPLE&limit=2",
        "/v1/migrations?company=SAMPLE&limit=1&cursor=x",
    ]
    peer.script = [(200, {"migrations": [], "next_cursor": None}, {})]
    assert run(["migrations", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"migrations": [], "more": False}


def test_one_is_shown_with_its_batches_and_rejects(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """How far it is, what both checks say, what was set aside and why."""
    peer.say(200, FULL_MIGRATION)
    lined = REJECT | {"line": 7, "field": "qty", "key": None}
    peer.say(200, {"rejects": [REJECT, lined], "next_cursor": None})
    assert run(["migrations", "show", ID]) == 0
    out = capsys.readouterr().out
    assert "movements.backfill of SAMPLE: running; rows: 96,000 of 240,000, 2 set aside" in out
    assert "41 batches; 95,998 created" in out
    assert 'check before: {"facts"' in out
    assert "set aside: 31877/1: CH102: PERIOD_CLOSED" in out
    assert "set aside: line 7 qty: CH102" in out
    assert [each.path for each in peer.asked] == [
        f"/v1/migrations/{ID}",
        f"/v1/migrations/{ID}/rejects?limit=20",
    ]


def test_a_run_is_submitted_with_its_parameters(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words are the task's; what is not given is not sent; the id alone on stdout."""
    peer.say(202, job(state="pending", created=True))
    words = ["migrations", "run", "pools.assign", "--company", "ACME"]
    assert run([*words, "by=store", "valid_from=2026-01-01", "--dry-run", "--key", "k1"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "0190-job\n"
    assert "`chot migrations show 0190-job`" in shown.err
    (asked,) = peer.asked
    assert (asked.method, asked.path) == ("POST", "/v1/jobs")
    assert json.loads(asked.body) == {
        "kind": "migration.run",
        "company": "ACME",
        "payload": {
            "task": "pools.assign",
            "dry_run": True,
            "params": {"by": "store", "valid_from": "2026-01-01"},
        },
    }
    peer.script = [(202, job(state="pending", created=True), {})]
    assert run([*words, "--window", "22:00-05:00", "--max-rejects", "0"]) == 0
    payload = json.loads(peer.asked[-1].body)["payload"]
    assert payload["window"] == "22:00-05:00"
    assert payload["max_rejects"] == 0


def test_a_run_that_is_waited_for_exits_by_its_end(peer: Peer) -> None:
    """As `chot wait` does."""
    error = {"type": "PermanentError", "code": "TOO_MANY_REJECTS", "message": "TOO_MANY_REJECTS: …"}
    peer.say(202, job(state="pending", created=True))
    peer.say(200, job(state="dead", error=error, attempts=[], result=None))
    assert run(["migrations", "run", "a.b", "--company", "ACME", "--wait"]) == 1


def test_pause_and_resume_say_what_comes_next(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that runs ends after its batch."""
    peer.say(200, PAUSED | {"state": "running"})
    peer.say(200, PAUSED | {"paused": False})
    assert run(["migrations", "pause", ID]) == 0
    assert run(["migrations", "resume", ID]) == 0
    out = capsys.readouterr().out
    assert f"is paused after the batch that it is in; `chot migrations resume {ID}`" in out
    assert f"goes on; `chot wait {ID}` follows it" in out
    assert [(each.method, each.path) for each in peer.asked] == [
        ("POST", f"/v1/migrations/{ID}/pause"),
        ("POST", f"/v1/migrations/{ID}/resume"),
    ]


def test_the_apis_words_become_commands() -> None:
    """What /why and errors advise."""
    said = f"POST /v1/migrations/{ID}/resume lets it go on; GET /v1/migrations/{ID}/rejects names"
    assert in_commands(said) == (
        f"`chot migrations resume {ID}` lets it go on; `chot migrations show {ID}` names"
    )
    said = "post the costs, then GET /v1/ledger/control names the documents"
    assert "then `chot ledger control` names" in in_commands(said)
    assert "then `chot ledger control` names" in show.reason({"code": "X", "message": said})

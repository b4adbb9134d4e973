"""`chot unpost` and `chot outcomes`: what they ask for, what they print, and their exit codes."""

import json
from typing import Any

import pytest

from api.example_bodies import SUBMITTED
from api.posting_examples import OUTCOMES
from shared.cli import run
from shared.cli.words import approval_advice
from tests.unit.cli.conftest import Peer, job

WORDS = ["unpost", "--company", "ACME", "--reason", "wrong customer"]
GIVEN = {"id": "0190-approval", "expires_at": "2026-02-03T09:12:44Z"}


def asked_of(peer: Peer) -> dict[str, Any]:
    """The body of the last request."""
    body: dict[str, Any] = json.loads(peer.asked[-1].body)
    return body


def test_an_unposting_says_what_is_wanted(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(202, dict(SUBMITTED))
    assert run([*WORDS, "8", "9", "--brand", "RED", "--approval", "0190-approval"]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == SUBMITTED["id"]
    assert "accepted" in shown.err
    assert asked_of(peer) == {
        "kind": "posting.unpost",
        "company": "ACME",
        "brand": "RED",
        "payload": {"documents": [8, 9], "reason": "wrong customer"},
        "approval": "0190-approval",
    }
    assert peer.asked[-1].headers["idempotency-key"]


def test_options_select_and_say_how(peer: Peer) -> None:
    peer.say(202, dict(SUBMITTED))
    options = "--type sale --type sale_return --from 2026-01-02 --to 2026-01-31 --store R1"
    assert run([*WORDS, *options.split(), "--on", "2026-02-01", "--with-costs"]) == 0
    assert asked_of(peer)["payload"] == {
        "types": ["sale", "sale_return"],
        "stores": ["R1"],
        "date_from": "2026-01-02",
        "date_to": "2026-01-31",
        "reversal_date": "2026-02-01",
        "dependants": "reverse",
        "reason": "wrong customer",
    }


def test_an_approval_is_of_the_very_same_words(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(201, GIVEN)
    assert run([*WORDS, "8", "--approve"]) == 0
    assert peer.asked[-1].path == "/v1/approvals"
    payload = {"documents": [8], "reason": "wrong customer"}
    wanted = {"kind": "posting.unpost", "company": "ACME", "payload": payload}
    assert asked_of(peer) == {"action": "posting.unpost", "job": wanted}
    assert capsys.readouterr().out.strip() == "0190-approval"
    assert "the same `chot unpost …` with --approve" in approval_advice("posting.unpost", "x")


@pytest.mark.parametrize(
    "words", [[], ["0"], ["x"], ["8", "--approve", "--wait"], ["--type", "cost"]]
)
def test_what_it_does_not_ask_for(peer: Peer, words: list[str]) -> None:
    assert run([*WORDS, *words]) == 2
    assert run(["unpost", "8", "--company", "ACME"]) == 2, "a reason is required"
    assert peer.asked == []


@pytest.mark.parametrize("failed", [0, 12])
def test_the_end_says_what_became_of_the_documents(
    peer: Peer, capsys: pytest.CaptureFixture[str], failed: int
) -> None:
    failures = [{"document_id": n, "detail": f"PERIOD_CLOSED: {n}"} for n in range(failed)]
    result = {"outcomes": {"REVERSED": 3}, "failures_total": failed, "failures": failures}
    peer.say(202, dict(SUBMITTED))
    peer.say(200, job(state="succeeded", result=result))
    assert run([*WORDS, "8", "--wait"]) == (1 if failed else 0)
    shown = capsys.readouterr()
    assert "3 REVERSED" in shown.out
    assert shown.err.count("PERIOD_CLOSED") == min(failed, 10)
    assert ("--failed" in shown.err) == bool(failed)


def test_outcomes_are_listed_to_the_limit(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(200, dict(OUTCOMES))
    words = ["outcomes", "0190-job", "--failed", "--outcome", "BUSY", "--outcome", "VOID"]
    assert run([*words, "--limit", "1"]) == 0
    shown = capsys.readouterr()
    for said in ("8121", "HD-00412", "PERIOD_CLOSED", "debit 110"):
        assert said in shown.out
    assert "--limit 2" in shown.err
    asked = "/v1/jobs/0190-job/outcomes?outcome=BUSY%2CVOID&failed=true&limit=1"
    assert peer.asked[-1].path == asked
    peer.script = [(200, {"outcomes": [], "next_cursor": None}, {})]
    assert run(["outcomes", "0190-job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"outcomes": [], "more": False}


def test_an_unposting_is_approved_by_its_own_command(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """`chot approve` knows no target that says what it unposts: nothing is asked for."""
    assert run(["approve", "posting.unpost", "x"]) == 2
    assert "`chot unpost …` with --approve" in capsys.readouterr().err
    assert peer.asked == []

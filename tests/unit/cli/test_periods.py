"""`chot periods` and `chot period`: what they ask for, what they print, and their exit codes."""

import json
from typing import Any

import pytest

from api.example_bodies import ACT
from shared.cli import run
from shared.cli.words import approval_advice
from tests.unit.cli.conftest import Peer, job

EVENT = {
    "at": "2026-02-03T09:12:44Z",
    "event": "closed",
    "requester": "clerk",
    "approver": "chief",
    "job_id": "0190-job",
    "status_url": "/v1/jobs/0190-job",
    "reason": "month end",
}
AFFECTED = {
    "period": "2026-02",
    "status": "open",
    "results": 4,
    "stale": 1,
    "items_total": 2,
    "items": ["A", "B"],
    "runs": ["7", "9"],
}
FINDING = {"code": "NOT_COSTED", "count": 7, "says": "cost the period", "first": ["RED/A"]}


def period(**more: Any) -> dict[str, Any]:
    """A period as the api shows it."""
    return {
        "company": "ACME",
        "period": "2026-01",
        "starts_on": "2026-01-01",
        "ends_on": "2026-01-31",
        "status": "closed",
        "version": 3,
        "results": {"total": 1200, "failed": 1, "stale": 2, "late": 3, "runs": ["7"]},
        "last_event": EVENT,
        "links": {},
        **more,
    }


def test_periods_are_listed_to_the_limit(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Page by page; with --json one document, which says whether there are more."""
    peer.say(200, {"periods": [period()], "next_cursor": "x"})
    peer.say(200, {"periods": [period()], "next_cursor": "y"})
    assert run(["periods", "--company", "ACME", "--limit", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("2026-01") == 2
    assert "closed" in shown.out
    assert "by clerk, approved by chief: month end" in shown.out
    assert "--limit 4" in shown.err
    assert [each.path for each in peer.asked] == [
        "/v1/periods?company=ACME&limit=2",
        "/v1/periods?company=ACME&limit=1&cursor=x",
    ]
    peer.script = [(200, {"periods": [], "next_cursor": None}, {})]
    assert run(["periods", "--company", "ACME", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"periods": [], "more": False}


def test_a_period_is_shown_with_its_story(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """What a refused close has found, and what a reopening would meet."""
    refused = EVENT | {"event": "refused", "approver": None, "facts": {"findings": [FINDING]}}
    reopening = {"later_closed": [], "affects": [AFFECTED]}
    found = period(events=[EVENT | {"facts": {}}, refused], reopening=reopening)
    peer.say(200, found)
    assert run(["period", "show", "2026-01", "--company", "ACME"]) == 0
    out = capsys.readouterr().out
    assert "period 2026-01 of ACME (2026-01-01 to 2026-01-31) is closed: 1,200 items costed" in out
    assert "NOT_COSTED (7): cost the period: RED/A, …" in out
    assert "would affect period 2026-02 (open): 4 results of 2 items, runs 7, 9" in out
    peer.script = []
    later = {"later_closed": ["2026-02", "2026-03"], "affects": []}
    peer.say(200, period(events=[], reopening=later))
    assert run(["period", "show", "2026-01", "--company", "ACME"]) == 0
    assert "reopen 2026-03, 2026-02 first, in this order" in capsys.readouterr().out


def test_a_close_prints_its_job(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """The id alone on stdout; what is not given is not sent."""
    peer.say(202, job(state="pending", created=True))
    words = ["period", "close", "2026-01", "--company", "ACME"]
    assert run([*words, "--reason", "month end", "--approval", "the-id"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "0190-job\n"
    assert "`chot wait 0190-job` follows it" in shown.err
    assert run(words) == 0
    first, second = peer.asked
    assert (first.method, first.path) == ("POST", "/v1/periods/2026-01/close")
    given = {"company": "ACME", "reason": "month end", "approval": "the-id"}
    assert json.loads(first.body) == given
    assert json.loads(second.body) == {"company": "ACME"}


def test_a_close_that_is_waited_for_says_what_is_missing(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1: the job died, and with it the close."""
    error = {
        "type": "PermanentError",
        "code": "PERIOD_NOT_READY",
        "message": "PERIOD_NOT_READY: …",
        "details": {"findings": [FINDING]},
    }
    peer.say(202, job(state="pending", created=True))
    peer.say(200, job(state="dead", error=error, attempts=[], result=None))
    assert run(["period", "close", "2026-01", "--company", "ACME", "--wait"]) == 1
    assert "NOT_COSTED (7): cost the period: RED/A, …" in capsys.readouterr().out


def test_a_reopening_lists_what_was_built_on_it(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks for a reason; a conflict is exit code 5."""
    peer.say(200, period(status="open", affects=[AFFECTED]))
    words = ["period", "reopen", "2026-01", "--company", "ACME"]
    assert run(words) == 2
    assert run([*words, "--reason", "a late invoice"]) == 0
    out = capsys.readouterr().out
    assert "is open" in out
    assert "built on it: period 2026-02 (open): 4 results of 2 items, runs 7, 9" in out
    assert json.loads(peer.asked[0].body) == {"company": "ACME", "reason": "a late invoice"}
    title = "A later period is closed"
    kind = "https://chot.example/problems/later-period-closed"
    peer.script = [(409, {"type": kind, "title": title, "detail": "reopen 2026-02 first"}, {})]
    assert run([*words, "--reason", "a late invoice"]) == 5
    assert f"{title}: reopen 2026-02 first" in capsys.readouterr().err


def test_the_advice_for_an_approval_is_a_command_that_there_is() -> None:
    """Period and company stand where `chot period close` takes them."""
    said = approval_advice("period.close", "A/B/2026-01")
    assert "`chot approve period.close A/B/2026-01`" in said
    assert "`chot period close 2026-01 --company A/B --approval …`" in said
    said = approval_advice("period.reopen", "A/2026-01")
    assert "`chot period reopen 2026-01 --company A --reason … --approval …`" in said


def test_the_audit_names_the_period_of_a_close(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """An act on something is told by what it was on; the job that does it stands beside."""
    close = ACT | {"action": "period.close", "target": "SAMPLE/2026-01", "facts": {"reason": "end"}}
    peer.say(200, {"acts": [close], "next_cursor": None})
    assert run(["audit", "--action", "period.close"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert "SAMPLE/2026-01" in row
    assert f"reason=end, job={ACT['job_id']}" in row

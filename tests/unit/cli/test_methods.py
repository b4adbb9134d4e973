"""`chot methods`: what it asks the api for, and how decisions are shown and refused."""

import json

import pytest

from api.example_bodies import METHOD_DECIDED, METHODS
from shared.cli import run
from tests.unit.cli.conftest import Peer


def test_decisions_are_shown_newest_first_with_what_was_before(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Company and item reach the api, whatever characters they have."""
    peer.say(200, METHODS)
    assert run(["methods", "show", "SAMPLE", "LÚA &1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["2027-01-01", "fifo", "head-accountant"]
    assert lines[2].split() == ["at", "first", "periodic_avg"]
    assert peer.asked[0].path == "/v1/costing-methods?company=SAMPLE&item=L%C3%9AA+%261"


def test_a_decision_is_sent_whole(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """And answered with what it replaces."""
    peer.say(200, METHOD_DECIDED)
    assert run(["methods", "decide", "SAMPLE", "LUA0001", "fifo", "--from", "2027-01-01"]) == 0
    assert "by fifo from 2027-01-01 on, instead of periodic_avg" in capsys.readouterr().out
    sent = json.loads(peer.asked[0].body)
    assert (sent["item"], sent["valid_from"]) == ("LUA0001", "2027-01-01")
    assert sent["mid_year"] is False


def test_a_change_within_a_year_needs_a_reason(peer: Peer) -> None:
    """The command line is wrong; nothing is asked."""
    words = ["methods", "decide", "SAMPLE", "LUA0001", "fifo", "--from", "2026-02-01", "--mid-year"]
    assert run(words) == 2
    assert peer.asked == []

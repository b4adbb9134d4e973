import json

import pytest

from shared.cli import run
from tests.unit.cli.conftest import Peer, job


@pytest.mark.parametrize(
    "words", [[], ["0190-job", "--all"], ["--kind", "k", "--all"]], ids=["none", "id+all", "two"]
)
def test_redrive_wants_exactly_one_way_of_saying_which(words: list[str]) -> None:
    assert run(["redrive", *words]) == 2


def test_redrive_of_all_goes_through_every_page_and_ends_with_5_when_one_is_refused(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [{"id": "b", "reason": "twin-active", "detail": "is active as c"}]
    peer.say(200, {"redriven": [{"id": "a"}], "refused": [], "next_cursor": "n"})
    peer.say(200, {"redriven": [], "refused": refused, "next_cursor": None})
    assert run(["redrive", "--all"]) == 5
    sent = [json.loads(asked.body) for asked in peer.asked]
    assert sent == [{"all": True}, {"all": True, "cursor": "n"}]
    assert capsys.readouterr().out == "1 redriven, 1 refused\n  b: is active as c\n"


def test_where_each_redrive_needs_an_approval_the_way_is_told_once(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    detail = "another account with role operate sends POST /v1/approvals …"
    refused = [{"id": i, "reason": "approval-required", "detail": detail} for i in ("a", "b")]
    peer.say(200, {"redriven": [], "refused": refused, "next_cursor": None})
    assert run(["redrive", "--all"]) == 5
    said = capsys.readouterr().out
    assert "one by one: another account with role operate runs `chot approve job.redrive" in said
    assert said.splitlines()[2:] == ["    a", "    b"]
    assert "/v1/" not in said


def test_redrive_of_one_is_its_own_route(peer: Peer) -> None:
    peer.say(200, job("pending"))
    assert run(["redrive", "0190-job"]) == 0
    assert peer.asked[0].path == "/v1/jobs/0190-job/redrive"


def test_dead_letters_show_why_a_job_was_buried(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "PERIOD_CLOSED", "message": "2026-01 is closed"}
    message = {"id": 7, "queue": "costing", "reason": "not JSON", "body": "???"}
    peer.say(200, {"jobs": [job("dead", error=error)], "messages": [message]})
    assert run(["dead-letters"]) == 0
    out = capsys.readouterr().out
    assert "PERIOD_CLOSED: 2026-01 is closed" in out
    assert "not JSON" in out


CAUSE = {
    "cause": "5a1f0c9de2b37846",
    "kind": "costing.run",
    "code": "PERIOD_CLOSED",
    "message": "# is closed",
    "jobs": 1200,
    "first_at": "2026-02-01T01:00:04Z",
    "last_at": "2026-02-01T02:00:04Z",
    "example": {"id": "0190-job", "error": {"message": "2026-01 is closed"}},
}


def test_dead_letters_by_cause_are_a_line_a_cause(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, {"causes": [CAUSE], "total_jobs": 1201, "total_causes": 2})
    assert run(["dead-letters", "--by-cause", "--kind", "costing.run"]) == 0
    out = capsys.readouterr().out
    for said in ("5a1f0c9de2b37846", "1200", "PERIOD_CLOSED: # is closed", "0190-job"):
        assert said in out
    assert "1 more causes" in out
    assert peer.asked[0].path.startswith("/v1/dead-letters/causes?")


def test_a_cause_is_listed_and_redriven(peer: Peer) -> None:
    peer.say(200, {"jobs": [job("dead")], "messages": [], "next_cursor": None})
    peer.say(200, {"redriven": [{"id": "a"}], "refused": [], "next_cursor": None})
    assert run(["dead-letters", "--cause", "5a1f0c9de2b37846"]) == 0
    assert "cause=5a1f0c9de2b37846" in peer.asked[0].path
    assert run(["redrive", "--cause", "5a1f0c9de2b37846"]) == 0
    assert json.loads(peer.asked[1].body) == {"cause": "5a1f0c9de2b37846"}


@pytest.mark.parametrize(
    "words",
    [["--watch", "--by-cause"], ["--watch", "--cause", "x"], ["--by-cause", "--cause", "x"]],
    ids=" ".join,
)
def test_what_does_not_go_together_is_refused(words: list[str]) -> None:
    assert run(["dead-letters", *words]) == 2

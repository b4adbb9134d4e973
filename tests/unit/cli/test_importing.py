"""`chot import`: what it asks for, what it says of lines that are refused."""

import json
from pathlib import Path

import pytest

from api.migration_examples import REJECT
from shared.cli import run
from tests.unit.cli.conftest import Peer, job

FILE = {"id": "0190-file"}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """An import of a small file."""
    path = tmp_path / "movements.csv"
    path.write_text("Số CT;Dòng\nPN1;1\n", "utf-8")
    return ["import", str(path), "--as", "movements", "--company", "ACME"]


def test_an_import_that_is_stopped_names_the_lines(
    peer: Peer, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As it does for one that ends well: field, value, rule, and how to have all of them."""
    said = "TOO_MANY_REJECTS: 1 row …, GET /v1/migrations/0190-job/rejects names the rows"
    error = {"type": "PermanentError", "code": "TOO_MANY_REJECTS", "message": said}
    refused = REJECT | {"line": 13, "field": "posting_date", "value": "31/06/2026"}
    peer.say(200, FILE)
    peer.say(202, job(state="pending", created=True))
    peer.say(200, job(state="dead", error=error, attempts=[], result=None))
    peer.say(200, {"rejects": [refused | {"rule": "is not a day"}], "next_cursor": None})
    assert run(words) == 1
    shown = capsys.readouterr()
    assert "1 row …, `chot migrations show 0190-job` names the rows" in shown.out
    assert "line 13, posting_date '31/06/2026': is not a day" in shown.err
    assert "--rejects FILE" in shown.err
    assert peer.asked[-1].path == "/v1/migrations/0190-job/rejects?limit=10"


def test_a_dry_run_hears_of_all_lines(peer: Peer, words: list[str]) -> None:
    """No share of refused lines stops it, unless one is asked for."""
    ended = job(state="succeeded", attempts=[], result={"counts": {}, "dry_run": True})
    for more, percent in ((["--dry-run"], 100), (["--dry-run", "--max-reject-percent", "7"], 7)):
        peer.script = [(200, FILE, {}), (202, job(state="pending", created=True), {})]
        peer.say(200, ended)
        assert run([*words, *more]) == 0
        sent = next(each for each in reversed(peer.asked) if each.path == "/v1/jobs")
        assert json.loads(sent.body)["payload"]["max_reject_percent"] == percent
    peer.script = [(200, FILE, {}), (202, job(state="pending", created=True), {}), (200, ended, {})]
    assert run(words) == 0
    sent = next(each for each in reversed(peer.asked) if each.path == "/v1/jobs")
    assert "max_reject_percent" not in json.loads(sent.body)["payload"]

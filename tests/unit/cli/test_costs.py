"""`chot cost-runs`, `chot costs`, `chot export`: what they ask for, print and leave on the disk."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from api.cost_examples import COSTS, DIFFERENCE, ERROR, RESULTS, RUN, SUMMARY, SUMS
from shared.cli import run
from tests.unit.cli.conftest import Peer, job

CONTENT = {"Brand": "LUA"}
BYTES = json.dumps(CONTENT).encode()


def done(**file: Any) -> dict[str, Any]:
    """An export's job that has ended; its file is what the peer sends."""
    written = {
        "id": "f",
        "url": "/v1/files/f",
        "name": "costs-2026-01-run42-results.csv",
        "size": len(BYTES),
        "sha256": hashlib.sha256(BYTES).hexdigest(),
    }
    return job("succeeded", result={"run_id": 42, "rows": 7, "file": written | file})


def test_runs_are_listed_with_what_they_found(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages are put together up to the limit; more of them are told."""
    peer.say(200, {"runs": [SUMMARY], "next_cursor": "abc"})
    peer.say(200, {"runs": [SUMMARY | {"id": 7, "items": None}], "next_cursor": "def"})
    assert run(["cost-runs", "list", "--company", "SAMPLE", "--limit", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:5] == ["1042", "2026-01", "all", "active", "20000"]
    assert "there are more" in said.err
    assert peer.asked[0].path == "/v1/cost-runs?company=SAMPLE&limit=2"
    assert peer.asked[1].path == "/v1/cost-runs?company=SAMPLE&limit=1&cursor=abc"


def test_a_run_is_shown_with_its_proof(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Totals, each check with how many broke it, and the checksum."""
    peer.say(200, RUN)
    assert run(["cost-runs", "show", "1042"]) == 0
    said = capsys.readouterr().out
    assert "0 broken of 61204: opening + in = out + closing, in value" in said
    assert RUN["proof"]["checksum"] in said
    assert peer.asked[0].path == "/v1/cost-runs/1042"


def test_results_are_a_row_an_item_and_pool(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """With the filters that were given, and a note where a number is not what holds."""
    odd = RESULTS["results"][0] | {"speaks": False, "stale": True, "unit_price": None}
    peer.say(200, RESULTS | {"results": [RESULTS["results"][0], odd], "next_cursor": None})
    assert run(["cost-runs", "results", "1042", "--item", "SP 1", "--digits", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "103000.00" in lines[1]
    assert "replaced by a later run, stale" in lines[2]
    assert "item=SP+1" in peer.asked[0].path
    assert "digits=4" in peer.asked[0].path


def test_what_holds_now_says_what_failed(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr; as JSON it is a member."""
    peer.say(200, COSTS | {"next_cursor": None})
    assert run(["costs", "--company", "SAMPLE", "--period", "2026-01"]) == 0
    told = "2 of 20000 items could not be costed, 0 are stale, 0 have late movements"
    assert told in capsys.readouterr().err
    assert run(["costs", "--company", "SAMPLE", "--period", "2026-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == COSTS["items"]


def test_errors_and_differences_are_shown(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """The documents that cause an error; the sum of each account."""
    peer.say(200, {"errors": [ERROR], "next_cursor": None})
    assert run(["cost-runs", "errors", "1042", "--code", "NEGATIVE_STOCK"]) == 0
    assert "2026-01-19 PX-0119-22/4" in capsys.readouterr().out
    peer.script.clear()
    peer.say(200, {"accounts": [SUMS], "differences": [DIFFERENCE], "next_cursor": None})
    assert run(["cost-runs", "differences", "1042"]) == 0
    assert "900000" in capsys.readouterr().out


def test_a_run_that_is_gone_is_refused_with_advice(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, and where to look instead."""
    peer.say(410, {"type": "https://chot.example/problems/cost-run-gone", "title": "gone"})
    assert run(["cost-runs", "results", "1042"]) == 4
    assert "`chot costs` shows what holds now" in capsys.readouterr().err


def test_an_export_is_asked_for_awaited_and_fetched(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its format is that of the file's name; the name is printed once all of it is here."""
    target = tmp_path / "january.xlsx"
    peer.say(202, {"id": "the-job"})
    peer.say(200, done())
    peer.say(200, CONTENT)
    assert run(["export", "1042", "--to", str(target), "--brand", "LUA"]) == 0
    assert target.read_bytes() == BYTES
    assert capsys.readouterr().out == f"{target}\n"
    asked = peer.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/cost-runs/1042/exports")
    assert json.loads(asked.body) == {
        "table": "results",
        "format": "xlsx",
        "digits": 2,
        "bom": False,
        "brand": "LUA",
    }
    assert asked.headers["idempotency-key"].startswith("export-")
    assert [each.path for each in peer.asked[1:]] == ["/v1/jobs/the-job", "/v1/files/f"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_download_that_breaks_off_is_begun_again(peer: Peer, tmp_path: Path) -> None:
    """Nothing of the first try is in the file."""
    target = tmp_path / "january.csv"
    peer.say(202, {"id": "the-job"})
    peer.say(200, done())
    peer.hang_up()
    peer.say(503, {"title": "busy"})
    peer.say(200, CONTENT)
    assert run(["export", "1042", "--to", str(target)]) == 0
    assert target.read_bytes() == BYTES


def test_a_file_that_is_not_what_was_written_is_not_kept(peer: Peer, tmp_path: Path) -> None:
    """Exit code 69; an older file under that name stays as it was."""
    target = tmp_path / "january.csv"
    target.write_bytes(b"older")
    peer.say(202, {"id": "the-job"})
    peer.say(200, done(sha256="0" * 64))
    peer.say(200, CONTENT)
    assert run(["export", "1042", "--to", str(target)]) == 69
    assert target.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [target]


def test_an_export_that_dies_leaves_nothing(peer: Peer, tmp_path: Path) -> None:
    """Exit code 1, as of any job."""
    peer.say(202, {"id": "the-job"})
    peer.say(200, job("dead", error={"type": "PermanentError", "message": "RUN_SUPERSEDED: gone"}))
    assert run(["export", "1042", "--to", str(tmp_path / "x.csv")]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_nobody_said_is_a_wrong_command(peer: Peer) -> None:
    """Nothing is sent."""
    assert run(["export", "1042"]) == 2
    assert run(["export", "1042", "--to", "january.pdf"]) == 2
    assert peer.asked == []

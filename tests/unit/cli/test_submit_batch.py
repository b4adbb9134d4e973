import json
from pathlib import Path
from typing import Any

import pytest

from shared.cli import run
from tests.unit.cli.conftest import Peer

LINE = '{"kind": "k", "company": "ACME", "payload": {"amount": 1.10}}'


def created(job_id: str = "0190-job", duplicate: str | None = None) -> dict[str, Any]:
    """An item as the api answers it."""
    job = {"id": job_id, "state": "pending", "created": duplicate is None, "duplicate": duplicate}
    return {"outcome": "created" if duplicate is None else "duplicate", "job": job}


def refused(field: str = "jobs[1].brand") -> dict[str, Any]:
    """An item that broke a rule."""
    error = {"title": "no", "status": 422, "errors": [{"field": field, "rule": "is no brand"}]}
    return {"outcome": "error", "error": error}


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines))
    return str(path)


def test_a_file_is_sent_as_it_was_written_under_a_key_of_its_content(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file again is the same request; --again makes another one of it."""
    peer.say(200, {"jobs": [created("a"), created("b", "joined")]})
    file = write(tmp_path / "jobs.jsonl", LINE, "", LINE)
    assert run(["submit-batch", file]) == run(["submit-batch", file]) == 0
    assert run(["submit-batch", file, "--again", "march"]) == 0
    assert {asked.path for asked in peer.asked} == {"/v1/jobs:batch"}
    assert peer.asked[0].body == f'{{"jobs":[{LINE},{LINE}]}}'
    keys = [asked.headers["idempotency-key"] for asked in peer.asked]
    assert keys[0] == keys[1] != keys[2]
    shown = capsys.readouterr()
    assert "joined" in shown.out
    assert "1 created, 1 duplicate of active work" in shown.err


def test_a_thousand_lines_are_a_request(peer: Peer, tmp_path: Path) -> None:
    """Each with its own key; a request that fails stops what would follow."""
    for size in (1000, 1000, 500):
        peer.say(200, {"jobs": [created()] * size})
    file = write(tmp_path / "jobs.jsonl", *[LINE.replace("k", f"k{n}", 1) for n in range(2500)])
    assert run(["submit-batch", file]) == 0
    assert [len(json.loads(asked.body)["jobs"]) for asked in peer.asked] == [1000, 1000, 500]
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 3
    peer.script = [(503, {"title": "database out of reach"}, {})]
    peer.asked.clear()
    assert run(["submit-batch", file, "--retry-for", "0"]) == 69
    assert len(peer.asked) == 1


def test_refused_lines_come_first_and_go_to_a_file_of_their_own(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4; by its number in the file, blank lines counted."""
    other = LINE.replace("ACME", "OTHER")
    peer.say(200, {"jobs": [created(), refused()]})
    file = write(tmp_path / "jobs.jsonl", LINE, "", other)
    left = tmp_path / "refused.jsonl"
    assert run(["submit-batch", file, "--refused-to", str(left)]) == 4
    assert left.read_text() == other + "\n"
    rows = capsys.readouterr().out.splitlines()
    assert rows[1].split()[:2] == ["3", "refused"]
    assert rows[1].split(maxsplit=2)[2].strip() == "brand: is no brand", "the line is told"
    assert run(["submit-batch", file, "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["outcomes"] == {"created": 1, "error": 1}
    assert [job["line"] for job in told["jobs"]] == [1, 3]


@pytest.mark.parametrize("line", ["{", "[1]", '{"a": NaN}', "5"])
def test_a_file_with_a_slip_in_it_sends_nothing(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    peer.say(200, {"jobs": []})
    assert run(["submit-batch", write(tmp_path / "jobs.jsonl", LINE, line)]) == 2
    said = capsys.readouterr().err
    assert "line 2" in said
    assert "nothing was submitted" in said
    assert peer.asked == []


def test_no_answer_says_what_to_do(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.hang_up()
    file = write(tmp_path / "jobs.jsonl", LINE)
    assert run(["submit-batch", file, "--retry-for", "0"]) == 69
    assert "submits what is missing, and nothing twice" in capsys.readouterr().err


def test_what_an_earlier_run_created_is_not_said_to_be_new(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor a lost answer of this run to be of an earlier one."""
    file = write(tmp_path / "jobs.jsonl", LINE, LINE)
    answer = {"jobs": [created("a"), created("b")]}
    peer.say(200, answer, Idempotency_Replayed="true")
    assert run(["submit-batch", file]) == 0
    said = capsys.readouterr().err
    assert said == "0 created now, 2 created by an earlier run of these lines\n"
    assert run(["submit-batch", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["replayed"] for each in told["jobs"]] == [True, True]
    peer.script = [None, (200, answer, {"Idempotency-Replayed": "true"})]
    assert run(["submit-batch", file]) == 0
    said = capsys.readouterr().err
    assert said == "0 created now, 2 created by an earlier request of these lines\n"

import json
from pathlib import Path
from typing import Any

import pytest

from api.strict_json import Malformed, parse_object
from shared.cli import run
from shared.cli.job_lines import LONGEST_LINE
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
    written = capsys.readouterr()
    assert written.err == "0 created now, 2 created by an earlier run of these lines\n"
    assert written.out.count("created earlier") == 2
    assert run(["submit-batch", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["replayed"] for each in told["jobs"]] == [True, True]
    peer.script = [None, (200, answer, {"Idempotency-Replayed": "true"})]
    assert run(["submit-batch", file]) == 0
    said = capsys.readouterr().err
    assert said == "0 created now, 2 created by an earlier request of these lines\n"


BROKEN = {
    "no utf-8": (b'{"a": "\xff"}', "must be UTF-8; byte 8 is not"),
    "deep": (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper than 32"),
    "very deep": (b"[" * 200_000, "nested deeper than 32"),
    "twice": (b'{"a": 1, "a": 2}', "the member a must not be given twice"),
    "nul": (rb'{"a": ["\u0000"]}', "U+0000 cannot be stored"),
    "surrogate": (rb'{"\ud800": 1}', "lone surrogates are no Unicode text"),
    "digits": (b'{"a": ' + b"9" * 5000 + b"}", "numbers have at most 100 digits"),
    "exponent": (b'{"a": 1e999}', "numbers have at most"),
    "constant": (b'{"a": NaN}', "NaN is no number of JSON"),
    "list": (b"[1]", "must be a JSON object"),
    "nothing": (b"\xa0", "must be UTF-8"),
    "half": (b'{"a": "\x1b', "is not JSON: Invalid control character at column 8"),
    "a BOM inside": (b"\xef\xbb\xbf{}", "is not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_the_api_would_refuse_as_malformed_is_told_before(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """By line and rule, with 2, nothing sent; and the api's own reader agrees that it is none."""
    line, rule = BROKEN[name]
    with pytest.raises(Malformed):
        parse_object(line)
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(LINE.encode() + b"\n\n" + line + b"\n")
    assert run(["submit-batch", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("chot: line 3: ")
    assert rule in said
    assert said.endswith("nothing was submitted\n")
    assert "\x1b" not in said
    assert peer.asked == []


def test_a_line_that_no_request_could_hold_is_told_before(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "jobs.jsonl", json.dumps({"a": "x" * LONGEST_LINE}))
    assert run(["submit-batch", file]) == 2
    assert "bytes" in capsys.readouterr().err
    assert peer.asked == []


def test_every_broken_line_is_named_twenty_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "jobs.jsonl", *["{"] * 25)
    assert run(["submit-batch", file]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 22
    assert said[-2:] == ["  and 5 more", "  nothing was submitted"]


def test_a_byte_order_mark_and_crlf_are_no_fault(peer: Peer, tmp_path: Path) -> None:
    peer.say(200, {"jobs": [created(), created()]})
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + LINE.encode() + b"\r\n\r\n" + LINE.encode())
    assert run(["submit-batch", str(file)]) == 0
    assert peer.asked[0].body == f'{{"jobs":[{LINE},{LINE}]}}'


@pytest.mark.parametrize(
    ("later", "code"),
    [
        ((503, {"title": "out of reach"}, {}), 69),
        ((403, {"title": "no"}, {}), 4),
        ((200, {"jobs": []}, {}), 69),
        ((200, {}, {}), 69),
        ((200, {"jobs": [{}] * 500}, {}), 69),
        (None, 69),
    ],
)
def test_a_failure_later_tells_what_the_earlier_thousands_did(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str], later: Any, code: int
) -> None:
    """Counts, lines, and the refused ones in their file: whoever reads it knows where to look."""
    file = write(tmp_path / "jobs.jsonl", *[LINE] * 1500)
    left = tmp_path / "refused.jsonl"
    for form in ([], ["--json"]):
        peer.script = [(200, {"jobs": [refused(), *[created()] * 999]}, {}), later]
        words = ["submit-batch", file, "--retry-for", "0", "--refused-to", str(left), *form]
        assert run(words) == code
        written = capsys.readouterr()
        assert "lines 1 to 1,000: 999 created, 1 refused. Then, from line 1,001 on" in written.err
        assert left.read_text() == LINE + "\n"
        if form:
            told = json.loads(written.out)
            assert told["error"]["exit_code"] == code
            assert told["outcomes"] == {"created": 999, "error": 1}
        else:
            assert "is no brand" in written.out

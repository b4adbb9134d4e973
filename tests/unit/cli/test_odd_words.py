"""Words of a command line that no request can carry: usage errors, and no bugs."""

from pathlib import Path

import pytest

from shared.cli import run
from tests.unit.cli.conftest import Peer, job

ODD = "\udcff"  # how Python has a byte of the command line that is no UTF-8
DEEP = "[" * 100_000
COMMANDS = (
    ["status", ODD],
    ["why", ODD],
    ["cancel", ODD],
    ["redrive", ODD],
    ["pause", ODD],
    ["list", "--company", ODD],
    ["audit", f"--principal={ODD}"],
    ["dead-letters", "--kind", ODD],
    ["approve", "job.redrive", ODD],
    ["submit", "k", "--company", ODD],
    ["submit", "k", "--company", "C", f"period={ODD}"],
    ["submit-batch", "-", "--again", ODD],
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_what_is_no_text_is_no_command_line(
    peer: Peer, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    peer.say(200, {})
    assert run(words) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert peer.asked == []


def test_a_file_may_be_named_as_it_likes(peer: Peer, tmp_path: Path) -> None:
    peer.say(202, {"id": "0190-job"})
    file = tmp_path / f"payload{ODD}.json"
    file.write_text("{}")
    assert run(["submit", "k", "--company", "C", "--payload-file", str(file)]) == 0
    assert len(peer.asked) == 1


@pytest.mark.parametrize("word", [f"x:={DEEP}", f"--payload={DEEP}"], ids=["word", "whole"])
def test_a_payload_too_deep_to_read_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert run(["submit", "k", "--company", "C", word]) == 2
    assert "nested too deep" in capsys.readouterr().err


def test_a_payload_file_in_another_code_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "payload.json"
    file.write_bytes('{"note": "é"}'.encode("latin-1"))
    assert run(["submit", "k", "--company", "C", "--payload-file", str(file)]) == 2
    assert "must be UTF-8; byte 11" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "é", "a\tb"])
def test_a_key_that_no_header_can_say_is_a_usage_error(
    peer: Peer, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """Nothing, too: of `--key "$UNSET"` each repeat would be another job."""
    assert run(["submit", "k", "--company", "C", "--key", key]) == 2
    assert "--key" in capsys.readouterr().err
    assert peer.asked == []


def test_any_other_key_goes_out_as_the_header_says_it(peer: Peer) -> None:
    peer.say(202, {"id": "0190-job"})
    assert run(["submit", "k", "--company", "C", "--key", 'close "January", 2026']) == 0
    assert peer.asked[0].headers["idempotency-key"] == r'"close \"January\", 2026"'


def test_an_environment_that_makes_no_client_is_wrong_configuration(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, {"jobs": [], "next_cursor": None})
    monkeypatch.setenv("http_proxy", "socket://user:s3cret@proxy:1")
    assert run(["list"]) == 78
    said = capsys.readouterr().err
    assert "makes no HTTP client" in said
    assert "s3cret" not in said


def test_a_place_for_refused_lines_that_is_none_is_told_before_anything_is_sent(
    peer: Peer, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("{}\n")
    assert run(["submit-batch", str(file), "--refused-to", str(tmp_path / "no" / "file")]) == 2
    assert peer.asked == []
    kept = tmp_path / "refused.jsonl"
    kept.write_text("of an earlier run\n")
    file.write_text("no JSON\n")
    assert run(["submit-batch", str(file), "--refused-to", str(kept)]) == 2
    assert kept.read_text() == "of an earlier run\n", "nothing was refused by the api"


@pytest.mark.parametrize("seconds", ["inf", "1e300"])
def test_a_time_without_end_is_a_long_one(peer: Peer, seconds: str) -> None:
    """What no clock counts is no bug."""
    peer.say(200, job("succeeded"))
    assert run(["wait", "0190-job", "--retry-for", seconds, "--timeout", seconds]) == 0


@pytest.mark.parametrize("option", ["--retry-for", "--timeout"])
def test_a_time_that_is_none_is_a_usage_error(
    peer: Peer, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert run(["wait", "0190-job", option, "nan"]) == 2
    assert "nan is no time" in capsys.readouterr().err
    assert peer.asked == []


def test_a_terminal_that_says_it_has_no_columns_gets_the_usual_ones(
    peer: Peer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.say(200, {"jobs": [job("succeeded")], "next_cursor": None})
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["list"]) == 0
    assert "0190-job" in capsys.readouterr().out

"""The command line of the fault suite, as far as it needs no servers."""

from pathlib import Path

import pytest

from tests.faults.__main__ import _fresh, _parsed, _say_table, _say_verdict, main
from tests.faults.check import check_evidence
from tests.faults.evidence import Evidence
from tests.faults.runner import Plan, Verdict
from tests.faults.sound import WRITER, effect, sound


def verdict(evidence: Evidence, home: Path) -> Verdict:
    (home / "logs").mkdir()
    plan = Plan(seed=7, seconds=90)
    return Verdict(plan, evidence, check_evidence(evidence), [], home)


def test_an_earlier_run_is_never_written_over(tmp_path: Path) -> None:
    first = _fresh(tmp_path / "pg18-seed1")
    first.mkdir()
    assert _fresh(tmp_path / "pg18-seed1").name == "pg18-seed1-2"


def test_an_unknown_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--nemeses", "kill,earthquake"])
    assert "earthquake" in capsys.readouterr().err


def test_a_timeline_is_printed_from_what_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound().save(tmp_path)
    assert main(["timeline", str(tmp_path), WRITER]) == 0
    assert "chunk 1 under fence 2" in capsys.readouterr().out


def test_a_violation_comes_with_the_command_that_repeats_it_and_its_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = sound()
    evidence.effects.append(effect(17, WRITER, 1, 2))
    found = verdict(evidence, tmp_path)
    _say_verdict(found, _parsed(["--seconds", "30", "--nemeses", "kill"]), 18)
    _say_table([found])
    said = capsys.readouterr().out
    assert "seed 7 pg18 VIOLATED" in said
    assert "chunk 1 was written 2 times" in said
    assert "python -m tests.faults --seed 7 --seconds 30 --nemeses kill" in said
    assert f"job {WRITER}: fault.write" in said


def test_a_sound_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _say_verdict(verdict(sound(), tmp_path), _parsed([]), 15)
    assert capsys.readouterr().out.startswith("seed 7 pg15 ok: faults 1 calls 14")

"""The runner can tell killed from survived, and says so in its exit code; bugs are really planted."""

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import _try, conclude, main
from tests.mutants.catalogue import MUTANTS
from tests.mutants.copies import Ends
from tests.mutants.mutant import Change, Mutant
from tests.mutants.verdict import Verdict, judge

# Its killer needs no server.
(QUICK,) = [each for each in MUTANTS if each.name == "a worker goes on past its own deadline"]
# Another look of the same thing: no test may fall over it.
HARMLESS = Mutant(
    name="a wait is written differently",
    changes=(Change("worker/retry.py", "def retry_delay(", "\ndef retry_delay("),),
    killer="tests/unit/worker/test_retry.py::test_waits_grow_by_the_factor_and_fill_their_range",
)


def test_a_survivor_fails_the_run_and_leaves_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bug that is killed, one that is none: really planted, in a copy of this tree."""
    page = tmp_path / "mutants.md"
    assert main([], catalogue=(QUICK, HARMLESS), page=page) == 1
    said = capsys.readouterr().out
    assert f"killed {QUICK.name}" in said
    assert f"WRONG  {HARMLESS.name}" in said
    assert "SURVIVED" in said
    assert "1 of 2 killed" in said
    assert not page.exists()


def test_without_survivors_there_is_a_page(tmp_path: Path) -> None:
    """With what the assertion said, and with each exception's reason."""
    page = tmp_path / "mutants.md"
    exceptional = replace(QUICK, name="other", also={HARMLESS.killer: "both wait"})
    killed = [
        Verdict(mutant=each, said="assert 0 == a|b", complaints=()) for each in (QUICK, exceptional)
    ]
    assert conclude(killed, page, "commit `0a1b`") == 0
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == [
        "| planted bug",
        f"| {QUICK.name}",
        "| other",
        "| planted bug",
        "| other",
    ]
    assert rows[1][3] == "`assert 0 == a\\|b` |"
    assert rows[4][2] == "both wait |"


def test_the_page_says_who_was_run_once_more_and_on_which_commit(tmp_path: Path) -> None:
    """A second try that is told nowhere would be a pass that nobody can judge."""
    page = tmp_path / "mutants.md"
    verdict = Verdict(mutant=QUICK, said="assert 0", complaints=())
    assert conclude([verdict], page, "commit `0a1b`") == 0
    assert "Run on commit `0a1b`." in page.read_text()
    assert "In this run none needed it." in page.read_text()
    conclude([replace(verdict, again={HARMLESS.killer: "asserted: too late"})], page, "commit `1`")
    assert "In this run none needed it." not in page.read_text()
    test = HARMLESS.killer.removeprefix("tests/")
    assert page.read_text().endswith(f"| {QUICK.name} | `{test}` | `asserted: too late` |\n")


class OnceUnlucky:
    """A tree in which the other killer fails at first."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []

    @contextmanager
    def planted(self, _changes: Sequence[Change]) -> Iterator[None]:
        """Nothing is planted."""
        yield

    def run(self, killers: Sequence[str]) -> Ends:
        """The bug's own killer asserts always, the other one the first time."""
        self.runs.append(list(killers))
        other = ("asserted", "too late") if len(self.runs) == 1 else ("passed", "")
        return {killer: OWN.get(killer, other) for killer in killers}


def test_only_killers_of_others_are_run_once_more_and_that_is_noted() -> None:
    """The bug's own killer has one try."""
    tree, trees = OnceUnlucky(), queue.SimpleQueue[Any]()
    trees.put(tree)
    verdict = _try(trees, QUICK, [QUICK.killer, OTHER])
    assert tree.runs == [[QUICK.killer, OTHER], [OTHER]]
    assert (verdict.complaints, verdict.again) == ([], {OTHER: "asserted: too late"})


OTHER = "tests/other.py::test_other"
OWN = {QUICK.killer: ("asserted", "assert 0 == 1")}


@pytest.mark.parametrize(
    ("ends", "complaint"),
    [
        (OWN | {OTHER: ("passed", "")}, ""),
        ({QUICK.killer: ("passed", ""), OTHER: ("passed", "")}, "SURVIVED"),
        ({OTHER: ("passed", "")}, "SURVIVED"),
        ({QUICK.killer: ("broke", "ImportError"), OTHER: ("passed", "")}, "its killer broke"),
        (OWN | {OTHER: ("asserted", "assert 2")}, f"{OTHER} fails as well"),
        (OWN | {OTHER: ("broke", "fixture")}, f"{OTHER} fails as well"),
        (OWN, f"{OTHER} fails as well"),
    ],
)
def test_killed_means_by_its_own_assertion_and_by_nobody_elses(
    ends: dict[str, tuple[str, str]], complaint: str
) -> None:
    """An error of a fixture kills nothing, and a test that did not run has not passed."""
    verdict = judge(QUICK, ends, [QUICK.killer, OTHER])
    assert bool(verdict.complaints) == bool(complaint)
    assert any(each.startswith(complaint) for each in verdict.complaints) or not complaint


def test_one_parameter_of_a_killer_is_enough_but_all_of_another_must_pass() -> None:
    """A test with parameters is one killer."""
    one = {f"{QUICK.killer}[a]": ("passed", ""), f"{QUICK.killer}[b]": ("asserted", "no")}
    two = {f"{OTHER}[a]": ("passed", ""), f"{OTHER}[b]": ("passed", "")}
    assert judge(QUICK, one | two, [QUICK.killer, OTHER]).complaints == []
    two[f"{OTHER}[b]"] = ("broke", "no")
    assert len(judge(QUICK, one | two, [QUICK.killer, OTHER]).complaints) == 1

"""The catalogue cannot rot: every place and killer is there, and the page names the same bugs."""

import ast
import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.page import row_of
from tests.mutants.verdict import Verdict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mutants.md").read_text()
SAYING = re.compile(r" `[^`]+` \|$")
TRIED = "| what it said |\n|---|---|---|---|\n"
WAITING = "| planted bug | where | killed by |\n|---|---|---|\n"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_what_a_mutant_breaks_stands_there_once(mutant: Mutant) -> None:
    """A bug that cannot be planted, or is planted somewhere else, shows nothing."""
    for change in mutant.changes:
        assert (ROOT / change.file).read_text().count(change.sound) == 1, change
        assert change.sound != change.broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_every_killer_is_a_test(mutant: Mutant) -> None:
    """By its file and name; its parameters are looked at when it runs."""
    for killer in (mutant.killer, *mutant.also):
        file, _, test = killer.partition("[")[0].partition("::")
        tree = ast.parse((ROOT / file).read_text())
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        assert test in {each.name for each in tree.body if isinstance(each, functions)}


def test_each_mutant_has_a_name_and_a_killer_of_its_own() -> None:
    """Two bugs of one killer would not be told apart."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert len({mutant.killer for mutant in MUTANTS}) == len(MUTANTS)


def test_an_exception_is_another_mutants_killer_with_a_reason() -> None:
    """Whatever else fails is known, and why."""
    killers = {mutant.killer for mutant in MUTANTS}
    for mutant in MUTANTS:
        assert set(mutant.also) <= killers - {mutant.killer}
        assert all(len(why) > 20 for why in mutant.also.values())


def test_the_page_names_these_mutants_places_and_killers() -> None:
    """Row by row, those that wait for a run of all in a table of their own.

    Only what the assertions said is the page's own.
    """
    tried, waiting = _rows(TRIED), _rows(WAITING)
    assert not {_name(row) for row in tried} & {_name(row) for row in waiting}
    expected = {
        each.name.replace("|", "\\|"): SAYING.sub(
            "", row_of(Verdict(mutant=each, said="x", complaints=())).rstrip("\n")
        )
        for each in MUTANTS
    }
    for rows in ([SAYING.sub("", row) for row in tried], waiting):
        names = [_name(row) for row in rows]
        assert names == [name for name in expected if name in set(names)]
        assert rows == [expected[name] for name in names]
    assert len(tried) + len(waiting) == len(MUTANTS)
    for mutant in MUTANTS:
        if _name_of(mutant) in {_name(row) for row in tried}:
            for why in mutant.also.values():
                assert why in PAGE


def _rows(head: str) -> list[str]:
    return PAGE.partition(head)[2].partition("\n\n")[0].splitlines()


def _name(row: str) -> str:
    return row.split(" | ", maxsplit=1)[0].removeprefix("| ")


def _name_of(mutant: Mutant) -> str:
    return mutant.name.replace("|", "\\|")

"""The table of scenarios is whole: every id has tests, every marked test an id, and the page both."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.page import Row, complaints, merged, page_of, rows_from
from tests.scenarios.plugin import this_run

ROOT = Path(__file__).parents[2]
IDS = {scenario.id for scenario in SCENARIOS}
SCENARIOS_IN_ALL = 47


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str, str]]:
    """(scenario, test, tier) for every marked test, as pytest itself collects them.

    Not of files in which no mark is named: to import them all takes several times as long.
    """
    files = [
        str(each) for each in (ROOT / "tests").rglob("test_*.py") if "scenario" in each.read_text()
    ]
    path = tmp_path_factory.mktemp("scenarios") / "marked.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.scenarios.plugin", "-m"]
    command += ["scenario", "--collect-only", "-p", "no:cacheprovider"]
    command += ["--scenario-results", str(path), *sorted(files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {row.key for row in rows_from(path.read_text())}


def test_there_are_as_many_as_were_reported() -> None:
    assert len(SCENARIOS) == len(IDS) == SCENARIOS_IN_ALL


def test_every_scenario_has_a_test_of_every_day_and_every_mark_a_scenario(
    marked: set[tuple[str, str, str]],
) -> None:
    assert {scenario for scenario, _, tier in marked if tier == "daily"} == IDS
    assert {scenario for scenario, _, _ in marked} == IDS


def test_the_page_names_exactly_the_marked_tests(marked: set[tuple[str, str, str]]) -> None:
    """Whoever marks, renames or removes a test runs `make scenarios`."""
    page = (ROOT / "docs" / "scenarios.md").read_text()
    lines = re.findall(r"^\| (F\d\d) [ABC] \|.*\| (`.*?) \| [^|]* \|$", page, re.MULTILINE)
    listed = {
        (scenario, f"tests/{test}", "long" if long else "daily")
        for scenario, tests in lines
        for test, long in re.findall(r"`([^`]+)`( \*long\*)?", tests)
    }
    assert listed == marked


def row(scenario: str, outcome: str = "passed", tier: str = "daily", **more: str) -> Row:
    more = {"excluded": "", "run": "" if outcome == "not run" else "abc1234, then"} | more
    return Row(scenario=scenario, test="tests/a.py::test", tier=tier, outcome=outcome, **more)


def all_passed() -> list[Row]:
    return [row(scenario.id) for scenario in SCENARIOS]


@pytest.mark.parametrize(
    ("outcome", "tier", "told"),
    [
        ("passed", "daily", False),
        ("failed", "daily", True),
        ("skipped", "daily", True),
        ("not run", "daily", True),
        ("failed", "long", True),
        ("not run", "long", False),
    ],
)
def test_a_test_that_did_not_pass_is_told(outcome: str, tier: str, *, told: bool) -> None:
    found = complaints([*all_passed(), row("F01", outcome, tier)])
    assert found == ([f"F01: tests/a.py::test ({tier}) {outcome}"] if told else [])


def test_who_asks_for_the_long_ones_is_told_of_those_that_were_not_run() -> None:
    rows = [*all_passed(), row("F01", "not run", "long"), row("F02", "passed", "long")]
    assert complaints(rows, long=True) == ["F01: tests/a.py::test (long) not run"]


def test_a_scenario_without_tests_and_an_unknown_one_are_told() -> None:
    told = complaints([row("F99")])
    assert "F99: no such scenario" in told
    assert len([line for line in told if line.endswith(": no test")]) == SCENARIOS_IN_ALL


def test_the_last_result_of_a_marked_test_counts() -> None:
    marked = [row("F01", "not run"), row("F02", "not run")]
    last = [row("F01", "passed", run="def5678, later")]
    rows = merged(marked, [row("F01", "failed"), row("F99")], last, [row("F01", "not run")])
    assert [(each.scenario, each.outcome, each.run) for each in rows] == [
        ("F01", "passed", "def5678, later"),
        ("F02", "not run", ""),
    ]


def test_a_line_says_what_passed_what_did_not_run_and_why_a_failure_cannot_happen() -> None:
    page = page_of([row("F24", excluded="no message names code"), row("F24", "not run", "long")])
    (line,) = [line for line in page.splitlines() if line.startswith("| F24 ")]
    assert line.endswith(
        "| `a.py::test`<br>`a.py::test` *long* |"
        " cannot happen: no message names code; 1 passed (run 1); *long*: 1 not run |"
    )


def test_the_page_says_of_which_commit_and_when_each_result_is() -> None:
    rows = [row("F01"), row("F01", tier="long", run="abc1234 with changes, later")]
    page = page_of([*rows, row("F02", tier="long", run=""), row("F03", "not run", "long")])
    assert "\n- run 1: of which commit and when was not noted\n" in page
    assert "\n- run 2: abc1234 with changes, later\n- run 3: abc1234, then\n\n| |" in page
    assert "| 1 passed (run 3); *long*: 1 passed (run 2) |\n" in page
    assert "| *long*: 1 passed (run 1) |\n" in page


def test_a_run_names_the_commit_of_its_tree_and_its_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert this_run(tmp_path).startswith("no commit known, 20")
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    commit = git("rev-parse", "--short", "HEAD")
    assert this_run(tmp_path).startswith(f"{commit}, 20")
    (tmp_path / "file").write_text("two")
    assert this_run(tmp_path).startswith(f"{commit} with changes, 20")

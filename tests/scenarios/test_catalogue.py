"""The table of scenarios is whole: every id has tests, every marked test an id, and the page both."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.page import Row, complaints, merged, page_of, rows_from

ROOT = Path(__file__).parents[2]
IDS = {scenario.id for scenario in SCENARIOS}
SCENARIOS_IN_ALL = 47


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str, str]]:
    """(scenario, test, tier) for every marked test, as pytest itself collects them."""
    path = tmp_path_factory.mktemp("scenarios") / "marked.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.scenarios.plugin", "-m"]
    command += ["scenario", "--collect-only", "-p", "no:cacheprovider"]
    command += ["--scenario-results", str(path)]
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


def row(scenario: str, outcome: str = "passed", tier: str = "daily", excluded: str = "") -> Row:
    return Row(
        scenario=scenario, test="tests/a.py::test", tier=tier, outcome=outcome, excluded=excluded
    )


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


def test_a_scenario_without_tests_and_an_unknown_one_are_told() -> None:
    told = complaints([row("F99")])
    assert "F99: no such scenario" in told
    assert len([line for line in told if line.endswith(": no test")]) == SCENARIOS_IN_ALL


def test_the_last_result_of_a_marked_test_counts() -> None:
    marked = [row("F01", "not run"), row("F02", "not run")]
    rows = merged(marked, [row("F01", "failed"), row("F99")], [row("F01", "passed")])
    assert [(each.scenario, each.outcome) for each in rows] == [
        ("F01", "passed"),
        ("F02", "not run"),
    ]


def test_a_line_says_what_passed_what_did_not_run_and_why_a_failure_cannot_happen() -> None:
    page = page_of([row("F24", excluded="no message names code"), row("F24", "not run", "long")])
    (line,) = [line for line in page.splitlines() if line.startswith("| F24 ")]
    assert line.endswith(
        "| `a.py::test`<br>`a.py::test` *long* |"
        " cannot happen: no message names code; 1 passed; *long*: 1 not run |"
    )

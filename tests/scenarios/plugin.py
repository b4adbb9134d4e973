"""pytest plugin of `python -m tests.scenarios`: writes which test of which scenario ended how.

Works under xdist: what a test shows travels to the writing process as a property of its report.
"""

import json
from pathlib import Path

import pytest

PROPERTY = "scenario"
# Worse ones later: of a test's phases, and of its parameters, the worst outcome counts.
OUTCOMES = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--scenario-results FILE`: where to write; `--scenario-ids F03,F11`: only these."""
    parser.addoption("--scenario-results", type=Path, default=None)
    parser.addoption("--scenario-ids", default="")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test takes its scenarios' ids along; those of other scenarios are left out."""
    only = set(filter(None, config.getoption("--scenario-ids").split(",")))
    if only:
        items[:] = [item for item in items if only & _ids_of(item)]
    for item in items:
        for mark in item.iter_markers(PROPERTY):
            for each in mark.args:
                shown = [each, mark.kwargs.get("excluded", "")]
                item.user_properties.append((PROPERTY, shown))


def _ids_of(item: pytest.Item) -> set[str]:
    return {each for mark in item.iter_markers(PROPERTY) for each in mark.args}


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that hears all reports writes."""
    path = config.getoption("--scenario-results")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(path))


class Results:
    """What the reports said, and at the end one JSON list of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[tuple[str, str], dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase (set-up, call, tear-down) of one test."""
        test, _, _parameters = report.nodeid.partition("[")
        for name, shown in report.user_properties:
            if name == PROPERTY and isinstance(shown, list):
                self._take(shown[0], test, report.outcome, shown[1])

    def _take(self, scenario: str, test: str, outcome: str, excluded: str) -> None:
        row = self._rows.setdefault(
            (scenario, test),
            {"scenario": scenario, "test": test, "outcome": outcome, "excluded": excluded},
        )
        row["outcome"] = max(row["outcome"], outcome, key=OUTCOMES.index)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With --collect-only nothing runs: what is marked is listed, without an outcome."""
        if session.config.option.collectonly:
            for item in session.items:
                for scenario in _ids_of(item):
                    self._take(scenario, item.nodeid.partition("[")[0], "passed", "")

    def pytest_sessionfinish(self) -> None:
        """Write, also when tests failed."""
        rows = [self._rows[key] for key in sorted(self._rows)]
        self._path.write_text(json.dumps(rows, indent=1) + "\n")

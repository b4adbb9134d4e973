"""pytest plugin of `python -m tests.scenarios`: writes which test of which scenario ended how.

Works under xdist: what a test shows travels to the writing process as a property of its report.
"""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

PROPERTY = "scenario"
# Worse ones later: of a test's phases, and of its parameters, the worst outcome counts.
NOT_RUN = "not run"
OUTCOMES = (NOT_RUN, "passed", "skipped", "failed")
# The page itself says nothing of what was tried.
CHANGES = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/scenarios.md")


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
                shown = [each, mark.kwargs.get("excluded", ""), _tier_of(item)]
                item.user_properties.append((PROPERTY, shown))


def _ids_of(item: pytest.Item) -> set[str]:
    return {each for mark in item.iter_markers(PROPERTY) for each in mark.args}


def _tier_of(item: pytest.Item) -> str:
    return "long" if item.get_closest_marker("long") else "daily"


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that hears all reports writes."""
    path = config.getoption("--scenario-results")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(path, this_run(config.rootpath)))


def this_run(root: Path) -> str:
    """Of which commit the tree is, with changes or not, and what time it is (UTC)."""
    commit = _git(root, "rev-parse", "--short", "HEAD") or "no commit known"
    changed = " with changes" if _git(root, *CHANGES) else ""
    return f"{commit}{changed}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _git(root: Path, *arguments: str) -> str:
    """What git says; nothing where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


class Results:
    """What the reports said, and at the end one JSON list of it; what the file held is kept."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._rows: dict[tuple[str, ...], dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase (set-up, call, tear-down) of one test."""
        for name, shown in report.user_properties:
            if name == PROPERTY and isinstance(shown, list):
                self._take(report.nodeid, shown, report.outcome)

    def _take(self, nodeid: str, shown: list[str], outcome: str) -> None:
        test, _, _parameters = nodeid.partition("[")
        scenario, excluded, tier = shown
        row = self._rows.setdefault(
            (scenario, test, tier),
            {
                "scenario": scenario,
                "test": test,
                "tier": tier,
                "outcome": outcome,
                "excluded": excluded,
                "run": "" if outcome == NOT_RUN else self._run,
            },
        )
        row["outcome"] = max(row["outcome"], outcome, key=OUTCOMES.index)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With --collect-only nothing runs: what is marked is listed, without an outcome."""
        if session.config.option.collectonly:
            for item in session.items:
                for name, shown in item.user_properties:
                    if name == PROPERTY and isinstance(shown, list):
                        self._take(item.nodeid, shown, NOT_RUN)

    def pytest_sessionfinish(self) -> None:
        """Write, also when tests failed."""
        before = json.loads(self._path.read_text()) if self._path.exists() else []
        kept = {(row["scenario"], row["test"], row["tier"]): row for row in before} | self._rows
        rows = [kept[key] for key in sorted(kept)]
        self._path.write_text(json.dumps(rows, indent=1) + "\n")

"""pytest plugin of `python -m tests.mutants`: how each test ended, and whether by an assertion.

A test is killed by its own words only: `assert`, pytest.fail() or pytest.raises() in a file below
tests/. An error of a fixture, an import, or an exception that went through the test is none.
"""

import json
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

# What differs from run to run and says nothing.
RANDOM = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f-]{4,}\.\.\.[0-9a-f-]*"  # one that pytest has shortened
    r"|0x[0-9a-f]{6,}"
)
LONGEST_SAYING = 140


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--mutant-results FILE`: where to write."""
    parser.addoption("--mutant-results", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Listen to every report."""
    config.pluginmanager.register(Ends(config.getoption("--mutant-results"), config.rootpath))


class Ends:
    """Test id → (passed, asserted or broke; what it said), written at the end of the session."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._ends: dict[str, tuple[str, str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Judge one phase; a set-up that failed is no assertion, a skipped test has not passed."""
        if call.excinfo is not None:
            asserted = call.when == "call" and self._asserted(call.excinfo.value)
            self._ends[item.nodeid] = ("asserted" if asserted else "broke", said(call.excinfo))
        else:
            self._ends.setdefault(item.nodeid, ("passed", ""))
        return (yield)

    def _asserted(self, error: BaseException) -> bool:
        if not isinstance(error, AssertionError | pytest.fail.Exception):
            return False
        frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        ours = [path.relative_to(self._root) for path in frames if self._root in path.parents]
        return bool(ours) and ours[-1].parts[0] == "tests"

    def pytest_sessionfinish(self) -> None:
        """Write, also when tests failed."""
        self._path.write_text(json.dumps(self._ends))


def said(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The first line of what it said, without what differs from run to run."""
    words = str(excinfo.value).strip() or excinfo.typename
    line = RANDOM.sub("…", words.splitlines()[0])
    if not isinstance(excinfo.value, AssertionError | pytest.fail.Exception):
        line = f"{excinfo.typename}: {line}"
    return line if len(line) <= LONGEST_SAYING else f"{line[:LONGEST_SAYING]}…"

"""Libraries that are imported by their first use: absent ones are refused at the start."""

import subprocess
import sys

import pytest

from worker.later import refuse_without

LATER = ("flint", "xlsxwriter", "opentelemetry")


def test_what_is_not_installed_is_refused_by_its_name() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library") as refused:
        refuse_without("no_such_library")
    assert refused.value.name == "no_such_library"


@pytest.mark.parametrize("library", ["flint", "xlsxwriter"])
def test_a_worker_without_a_library_does_not_load_its_handlers(library: str) -> None:
    """Found where it fails before any job: where the handlers are loaded."""
    ended = _run(
        "import sys\n"
        "from importlib import machinery\n"
        "whole = machinery.PathFinder.find_spec\n"
        f"machinery.PathFinder.find_spec = lambda name, *given: None if name == {library!r} "
        "else whole(name, *given)\n"
        "from shared.kinds.registry import load_kinds\n"
        "from worker.handlers import load_handlers\n"
        "load_handlers('', load_kinds(''))"
    )
    assert ended.returncode == 1
    assert "ConfigRefused" in ended.stderr
    assert f"ModuleNotFoundError: No module named {library!r}" in ended.stderr


def test_a_start_imports_none_of_them() -> None:
    ended = _run(
        "import sys, worker.__main__\n"
        "from shared.kinds.registry import load_kinds\n"
        "from worker.handlers import load_handlers\n"
        "load_handlers('', load_kinds(''))\n"
        f"print([name for name in {LATER} if name in sys.modules])"
    )
    assert ended.stdout == "[]\n", ended.stderr


def _run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

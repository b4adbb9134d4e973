"""How the command itself behaves: fast, honest about its exit codes, one way in."""

import json
import subprocess
import sys

import pytest

from shared.cli import COMMANDS, chot, run

SLOW = ["alembic", "httpx", "pydantic", "rich", "sqlalchemy"]


def test_help_names_every_command_and_imports_none() -> None:
    """Start-up stays fast: what a command needs is imported when that command runs."""
    program = (
        "import json, sys; from shared.cli import run; run(['--help']);"
        f"print(json.dumps([m for m in {SLOW} if m in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stderr) == []
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    command = chot.get_command(chot.make_context("chot", [name]), name)
    assert command is not None
    assert command.help


@pytest.mark.parametrize("words", [["nonsense"], ["submit"], ["wait"], ["list", "--state", "odd"]])
def test_a_wrong_command_line_ends_with_2(words: list[str]) -> None:
    assert run(words) == 2


def test_a_bug_of_ours_is_not_mistaken_for_an_answer() -> None:
    """Exit code 1 means something; a traceback ends with 70."""
    program = "import shared.cli; shared.cli.chot.main = lambda *a, **k: 1 / 0; shared.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert "ZeroDivisionError" in done.stderr


def test_a_side_that_is_not_installed_is_said_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The api's image has no worker, and says so instead of showing a traceback."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert run(["worker"]) == 78
    assert "the worker is not installed here" in capsys.readouterr().err

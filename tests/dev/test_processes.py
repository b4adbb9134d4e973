"""Children end with their parent, and waiting for them has an end and a reason."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.processes import TETHER, Command, StartFailed, poll_until, start, wait_until
from tests.services import ROOT

STARTER = """
import sys, time
from dev.processes import Command, start
print(start(Command(name="sleeper", argv=["sleep", "60"])).pid, flush=True)
time.sleep(60)
"""
IGNORES_TERM = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"


def gone(pid: int) -> bool:
    """Whether the process has ended; a zombie nobody collected has."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_child_dies_when_its_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        assert not gone(child)
        starter.kill()
    assert poll_until(lambda: gone(child), 5.0)


def test_a_tethered_command_does_not_start_without_its_parent() -> None:
    argv = [sys.executable, "-I", "-S", str(TETHER), "1", "9", "", "echo", "started"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (127, "")


def test_stop_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = start(Command(name="deaf", argv=["sh", "-c", IGNORES_TERM], log=log))
    wait_until(lambda: log.read_text() != "", child, deadline_seconds=5.0, what="listening")
    assert child.stop(grace=0.1) == -signal.SIGKILL
    assert child.stop(grace=0.1) == -signal.SIGKILL, "stopping twice is no error"


def test_a_child_that_ends_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo no room here; exit 3"]
    child = start(Command(name="picky", argv=argv, log=tmp_path / "log"))
    with pytest.raises(StartFailed, match=r"picky ended with 3 before ready:\nno room here"):
        wait_until(lambda: False, child, deadline_seconds=5.0, what="ready")


def test_a_child_that_is_late_is_killed_and_named(tmp_path: Path) -> None:
    child = start(Command(name="slow", argv=["sleep", "60"], log=tmp_path / "log"))
    with pytest.raises(StartFailed, match=r"slow: not ready after 0\.1 s"):
        wait_until(lambda: False, child, deadline_seconds=0.1, what="ready")
    assert not child.alive

"""Liveness: fresh while the loops run, stale when one of them does not, and no wall clock."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from shared.errors import ConfigRefused
from shared.logs import configure_logs
from shared.types import WorkerId
from tests.factories import TIMING
from worker import liveness
from worker.heartbeat import SILENT_SECONDS, Heart
from worker.liveness import STALE_SECONDS, Liveness, age_of, liveness_path, main
from worker.presence import Presence


class Counted(Liveness):
    """Counts the touches."""

    touches = 0

    def touch(self) -> None:
        self.touches += 1


class Held:
    """What the liveness asks of a lease."""

    def __init__(self, hard_deadline: float) -> None:
        self.hard_deadline = hard_deadline


def heart(alive: Liveness) -> Heart:
    """A heart that does not beat: its parts are asked one by one."""
    presence = Presence(worker_id=WorkerId("a"), host="h", pid=1, code_version="t", kinds={})
    return Heart(
        database_url="postgresql://nobody@127.0.0.1:1/none",
        queue_prefix="none",
        timing=replace(TIMING, heartbeat=1),
        presence=presence,
        visibility_cap_seconds=60,
        exit_grace_seconds=5,
        liveness=alive,
    )


def told(beating: Heart, alive: Counted, **changes: Any) -> bool:
    """Whether the heart says that the worker is alive, with these attributes set."""
    for name, value in changes.items():
        setattr(beating, name, value)
    before = alive.touches
    beating._tell_liveness(monotonic())
    return alive.touches > before


def test_both_loops_must_turn_and_a_blocking_job_has_its_time(tmp_path: Path) -> None:
    """Nobody asks for a database: only for the loops, and for what a kind's timeout allows."""
    alive = Counted(tmp_path / "alive")
    beating = heart(alive)
    now, long_ago = monotonic(), monotonic() - SILENT_SECONDS - 1
    assert told(beating, alive), "idle"
    assert not told(beating, alive, _answered_at=long_ago), "the jobs' loop is wedged"
    blocking: dict[str, Any] = {"_answered_at": long_ago}
    assert told(beating, alive, **blocking, _held={1: Held(now + 60)}), "a job may block it so long"
    assert told(beating, alive, **blocking, _held={1: Held(now - 1)}), "and the grace after that"
    assert not told(beating, alive, **blocking, _held={1: Held(now - 6)}), "and not longer"
    assert not told(beating, alive, _answered_at=now, _held={}, _turned_at=long_ago), "no heart"


def test_a_fresh_file_is_alive_and_an_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The health check's exit code is all that ECS looks at."""
    path = tmp_path / "alive"
    monkeypatch.setenv("CHOT_LIVENESS_FILE", str(path))
    assert main() == 1, "missing"
    Liveness.open(str(path)).touch()
    assert main() == 0
    os.utime(path, (0, 0))
    assert main() == 0, "the file's own date is a wall clock"
    monkeypatch.setattr(liveness, "monotonic", lambda: monotonic() + STALE_SECONDS + 1)
    assert main() == 1
    assert "not alive" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "words", "9e9"])
def test_what_cannot_be_a_touch_of_this_machine_is_none(tmp_path: Path, content: str) -> None:
    """Half a file, somebody else's, or one from before a reboot."""
    path = tmp_path / "alive"
    path.write_text(content)
    assert age_of(path) is None


def test_it_is_touched_once_a_second_at_most(tmp_path: Path) -> None:
    """The heart looks ten times a second; the disk need not know."""
    alive = Liveness(tmp_path / "alive")
    alive.touch()
    first = age_of(tmp_path / "alive")
    assert first is not None
    (tmp_path / "alive").unlink()
    alive.touch()
    assert age_of(tmp_path / "alive") is None


def test_a_disk_that_refuses_stops_nothing_but_a_setting_is_checked(tmp_path: Path) -> None:
    """A file that was asked for and cannot be written would get every task killed."""
    nowhere = tmp_path / "nowhere" / "alive"
    with capture_logs() as logs:
        alive = Liveness(nowhere)
        alive.touch()
    assert [line["event"] for line in logs] == ["liveness.not_written"]
    with pytest.raises(ConfigRefused, match="CHOT_LIVENESS_FILE"):
        Liveness.open(str(nowhere))


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    """The temp directory belongs to everybody."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "alive").symlink_to(victim)
    (tmp_path / f"alive.{os.getpid()}").symlink_to(victim)
    Liveness(tmp_path / "alive").touch()
    assert victim.read_text() == "precious"
    assert age_of(tmp_path / "alive") is not None


def test_the_default_stands_in_the_temp_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker and health check find the same file without any setting."""
    monkeypatch.setattr("tempfile.tempdir", "/somewhere")
    assert liveness_path() == Path("/somewhere/chot-worker-alive")
    assert liveness_path("/x/y") == Path("/x/y")


def test_a_blocked_loop_is_said_in_words_for_people_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log for a terminal once took the stack for text, and the watch died of it."""
    beating = heart(Counted(tmp_path / "alive"))
    beating._ping = lambda _call: None
    beating._ponged_at = monotonic() - 5
    for style in ("text", "json"):
        configure_logs(style)
        try:
            beating._watch_lag(0.1)
        finally:
            structlog.reset_defaults()
        beating._ponged_at = monotonic() - 5
    assert capsys.readouterr().err.count("loop.blocked") == 2


async def test_a_heart_whose_database_is_away_keeps_the_worker_live(tmp_path: Path) -> None:
    """The real thread, nobody at the database's port: the loops turn, so the file is fresh."""
    path = tmp_path / "alive"
    beating = heart(Liveness(path))
    beating.start(asyncio.get_running_loop())
    try:
        async with asyncio.timeout(10):
            while beating.beats < 2 or age_of(path) is None:  # noqa: ASYNC110 - another thread's
                await asyncio.sleep(0.05)
        assert not await beating.first_beat(0.01), "it has reached nothing"
    finally:
        await beating.stop()

"""Liveness: a file that the worker's loops touch, and the health check that looks at it.

`python -m worker.liveness` exits 0 while the file is fresh and 1 when it is stale or missing: for
the health check of a task definition. Whether PostgreSQL or SQS can be had is no part of it, or an
outage would restart the fleet and kill what runs. `--ready` looks at the file beside it, which says
whether the worker could take a job (worker/readiness.py).
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from shared.errors import ConfigRefused
from shared.logs import log

SETTING = "CHOT_LIVENESS_FILE"
TOUCH_SECONDS = 1.0
STALE_SECONDS = 30.0
READY_STALE_SECONDS = 5.0  # what it is touched for has been judged over three periods already


def liveness_path(setting: str = "") -> Path:
    """Where the file is: what CHOT_LIVENESS_FILE says, or a name of ours in the temp directory."""
    return Path(setting) if setting else Path(tempfile.gettempdir()) / "chot-worker-alive"


def readiness_path(setting: str = "") -> Path:
    """The file beside it, touched while a job could be taken."""
    alive = liveness_path(setting)
    return alive.with_name(f"{alive.name}-ready")


class Liveness:
    """Touches the file, at most once a second; may be called from any thread.

    What is written is the monotonic clock, which all processes of a machine share: a wall clock
    that is set makes nobody look dead.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._touched_at = float("-inf")
        self._failed = False

    @classmethod
    def open(cls, setting: str) -> "Liveness":
        """Touch it for the first time; ConfigRefused when the file that was asked for cannot be."""
        opened = cls(liveness_path(setting))
        opened.touch()
        if setting and opened._failed:
            raise ConfigRefused(f"{SETTING}={setting}: cannot be written")
        return opened

    def touch(self) -> None:
        """Say that whoever calls is alive; a disk that refuses is no reason to stop."""
        now = monotonic()
        if now < self._touched_at + TOUCH_SECONDS:
            return
        self._touched_at = now
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            with fresh.open("x") as file:  # never through a link that somebody has put there
                file.write(f"{now!r}\n")  # unrounded: rounded up, it would lie in the future
            fresh.replace(self._path)
        except OSError as error:
            if not self._failed:
                log.warning("liveness.not_written", path=str(self._path), error=str(error))
            self._failed = True
        else:
            self._failed = False


def age_of(path: Path) -> float | None:
    """Seconds since the file was touched; None when there is none that can be read.

    A file from before a reboot lies in the future and counts as none.
    """
    try:
        age = monotonic() - float(path.read_text())
    except (OSError, ValueError):
        return None
    return age if age >= 0 else None


def main(argv: Sequence[str] = ()) -> int:
    """The health check, or with --ready the look at the other file: 0 fresh, 1 stale or missing."""
    setting, ready = os.environ.get(SETTING, ""), "--ready" in argv
    path = readiness_path(setting) if ready else liveness_path(setting)
    age = age_of(path)
    fresh = age is not None and age <= (READY_STALE_SECONDS if ready else STALE_SECONDS)
    said = "is missing" if age is None else f"was touched {age:.1f} s ago"
    what = "ready" if ready else "alive"
    sys.stderr.write(f"{path} {said}: {what if fresh else f'not {what}'}\n")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

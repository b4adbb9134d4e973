"""Working containers of buildah: enough of a container engine to start, signal and remove one."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.processes import Child, Command, StartFailed, start

STOP_SECONDS = 60.0
RUN = ("buildah", "run", "--network", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A working container and the `buildah run` that executes one command in it."""

    name: str
    side: str
    child: Child

    def terminate(self) -> None:
        """SIGTERM the program itself, as an engine does to pid 1; StartFailed unless it ends 0."""
        for pid in _leaves(self.child.pid):
            os.kill(pid, signal.SIGTERM)
        code = self.child.wait(STOP_SECONDS)
        if code != 0:
            raise StartFailed(
                f"the {self.side} ended with {code} on SIGTERM:\n{self.child.last_words()}"
            )


def start_container(
    side: str, command: Sequence[str], *, env: Mapping[str, str], log: Path
) -> Container:
    """Make a container of chot-SIDE and run the command in it, as the image's own user."""
    name = _make(side)
    given = [f"--env={key}={value}" for key, value in env.items()]
    argv = [*RUN, *given, name, "--", *command]
    child = start(Command(name=f"{side} container", argv=argv, log=log))
    return Container(name=name, side=side, child=child)


def output_of(side: str, command: Sequence[str]) -> str:
    """Run a short command in a container of its own and return what it printed."""
    name = _make(side)
    try:
        done = subprocess.run(
            [*RUN, name, "--", *command], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()
    finally:
        _remove(name)


def remove(container: Container) -> None:
    """Kill what still runs in it, then remove it."""
    for pid in _leaves(container.child.pid):
        os.kill(pid, signal.SIGKILL)
    container.child.stop(grace=5.0)
    _remove(container.name)


def _make(side: str) -> str:
    made = subprocess.run(
        ["buildah", "from", "--pull-never", f"localhost/chot-{side}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.strip()


def _remove(name: str) -> None:
    done = subprocess.run(["buildah", "rm", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"images: {done.stderr.strip()}", file=sys.stderr)


def _leaves(pid: int) -> list[int]:
    """Return the program below buildah's own processes: the topmost that is not buildah."""
    if not Path(f"/proc/{pid}").exists():
        return []
    if "buildah" not in Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]:
        return [pid]
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [
        leaf
        for each in children
        for child in each.read_text().split()
        for leaf in _leaves(int(child))
    ]

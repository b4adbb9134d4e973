"""Child processes that end with us, and waiting for them by deadline instead of by sleeping."""

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
POLL_SECONDS = 0.02
PORTS = range(15_000, 32_768)
PORT_TRIES = 100
LOG_TAIL_BYTES = 4_000


class StartFailed(RuntimeError):
    """A child ended before it was ready, or was not ready in time; the text has its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. `death_signal` is sent by the kernel if the starting thread disappears."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    log: Path | None = None
    cwd: Path | None = None
    user: str = ""
    death_signal: signal.Signals = signal.SIGKILL


class Child:
    """A running child in a session of its own, so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self._process = process

    @property
    def name(self) -> str:
        """The name given in the command."""
        return self.command.name

    @property
    def pid(self) -> int:
        """The pid of the program itself: the tether became it."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.poll()

    @property
    def alive(self) -> bool:
        """Whether it has not been seen to end. A stopped (SIGSTOP) child is alive."""
        return self.exit_code is None

    def send(self, which: signal.Signals) -> None:
        """Signal the process; one that is already gone is no error."""
        self._process.send_signal(which)

    def wait(self, timeout: float) -> int:
        """Return the exit code, or raise TimeoutError after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"{self.name} (pid {self.pid}) did not end in {timeout} s") from late

    def stop(self, first: signal.Signals = signal.SIGTERM, grace: float = 10.0) -> int:
        """Ask with `first`, wait `grace` seconds, then kill its whole session. Idempotent."""
        self.send(first)
        try:
            return self.wait(grace)
        except TimeoutError:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL the process and everything that stayed in its process group."""
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        log = self.command.log
        if log is None or not log.exists():
            return "(no log)"
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()


def start(command: Command) -> Child:
    """Start the command tethered to the calling thread: call it from one that stays.

    Output is appended to `command.log`, or goes to our stderr. stdin is empty.
    """
    launcher = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())]
    argv = [*launcher, str(int(command.death_signal)), command.user, *command.argv]
    output = None if command.log is None else command.log.open("ab")
    try:
        process = subprocess.Popen(
            argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output or sys.stderr.fileno(),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        if output is not None:
            output.close()
    return Child(command, process)


def wait_until(
    ready: Callable[[], bool], child: Child, *, deadline_seconds: float, what: str
) -> None:
    """Poll `ready` until it holds; raise StartFailed if the child ends or time runs out first."""
    in_time = poll_until(lambda: not child.alive or ready(), deadline_seconds)
    if not child.alive:
        raise StartFailed(
            f"{child.name} ended with {child.exit_code} before {what}:\n{child.last_words()}"
        )
    if not in_time:
        child.kill()
        raise StartFailed(
            f"{child.name}: not {what} after {deadline_seconds:g} s:\n{child.last_words()}"
        )


def poll_until(ready: Callable[[], bool], seconds: float) -> bool:
    """Return whether `ready` held before the time was over."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def answers(port: int, path: str) -> bool:
    """Whether a GET of that path on 127.0.0.1 is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listened on a moment ago.

    Below those that systems give to outgoing connections: a server that is started again finds
    its port as it left it.
    """
    for _ in range(PORT_TRIES):
        port = secrets.choice(PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port found between {PORTS[0]} and {PORTS[-1]}")


def is_listening(port: int) -> bool:
    """Whether something accepts connections on that port of 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0

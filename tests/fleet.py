"""Real worker and api processes on a test's own database and queues."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.processes import Child, Command, answers, free_port, start, wait_until
from dev.sqs import aws_environment
from tests.services import Database

ROOT = Path(__file__).parents[1]
PROBE_MODULES = {
    "CHOT_KIND_MODULES": "tests.probes.kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers",
}


def lease_settings(lease: float) -> dict[str, str]:
    """Environment for a short lease, with everything that hangs on it scaled along."""
    return {
        "CHOT_LEASE_SECONDS": f"{lease:g}",
        "CHOT_HEARTBEAT_SECONDS": f"{lease / 4:g}",
        "CHOT_VISIBILITY_SECONDS": str(max(2, round(lease * 2))),
        "CHOT_REAPER_SECONDS": f"{lease / 3:g}",
        "CHOT_RECONCILER_SECONDS": f"{lease:g}",
    }


@dataclass(slots=True)
class Fleet:
    """Starts processes and ends them all when the test ends."""

    database: Database
    prefix: str
    endpoint: str
    logs: Path
    lease: float = 3.0
    children: list[Child] = field(default_factory=list)
    # Database URLs through the test's proxy, where it has one.
    proxied: dict[str, str] = field(default_factory=dict)

    def environment(self, **changes: str) -> dict[str, str]:
        """What a worker or api of this test runs in."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CHOT_")}
        return (
            kept
            | aws_environment(self.endpoint)
            | PROBE_MODULES
            | lease_settings(self.lease)
            | {
                "PYTHONPATH": str(ROOT),
                "CHOT_DATABASE_URL": self.database.app_url,
                "CHOT_READ_DATABASE_URL": self.database.read_url,
                "CHOT_QUEUE_PREFIX": self.prefix,
                "CHOT_QUEUES": "default",
                "CHOT_POLL_SECONDS": "1",
                "CHOT_RELAY_POLL_SECONDS": "0.3",
                "CHOT_DRAIN_SECONDS": "10",
                "CHOT_KILL_GRACE_SECONDS": "1",
                "CHOT_LOG_FORMAT": "json",
                # Tests of rights bring a token, or say that they want keys.
                "CHOT_API_OPEN": "false" if "CHOT_TOKEN" in changes else "true",
            }
            | changes
        )

    def worker(self, **changes: str) -> Child:
        """Start one worker process; it is ready when it claims."""
        return self._start("worker", [sys.executable, "-m", "worker"], changes)

    def api(self, **changes: str) -> tuple[Child, str]:
        """Start one api process and wait until it is ready; answers its URL, too."""
        port = free_port()
        ours = {"CHOT_API_HOST": "127.0.0.1", "CHOT_API_PORT": str(port)} | changes
        child = self._start("api", [sys.executable, "-m", "api"], ours)
        wait_until(lambda: answers(port, "/readyz"), child, deadline_seconds=30, what="ready")
        return child, f"http://127.0.0.1:{port}"

    def _start(self, name: str, argv: list[str], changes: dict[str, str]) -> Child:
        number = len(self.children) + 1
        child = start(
            Command(
                name=f"{name} {number}",
                argv=argv,
                env=self.environment(**changes),
                log=self.logs / f"{name}{number}.log",
                cwd=self.logs,
            )
        )
        self.children.append(child)
        return child

    @property
    def workers(self) -> list[Child]:
        """Every worker that was ever started, the dead ones included."""
        return [child for child in self.children if child.name.startswith("worker")]

    def events(self, child: Child, event: str) -> list[dict[str, Any]]:
        """The log lines of a child with this event name."""
        return [line for line in log_lines(child) if line.get("event") == event]

    def close(self) -> None:
        """Kill whatever still runs, stopped processes included."""
        for child in self.children:
            if child.alive:
                child.send(signal.SIGCONT)
                child.kill()


def log_lines(child: Child) -> list[dict[str, Any]]:
    """A child's log, line by line; what is no JSON is left out."""
    path = child.command.log
    assert path is not None, "every child of a fleet writes a log"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [found for line in lines if (found := _parsed(line)) is not None]


def _parsed(line: str) -> dict[str, Any] | None:
    """None for other people's words, and for a line that is only half written."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def open_fleet(
    database: Database, prefix: str, endpoint: str, logs: Path, *, lease: float = 3.0
) -> Iterator[Fleet]:
    """A fleet whose processes are all gone when the block ends."""
    fleet = Fleet(database, prefix, endpoint, logs, lease)
    try:
        yield fleet
    finally:
        fleet.close()

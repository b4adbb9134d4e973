"""The apis and workers of a stack: started, watched, started again, stopped in order."""

import asyncio
import signal
from collections.abc import Callable, Iterable
from time import monotonic

from dev.processes import Child, Command, start

POLL_SECONDS = 0.1
BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 10.0
HEALTHY_SECONDS = 30.0
EX_CONFIG = 78
Say = Callable[[str], None]


class Member:
    """One api or worker: its command, and the process that runs it at the moment."""

    def __init__(self, command: Command, *, port: int | None = None) -> None:
        self.command = command
        self.port = port
        self.wanted = True
        self.backoff = BACKOFF_FIRST_SECONDS
        self.due_at: float | None = None
        self._started_at = monotonic()
        self.child: Child = start(command)

    @property
    def name(self) -> str:
        """`api-1`, `worker-2`: the log file's name as well."""
        return self.command.name

    @property
    def pid(self) -> int:
        """The pid of the current process, which may have ended."""
        return self.child.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs (a SIGSTOPped one does)."""
        return self.child.alive

    def restart(self) -> None:
        """Start the command again; the old process must have ended."""
        assert not self.child.alive, "one process a member"
        self.due_at = None
        self.wanted = True
        self._started_at = monotonic()
        self.child = start(self.command)

    def send(self, which: signal.Signals) -> None:
        """Signal the process, e.g. SIGSTOP and SIGCONT."""
        self.child.send(which)

    async def kill(self, *, wanted: bool = False) -> int:
        """SIGKILL it. With `wanted`, a supervised stack starts it again, as after a crash."""
        self.wanted = wanted
        self.child.send(signal.SIGKILL)
        return await asyncio.to_thread(self.child.wait, 10.0)

    async def stop(self, grace: float) -> int:
        """SIGTERM, `grace` seconds to drain, then SIGKILL; return the exit code."""
        self.wanted = False
        if self.child.alive:
            self.child.send(signal.SIGCONT)  # a stopped process would not hear of the SIGTERM
        return await asyncio.to_thread(self.child.stop, signal.SIGTERM, grace)

    def plan_restart(self) -> float:
        """Note when to start again and return the wait: doubling, reset by a healthy while."""
        if monotonic() - self._started_at > HEALTHY_SECONDS:
            self.backoff = BACKOFF_FIRST_SECONDS
        wait, self.backoff = self.backoff, min(self.backoff * 2, BACKOFF_CAP_SECONDS)
        self.due_at = monotonic() + wait
        return wait


async def supervise(members: Iterable[Member], say: Say) -> None:
    """Start again whatever ends without being asked to, for ever; cancel to end."""
    while True:
        for member in list(members):
            if member.wanted and not member.alive:
                _revive(member, say)
        await asyncio.sleep(POLL_SECONDS)


def _revive(member: Member, say: Say) -> None:
    if member.due_at is None:
        code = member.child.exit_code
        if code == EX_CONFIG:
            member.wanted = False
            say(f"{member.name} refused its configuration:\n{member.child.last_words()}")
            return
        wait = member.plan_restart()
        say(f"{member.name} (pid {member.pid}) ended with {code}, again in {wait:g} s")
    elif monotonic() >= member.due_at:
        member.restart()
        say(f"{member.name} is pid {member.pid}")


async def stop_all(members: Iterable[Member], grace: float) -> None:
    """Stop them at the same time."""
    stopping = list(members)
    for member in stopping:
        member.wanted = False
    await asyncio.gather(*(member.stop(grace) for member in stopping))

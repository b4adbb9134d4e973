"""Offload: CPU work in a child process that can be killed, never in the coroutine.

One spawned child per attempt, started at the first call and used again by the next ones. It dies
with its parent (PDEATHSIG, and the end of its input), has no database URL in its environment, and
therefore no way to write beside the fence.
"""

import asyncio
import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from shared.errors import RetryableError
from worker.lease import HeldLease

T = TypeVar("T")
HEADER = struct.Struct("!Q")
# What a child must not know: how to reach the database, the queues, or the api.
SECRETS = ("CHOT_", "AWS_", "PG")
KEPT = {"CHOT_KIND_MODULES", "CHOT_HANDLER_MODULES"}


class ChildDied(RetryableError):
    """The child process ended without an answer: killed, out of memory, a crash."""


class Child:
    """The child process of one attempt."""

    def __init__(self, held: HeldLease) -> None:
        self._held = held
        self._process: asyncio.subprocess.Process | None = None
        self._busy = asyncio.Lock()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a module-level function in the child and give back what it returns.

        Arguments and result are pickled. What the function raises is raised here. ChildDied when
        the process ends without an answer. A cancelled call kills the child.
        """
        async with self._busy:
            process = await self._started()
            try:
                return cast("T", await self._ask(process, pickle.dumps((function, args))))
            except BaseException as error:
                if not isinstance(error, _Raised):
                    await self.kill()
                    raise
                raise error.error from None

    async def kill(self) -> None:
        """Kill the child, if there is one, and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        # Shielded: a child that is not waited for stays a zombie and is counted as living.
        await asyncio.shield(asyncio.ensure_future(process.wait()))
        self._held.children.discard(process.pid)

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "worker.child",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
        )
        self._held.children.add(self._process.pid)
        if self._held.stopped is not None:  # stopped while the child was being started
            self._held.kill_children()
        return self._process

    async def _ask(self, process: asyncio.subprocess.Process, request: bytes) -> Any:
        assert process.stdin is not None, "the child was started with pipes"
        assert process.stdout is not None, "the child was started with pipes"
        try:
            process.stdin.write(HEADER.pack(len(request)) + request)
            await process.stdin.drain()
            (size,) = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
            answer = await process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ChildDied(f"the child process {_how_it_ended(await process.wait())}") from error
        succeeded, value = pickle.loads(answer)  # noqa: S301 - our own child's answer
        if not succeeded:
            raise _Raised(value)
        return value


class _Raised(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in KEPT or not k.startswith(SECRETS)}
    return kept | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code} before it answered"
    hint = " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"

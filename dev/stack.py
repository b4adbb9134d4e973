"""`chot dev`: the whole platform on this machine, in the foreground, until Ctrl-C.

PostgreSQL, an SQS emulator, apis and workers as child processes. Nothing outlives this process,
not even its SIGKILL (Linux). `Stack` is the same thing for the demo and the journey tests.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from dev.processes import Command, StartFailed, free_port, is_listening
from dev.stack_backing import Backing, start_backing
from dev.stack_config import StackConfig, child_environment
from dev.stack_members import Member, Say, stop_all, supervise
from dev.stack_ready import wait_for_api, wait_for_workers

API_GRACE_SECONDS = 10.0
LOOK_SECONDS = 0.5
DRAIN_MARGIN_SECONDS = 10.0


def say_on_stderr(line: str) -> None:
    """Tell the person in front of it; stdout is for the answer."""
    print(line, file=sys.stderr, flush=True)


class Stack:
    """A running platform. Start and stop it from one thread: children are tied to that thread."""

    def __init__(self, config: StackConfig, say: Say = say_on_stderr) -> None:
        self.config = config
        self.members: list[Member] = []
        self._say = say
        self._backing: Backing | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._env: dict[str, str] = {}

    @property
    def apis(self) -> list[Member]:
        """The apis in the order of their start."""
        return [member for member in self.members if member.port is not None]

    @property
    def workers(self) -> list[Member]:
        """The workers in the order of their start."""
        return [member for member in self.members if member.port is None]

    @property
    def api_url(self) -> str:
        """Where the first api answers."""
        return f"http://127.0.0.1:{self.apis[0].port}"

    @property
    def backing(self) -> Backing:
        """Database and queues; only of a started stack."""
        assert self._backing is not None, "the stack has not been started"
        return self._backing

    async def backing_lost(self) -> str:
        """Return, in words, once PostgreSQL or the emulator has ended; cancel to stop looking.

        Neither is started again: the emulator's queues are gone with it.
        """
        while (loss := self.backing.loss) is None:  # noqa: ASYNC110 - a process tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        return loss

    def describe(self) -> dict[str, object]:
        """Return what `chot dev --json` prints: addresses, token, pids."""
        urls = self.backing.urls
        return {
            "api_url": self.api_url,
            "token": self.config.token,
            "database_url": urls.superuser,
            "sqs_endpoint": self.backing.sqs_endpoint,
            "api_urls": [f"http://127.0.0.1:{api.port}" for api in self.apis],
            "docs_url": f"{self.api_url}/docs",
            "pages_url": f"{self.api_url}/ui/",
            "app_database_url": urls.app,
            "read_database_url": urls.read,
            "queue_prefix": self.config.queue_prefix,
            "pid": os.getpid(),
            "api_pids": [api.pid for api in self.apis],
            "worker_pids": [worker.pid for worker in self.workers],
            "logs": str(self.config.logs),
        }

    async def start(self) -> Self:
        """Return once every api answers and every worker has reported itself to the database.

        Raises StartFailed, with nothing left running, if one does not.
        """
        if self.config.port and is_listening(self.config.port):
            raise StartFailed(f"port {self.config.port} is in use; choose another with --port")
        try:
            self._backing = await start_backing(self.config, self._say)
            urls, endpoint = self._backing.urls, self._backing.sqs_endpoint
            self._env = child_environment(self.config, urls, endpoint)
            await self._start_members()
        except BaseException:
            await self.stop()
            raise
        if self.config.supervise:
            self._supervisor = asyncio.create_task(
                supervise(self.members, self._say), name="supervise"
            )
        return self

    async def _start_members(self) -> None:
        self._say(f"starting {self.config.apis} api, {self.config.workers} workers")
        for number in range(self.config.apis):
            self._spawn_api(self.config.port if number == 0 else 0, {})
        for _ in range(self.config.workers):
            self.add_worker()
        for api in self.apis:
            await wait_for_api(api)
        await wait_for_workers(self.backing.urls.superuser, self.workers)

    async def add_api(self, env: Mapping[str, str] | None = None) -> Member:
        """Start one more api and return once it is ready."""
        api = self._spawn_api(0, env or {})
        await wait_for_api(api)
        return api

    def add_worker(self, env: Mapping[str, str] | None = None) -> Member:
        """Start one more worker, with settings of its own where given; it may not be up yet."""
        worker = Member(self._command("worker", len(self.workers) + 1, env or {}))
        self.members.append(worker)
        return worker

    def _spawn_api(self, port: int, env: Mapping[str, str]) -> Member:
        chosen = port or free_port()
        command = self._command("api", len(self.apis) + 1, {**env, "CHOT_API_PORT": str(chosen)})
        api = Member(command, port=chosen)
        self.members.append(api)
        return api

    def _command(self, module: str, number: int, env: Mapping[str, str]) -> Command:
        name = f"{module}-{number}"
        return Command(
            name=name,
            argv=[sys.executable, "-m", module],
            env={**self._env, **env},
            log=self.config.logs / f"{name}.log",
        )

    async def stop(self) -> None:
        """Workers drain first, then apis, the emulator, PostgreSQL. Idempotent."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        drain = float(self.config.setting("CHOT_DRAIN_SECONDS") or 0)
        await stop_all(self.workers, drain + DRAIN_MARGIN_SECONDS)
        await stop_all(self.apis, API_GRACE_SECONDS)
        if self._backing is not None:
            await asyncio.to_thread(self._backing.stop)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.stop()


if __name__ == "__main__":
    from dev.stack_cli import main

    main()

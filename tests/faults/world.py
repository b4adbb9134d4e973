"""The world of one run: processes behind proxies of their own, a database, queues, a history."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from urllib.parse import urlsplit

import asyncpg
import httpx

from dev.processes import Child, free_port
from dev.sqs import QueueAttributes, ensure_queues
from shared.settings import LeaseTiming
from tests.factories import timing
from tests.faults.backing import Backing
from tests.faults.history import History
from tests.faults.schema import AUDIT_SCHEMA, EFFECTS_SCHEMA
from tests.fleet import Fleet
from tests.services import Database, seed_company
from tests.sqs_proxy import SqsProxy, open_sqs_proxy
from tests.tcp_proxy import Proxy, open_proxy

LEASE = 3.0
WORKERS = 3
APIS = 2
READY_SECONDS = 40.0
DRAIN_SECONDS = 6.0
WATCH_SECONDS = 0.1
# A process that has stopped itself is continued after so many leases.
SELF_STOP_LEASES = 1.6
MODULES = {
    "CHOT_KIND_MODULES": "tests.faults.kinds",
    "CHOT_HANDLER_MODULES": "tests.faults.handlers",
    "CHOT_QUEUES": "default:6,costing:1",
    "CHOT_DRAIN_SECONDS": f"{DRAIN_SECONDS:g}",
}
# Of a brand's moves, by an operator; fault.limited has a maximum of its own.
LIMITS = """
    INSERT INTO chot.running_limits (kind, company, brand, max_running, principal)
    VALUES ('fault.move', 'ACME', 'RED', 5, 'operator')"""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where libfaketime leaves its files


@dataclass(slots=True)
class Slot:
    """The place of one process. Whoever does something to the process holds `lock`."""

    name: str
    proxy: Proxy
    settings: dict[str, str]
    port: int = 0
    child: Child | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_worker(self) -> bool:
        """Whether a worker runs here, not an api."""
        return self.name.startswith("worker")

    @property
    def url(self) -> str:
        """Where the api of this place answers."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(slots=True, kw_only=True)
class World:
    """Everything a nemesis or a client may touch."""

    backing: Backing
    database: Database
    fleet: Fleet
    sqs: SqsProxy
    slots: dict[str, Slot]
    history: History
    timing: LeaseTiming
    failures: list[str] = field(default_factory=list)

    @property
    def workers(self) -> list[Slot]:
        """The places of workers."""
        return [slot for slot in self.slots.values() if slot.is_worker]

    @property
    def apis(self) -> list[Slot]:
        """The places of apis."""
        return [slot for slot in self.slots.values() if not slot.is_worker]

    async def admin(self) -> asyncpg.Connection:
        """Open a superuser's connection, past all proxies."""
        return await asyncpg.connect(self.database.superuser_url, timeout=5)

    def start(self, slot: Slot, **changes: str) -> None:
        """Start a process in its place, on the loop's own thread, which stays."""
        kind = "worker" if slot.is_worker else "api"
        argv = [sys.executable, "-m", kind]
        slot.child = self.fleet._start(kind, argv, slot.settings | changes)
        log = slot.child.command.log
        self.history.note("started", slot=slot.name, pid=slot.child.pid, log=log and log.name)

    async def until_ready(self, slot: Slot) -> None:
        """Wait until the process works; one that does not get there has the database away."""
        until = monotonic() + READY_SECONDS
        while monotonic() < until and slot.child is not None and slot.child.alive:
            if await self._is_ready(slot):
                return
            await asyncio.sleep(WATCH_SECONDS)

    async def _is_ready(self, slot: Slot) -> bool:
        assert slot.child is not None, "asked of a place that is taken"
        if slot.is_worker:
            log = slot.child.command.log
            return log is not None and b'"worker.started"' in log.read_bytes()
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(timeout=2) as client:
                return (await client.get(f"{slot.url}/readyz")).status_code == httpx.codes.OK
        return False

    async def watch(self, slot: Slot) -> None:
        """Replace the process when it has died, continue it when it has stopped itself."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if slot.lock.locked() or slot.child is None:
                continue
            async with slot.lock:
                if not slot.child.alive:
                    began, code = time(), slot.child.exit_code
                    self.start(slot)
                    await self.until_ready(slot)
                    self.history.fault("died", slot.name, began, {"exit_code": code})
                elif state_of(slot.child.pid) == "T":
                    began = time()
                    await asyncio.sleep(SELF_STOP_LEASES * self.timing.lease)
                    slot.child.send(signal.SIGCONT)
                    self.history.fault("stopped itself", slot.name, began)


def state_of(pid: int) -> str:
    """The state letter of a process: T for stopped, Z for ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@asynccontextmanager
async def open_world(backing: Backing, logs: Path, history: History) -> AsyncIterator[World]:
    """A migrated database with audit, queues, proxies and all processes at work."""
    database = await backing.keep(backing.databases.create)
    prefix = f"f{secrets.token_hex(4)}"
    endpoint = backing.sqs.endpoint
    attributes = QueueAttributes(visibility=2 * int(LEASE))
    queues = ("default", "costing")
    await backing.keep(lambda: ensure_queues(endpoint, prefix, queues, attributes))
    await _prepare(database)
    async with AsyncExitStack() as stack:
        sqs, url = stack.enter_context(open_sqs_proxy(endpoint))
        fleet = Fleet(database, prefix, url, logs, LEASE)
        stack.callback(fleet.close)
        world = World(
            backing=backing,
            database=database,
            fleet=fleet,
            sqs=sqs,
            slots={},
            history=history,
            timing=timing(LEASE),
        )
        for number in range(APIS):
            await _open_slot(world, stack, f"api {number + 1}")
        for number in range(WORKERS):
            await _open_slot(world, stack, f"worker {number + 1}")
        await asyncio.gather(*(world.until_ready(slot) for slot in world.slots.values()))
        yield world


async def _open_slot(world: World, stack: AsyncExitStack, name: str) -> None:
    at = urlsplit(world.database.app_url)
    assert at.hostname is not None, "the server is reached by TCP"
    proxy = await stack.enter_async_context(open_proxy(at.hostname, at.port or 5432))

    def through(url: str) -> str:
        return url.replace(f"{at.hostname}:{at.port}", f"127.0.0.1:{proxy.port}")

    settings = MODULES | {
        "CHOT_DATABASE_URL": through(world.database.app_url),
        "CHOT_READ_DATABASE_URL": through(world.database.read_url),
    }
    slot = Slot(name=name, proxy=proxy, settings=settings)
    if not slot.is_worker:
        slot.port = free_port()
        slot.settings |= {"CHOT_API_HOST": "127.0.0.1", "CHOT_API_PORT": str(slot.port)}
    world.slots[name] = slot
    world.start(slot)


async def _prepare(database: Database) -> None:
    await seed_company(database)
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(AUDIT_SCHEMA)
        await connection.execute(EFFECTS_SCHEMA)
        await connection.execute(LIMITS)
    finally:
        await connection.close()


def faketime_library() -> Path | None:
    """Debian's libfaketime, if it is installed: it moves a process's wall clock."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found and os.name == "posix" else None


def faked_clock(library: Path) -> dict[str, str]:
    """The environment in which libfaketime moves a process's wall clock and nothing else.

    Its "fix" for condition variables on the monotonic clock makes each wait for the GIL a tenth
    of a second: the process would be slow, and that would be what is shown. Each such process
    leaves two files in shared memory when it is killed; those of earlier ones are removed.
    """
    for left in SHARED_MEMORY.glob("*faketime_s*_*"):
        if not Path("/proc", left.name.rpartition("_")[2]).exists():
            left.unlink(missing_ok=True)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }

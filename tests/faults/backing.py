"""The servers under a run: a private PostgreSQL that may be crashed, and an SQS emulator."""

import asyncio
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from dev.postgres import TEST_SETTINGS, PostgresServer, remove_data, start_postgres
from dev.sqs import SqsServer, start_sqs
from tests.services import DatabaseServer, servers_place

T = TypeVar("T")


class Backing:
    """Started once for all seeds of a call."""

    def __init__(self, home: Path, bin_dir: Path | None, keeper: ThreadPoolExecutor) -> None:
        self.home = home
        self.bin_dir = bin_dir
        # Children end with the thread that started them: this one stays for all of the run.
        self._keeper = keeper
        self.postgres: PostgresServer
        self.sqs: SqsServer
        self.databases: DatabaseServer

    async def keep(self, work: Callable[[], T]) -> T:
        """Do something that blocks, or starts a child, on the thread that stays."""
        return await asyncio.get_running_loop().run_in_executor(self._keeper, work)

    async def start(self) -> None:
        """Start both servers and migrate a template."""
        self.postgres = await self.keep(self._start_postgres)
        self.sqs = await self.keep(lambda: start_sqs(self.home / "sqs.log"))
        self.databases = DatabaseServer(self.postgres.url())
        await self.keep(self.databases.prepare)

    def _start_postgres(self, port: int | None = None) -> PostgresServer:
        return start_postgres(
            self.home / "postgres", bin_dir=self.bin_dir, port=port, settings=TEST_SETTINGS
        )

    async def crash_postgres(self) -> None:
        """Stop the server as `-m immediate` does."""
        await self.keep(self.postgres.crash)

    async def recover_postgres(self) -> None:
        """Start it again where it was; returns when it accepts connections."""
        port = self.postgres.port
        self.postgres = await self.keep(lambda: self._start_postgres(port))

    async def stop(self) -> None:
        """End both servers and remove their data."""
        await self.keep(self.databases.close)
        await self.keep(self.postgres.stop)
        await self.keep(self.sqs.stop)
        await self.keep(lambda: remove_data(self.home / "postgres"))


@asynccontextmanager
async def open_backing(bin_dir: Path | None) -> AsyncIterator[Backing]:
    """Both servers, ready; gone when the block ends."""
    home = _new_home()
    with ThreadPoolExecutor(1, thread_name_prefix="keeper") as keeper:
        backing = Backing(home, bin_dir, keeper)
        try:
            await backing.start()
            yield backing
            await backing.stop()
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _new_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="chot-faults-", dir=servers_place()))
    home.chmod(home.stat().st_mode | stat.S_IXOTH)  # PostgreSQL runs as an account of its own
    return home

"""The world a machine runs in: a loop, connections, and a way to lose a COMMIT's answer."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

import asyncpg
from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import await_only

from shared.database import open_engine
from shared.sqs import EntryFailure, Outgoing, SendResult, SqsClient
from tests.factories import TIMING, autocommit, offer_slots, prepare_probes
from tests.services import Database, seed_company

LOCK_MS = 40
QUICK = replace(TIMING, lock_timeout=LOCK_MS / 1000)
CLEAN = """
    DELETE FROM chot.jobs; DELETE FROM chot.job_payloads; DELETE FROM chot.job_outputs;
    DELETE FROM chot.attempts; DELETE FROM chot.outbox; DELETE FROM chot.published;
    DELETE FROM probe.effects;
    UPDATE chot.queues SET alone_worker = NULL, alone_kind = NULL, alone_until = NULL"""
T = TypeVar("T")


async def _nothing_to_connect() -> NoReturn:
    raise AssertionError("no test of this machine asks SQS itself")


class Queue(SqsClient):
    """SQS as the relay sees it: takes a batch, refuses it, breaks before or after taking it."""

    def __init__(self) -> None:
        super().__init__(prefix="", connect=_nothing_to_connect)
        self.how = "takes"
        self.bodies: list[str] = []

    async def send(self, queue: str, messages: Sequence[Outgoing]) -> SendResult:
        """Keep the bodies (or not) and answer as told."""
        assert queue == "default", "all probes stand in one queue"
        if self.how == "breaks":
            raise OSError("told to break")
        if self.how == "refuses":
            failure = EntryFailure(code="Throttled", message="told to refuse", invalid=False)
            return SendResult(
                sent=frozenset(), failed=dict.fromkeys((m.entry_id for m in messages), failure)
            )
        self.bodies.extend(message.body for message in messages)
        if self.how == "breaks_late":
            raise OSError("told to lose the answer")
        return SendResult(sent=frozenset(m.entry_id for m in messages), failed={})


class World:
    """One database and its connections, shared by all runs of a machine; cleaned between them."""

    def __init__(self, database: Database) -> None:
        self._runner = asyncio.Runner()
        self.seen: Counter[str] = Counter()
        self.lose: str | None = None  # "before" the server has the COMMIT, or "after" it has
        self.run(self._open(database))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do one step on this world's loop."""
        return self._runner.run(work)

    async def _open(self, database: Database) -> None:
        await seed_company(database)
        owner = open_engine(database.owner_url, pool_size=1)
        first = open_engine(database.app_url, pool_size=1)
        await prepare_probes(owner, first)
        await owner.dispose()
        await first.dispose()
        self._admin = await asyncpg.connect(database.superuser_url)
        # Steps come one after another: whoever waits for a lock waits in vain, so not for long.
        await self._admin.execute(
            f'ALTER ROLE chot_app IN DATABASE "{database.name}" SET lock_timeout = {LOCK_MS}'
        )
        self.engine = open_engine(database.app_url, pool_size=12)
        self.auto = autocommit(self.engine)
        # The relay's window is as wide as any step needs: tests/protocol/test_publishing.py has it.
        await offer_slots(self.engine, 1_000)
        self.lossy = self._lossy(database)

    def _lossy(self, database: Database) -> AsyncEngine:
        """An engine whose next COMMIT is lost on its way there, or on its way back."""
        engine = open_engine(database.app_url, pool_size=0)

        @event.listens_for(engine.sync_engine, "commit")
        def lose(conn: Connection) -> None:
            how, self.lose = self.lose, None
            if how is None:
                return
            driver = conn.connection.driver_connection
            assert driver is not None, "a connection that commits is connected"
            if how == "after":
                await_only(driver.execute("COMMIT"))
            driver.terminate()

        return engine

    async def clean(self) -> None:
        """Remove whatever the last run has left."""
        await self._admin.execute(CLEAN)

    async def turn(self, statement: str, **binds: Any) -> None:
        """Turn a row's clock."""
        async with self.engine.begin() as conn:
            await conn.execute(text(statement), binds)

    async def rows(self, statement: str) -> list[Any]:
        """All rows of a query; past the pool, since it is asked after every step."""
        return [SimpleNamespace(**row) for row in await self._admin.fetch(statement)]

    def connect(self) -> AsyncConnection:
        """A connection of the step's own, in a transaction."""
        return self.engine.connect()

    def close(self) -> None:
        """Disconnect and end the loop."""
        self.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await self.engine.dispose()
        await self.lossy.dispose()
        await self._admin.close()

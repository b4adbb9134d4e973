"""Two api processes on one database, whose inserts of a key can be held, or made to fail."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, execute, scalar
from tests.fleet import Fleet
from tests.protocol.api.keys import SEED_OTHER, bearer
from tests.services import Database, seed_company

TOKEN = "a-token-for-tests"  # noqa: S105 - of a test
KINDS = "tests.protocol.api.kinds"
LATER_KINDS = "tests.conformance.later_kinds"
BURST = 30
NOWHERE = "http://127.0.0.1:9"
VIETNAMESE_BRAND = "Đỏ"
# A key that begins with `held` waits here, in its transaction: the job is written, the key is not.
# One that begins with `commit` waits in its COMMIT.
HOLD_KEYS, HOLD_JOBS = 77, 78
GATE = (
    "CREATE SCHEMA gate",
    "CREATE TABLE gate.planted (key text PRIMARY KEY, state text NOT NULL)",
    "GRANT USAGE ON SCHEMA gate TO chot_app",
    "GRANT SELECT, INSERT, DELETE ON gate.planted TO chot_app",
    f"""CREATE FUNCTION gate.before_key() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE planted text;
        BEGIN
            IF NEW.key LIKE 'held%' THEN PERFORM pg_advisory_xact_lock_shared({HOLD_KEYS}); END IF;
            SELECT p.state INTO planted FROM gate.planted p WHERE p.key = NEW.key;
            IF FOUND THEN RAISE EXCEPTION 'planted' USING ERRCODE = planted; END IF;
            RETURN NEW;
        END $$""",
    """CREATE TRIGGER before_key BEFORE INSERT ON chot.idempotency_keys
       FOR EACH ROW EXECUTE FUNCTION gate.before_key()""",
    f"""CREATE FUNCTION gate.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock_shared({HOLD_KEYS}); RETURN NULL; END $$""",
    """CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON chot.idempotency_keys
       DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.key LIKE 'commit%')
       EXECUTE FUNCTION gate.at_commit()""",
    # A statement's trigger fires for an INSERT that inserted nothing, too.
    f"""CREATE FUNCTION gate.after_job() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF current_setting('application_name') = 'chot api' THEN
                PERFORM pg_advisory_xact_lock_shared({HOLD_JOBS});
            END IF;
            RETURN NULL;
        END $$""",
    """CREATE TRIGGER after_job AFTER INSERT ON chot.jobs
       FOR EACH STATEMENT EXECUTE FUNCTION gate.after_job()""",
)
WAITING = """
    SELECT pid FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'chot api' AND {}"""
HELD = WAITING.format("wait_event = 'advisory'")
BLOCKED = WAITING.format("wait_event_type = 'Lock'")


@dataclass(slots=True)
class World:
    """The session's database and processes. SQS is nowhere, so that what is staged can be counted.

    `later` is an api of the next release: it knows `later_kinds`, wants a key with each submit and
    lets no account ask for more than BURST times at once.
    """

    database: Database
    fleet: Fleet
    sqs_endpoint: str
    urls: list[str] = field(default_factory=list)
    later_url: str = ""

    def start(self) -> None:
        """Seed the database and start the processes that stay."""
        in_a_thread(prepare(self.database))
        self.urls = [self.api()[1] for _ in range(2)]
        self.later_url = self.api(
            CHOT_KIND_MODULES=LATER_KINDS,
            CHOT_IDEMPOTENCY_REQUIRED="true",
            CHOT_IDEMPOTENCY_HOURS="100",
            CHOT_RATE_PER_SECOND="1",
            CHOT_RATE_BURST=str(BURST),
        )[1]

    def api(self, **changes: str) -> Any:
        """One api process that takes CHOT_TOKEN and stored keys; answers the child and its URL."""
        given = {
            "CHOT_TOKEN": TOKEN,
            "CHOT_KIND_MODULES": KINDS,
            "AWS_ENDPOINT_URL_SQS": NOWHERE,
            "CHOT_API_LOCK_TIMEOUT_SECONDS": "4",
            "CHOT_KEY_REAPER_SECONDS": "3600",
        }
        return self.fleet.api(**given | changes)


async def prepare(database: Database) -> None:
    """Companies ACME and OTHER, and the gate."""
    await seed_company(database)
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(SEED_OTHER)
        await connection.execute(
            "INSERT INTO books.brands (company, code, name) VALUES ('ACME', $1, $1)",
            VIETNAMESE_BRAND,
        )
        for statement in GATE:
            await connection.execute(statement)
    finally:
        await connection.close()


def in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end on a loop of its own: this thread's loop may be a test's."""
    with ThreadPoolExecutor(1) as one:
        one.submit(asyncio.run, work).result()


@asynccontextmanager
async def client_to(url: str, token: str | None = TOKEN) -> AsyncIterator[httpx.AsyncClient]:
    """A client of one process, with as many connections as it asks for."""
    headers = bearer(token) if token else {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits, headers=headers) as one:
        yield one


@asynccontextmanager
async def holding(engine: AsyncEngine, lock: int = HOLD_KEYS) -> AsyncIterator[None]:
    """Hold requests at the gate until the block ends."""
    async with engine.connect() as conn:
        await conn.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": lock})
        try:
            yield
        finally:
            await conn.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": lock})
            await conn.rollback()


async def until_held(engine: AsyncEngine) -> int:
    """Wait until an api's transaction stands at the gate; answers its server process."""
    return int(await eventually(lambda: scalar(engine, HELD), every=0.01))


async def until_blocked(engine: AsyncEngine) -> None:
    """Wait until an api waits for somebody else's row."""
    await eventually(lambda: scalar(engine, BLOCKED), every=0.01)


async def plant(engine: AsyncEngine, key: str, state: str) -> None:
    """From now on the INSERT of this key fails with this SQLSTATE."""
    await execute(engine, "INSERT INTO gate.planted VALUES (:key, :state)", key=key, state=state)


async def pull_out(engine: AsyncEngine, key: str) -> None:
    """What was planted is gone."""
    await execute(engine, "DELETE FROM gate.planted WHERE key = :key", key=key)

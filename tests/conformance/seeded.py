"""An api process on a database that has something of everything to show."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sqs import bucket_name, ensure_bucket
from shared.access import Role
from shared.database import open_engine
from tests.conformance.world import KINDS, in_a_thread
from tests.cost_run_rows import seed_places, sold, write_file, write_run
from tests.document_books import put
from tests.factories import execute, offer_slots
from tests.fleet import Fleet
from tests.ledger_books import write_entry
from tests.protocol.api.app import note, post
from tests.protocol.api.keys import SEED_OTHER, bearer, make_key
from tests.protocol.api.test_read_and_act import END, RUN
from tests.services import Database, seed_company

# The company of the examples, as `chot dev` has it.
SEED_SAMPLE = """
    INSERT INTO books.companies (code, name) VALUES ('SAMPLE', 'Sample');
    INSERT INTO books.brands (company, code, name)
    VALUES ('SAMPLE', 'LUA', 'Lúa'), ('SAMPLE', 'NHA', 'Nhà')"""
ITEM_OF_EXAMPLES = """
    INSERT INTO books.items (company, code, name, base_uom)
    VALUES ('SAMPLE', 'LUA0001', 'Áo', 'cái')"""
DEAD_MESSAGES = """
    INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason, receive_count)
    SELECT 'default', 'm' || n, CASE WHEN n = 1 THEN '\\xff'::bytea ELSE 'hello'::bytea END, '{}',
           'no JSON object', n
      FROM generate_series(1, 3) AS n"""
ENDS: Mapping[str, Mapping[str, Any]] = {
    "succeeded": {"outcome": "succeeded", "result": '{"cost": "1.10"}', "error": None},
    "dead": {"outcome": "failed", "result": None, "error": '{"type": "E", "message": "boom"}'},
}
DRAFT = {
    "type": "cash_in",
    "doc_no": "PT-1",
    "doc_date": "2026-01-05",
    "brand": "LUA",
    "lines": [{"net": "500"}],
}
STATES = ("pending", "running", "cancelled", *ENDS)
PROGRESS = """
    UPDATE chot.jobs SET progress_done = 5, progress_total = 10, progress_unit = 'rows',
           progress_message = 'half' WHERE id = :job_id"""


@dataclass(slots=True)
class Seeded:
    """Where the api is, a key of an admin, one of who approves, and jobs by their state."""

    database: Database
    url: str
    key: str = ""
    approver: str = ""
    run: int = 0
    preview: int = 0
    file: str = ""
    entry: int = 0
    document: int = 0
    jobs: dict[str, str] = field(default_factory=dict)

    def client(self) -> httpx.AsyncClient:
        """A client with the admin's key."""
        return httpx.AsyncClient(base_url=self.url, headers=bearer(self.key), timeout=30)


@contextmanager
def seeded_api(fleet: Fleet, **changes: str) -> Iterator[Seeded]:
    """Start it; nobody is limited, and a wait ends after half a second."""
    given = {
        "CHOT_API_OPEN": "false",
        "CHOT_KIND_MODULES": KINDS,
        "CHOT_RATE_PER_SECOND": "0",
        "CHOT_BALANCER_IDLE_SECONDS": "1",
        "CHOT_FILES_BUCKET": bucket_name(fleet.prefix),
    }
    ensure_bucket(fleet.endpoint, given["CHOT_FILES_BUCKET"])
    in_a_thread(_prepare(fleet.database))
    child, url = fleet.api(**given | changes)
    seeded = Seeded(fleet.database, url)
    in_a_thread(_fill(seeded))
    yield seeded
    child.kill()


async def _prepare(database: Database) -> None:
    await seed_company(database)
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(SEED_OTHER)
        await connection.execute(SEED_SAMPLE)
    finally:
        await connection.close()


async def _fill(seeded: Seeded) -> None:
    owner = open_engine(seeded.database.owner_url, pool_size=2, application_name="test owner")
    app = open_engine(seeded.database.app_url, pool_size=2, application_name="test app")
    try:
        seeded.key = await make_key(owner, Role.ADMIN, principal="admin")
        seeded.approver = await make_key(owner, Role.OPERATE, principal="head-accountant")
        await offer_slots(app, 4)
        await execute(owner, DEAD_MESSAGES)
        async with seeded.client() as client:
            for state in STATES:
                seeded.jobs[state] = await job_in(client, app, state)
        await _fill_books(owner, seeded)
    finally:
        await owner.dispose()
        await app.dispose()


async def _fill_books(owner: AsyncEngine, seeded: Seeded) -> None:
    """A cost run with results and an error, a preview, a file, a ledger's entry, and a draft."""
    await seed_places(owner, cents=False)
    await execute(owner, ITEM_OF_EXAMPLES)
    error = {
        "brand": "LUA",
        "item": "=B",
        "number": 1,
        "pool": "LUA",
        "code": "MISSING_COST",
        "detail": "goods come in and nothing tells what they cost",
        "movement_ids": [],
    }
    pools = [sold("LUA", "LUA"), sold("NHA", "NHA")]
    seeded.run = await write_run(owner, pools, company="SAMPLE", errors=[error])
    change = {"brand": "LUA", "item": "A", "account": "632", "before": 1, "after": 2}
    seeded.preview = await write_run(
        owner, company="SAMPLE", status="previewed", differences=[change]
    )
    seeded.file = str(await write_file(owner, b"Brand,Item\r\n", company="SAMPLE"))
    seeded.entry = await write_entry(owner, company="SAMPLE", brand="LUA")
    (draft,) = await put(owner, DRAFT, company="SAMPLE")
    assert draft.document_id is not None, draft.faults
    seeded.document = draft.document_id


async def job_in(client: httpx.AsyncClient, engine: AsyncEngine, state: str) -> str:
    """A new job in this state; answers its id."""
    made = await post(client, note(note=state))
    job_id: str = made.json()["id"]
    if state == "cancelled":
        await client.post(f"/v1/jobs/{job_id}/cancel")
    elif state != "pending":
        await execute(engine, RUN, job_id=UUID(job_id))
        await execute(engine, PROGRESS, job_id=UUID(job_id))
    if state in ENDS:
        await execute(engine, END, job_id=UUID(job_id), state=state, **ENDS[state])
    shown = (await client.get(f"/v1/jobs/{job_id}")).json()
    assert shown["state"] == state, shown
    return job_id

"""Clients: they submit, repeat, cancel and redrive, and write down what they were told.

Every choice comes from the generator each is given; what the world answers decides nothing but
which job the next cancel is about.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

from tests.faults.evidence import Outcome
from tests.faults.history import History
from tests.faults.world import World

CALL_SECONDS = 8.0
KEY_TRIES = 4
# Refusals after which nothing was done, though their status is that of an outage.
UNDONE = ("/busy", "/starting", "/overloaded")
# A redriven item has no reason; one whose reason is an outage is unknown.
DOUBTFUL = (None, "database-unavailable")
SERVER_ERROR = 500
# However a connection goes, it is opened again; the driver has a word of its own for one whose
# statement was given up half-way.
LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


@dataclass(slots=True)
class Memory:
    """What the clients know together."""

    numbers: Any
    recent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    keys: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True)
class Client:
    """One client over HTTP. It never sends before its last call has ended."""

    world: World
    history: History
    dice: random.Random
    memory: Memory
    http: httpx.AsyncClient
    process: int = 0

    async def submit(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        company: str = "ACME",
        key: str | None = None,
        max_attempts: int | None = None,
        priority: int | None = None,
    ) -> Outcome:
        """POST /v1/jobs; answers how it ended."""
        body: dict[str, Any] = {"kind": kind, "company": company, "payload": dict(payload)}
        if company == "ACME":
            body["brand"] = "RED"
        if max_attempts is not None:
            body["max_attempts"] = max_attempts
        if priority is not None:
            body["priority"] = priority
        args = {"kind": kind, "payload": dict(payload), "key": key}
        headers = {} if key is None else {"Idempotency-Key": key}
        outcome, answer = await self._post("submit", "/v1/jobs", args, body, headers)
        if outcome == "ok":
            self.memory.jobs.append(answer["job_id"])
        return outcome

    async def submit_until_known(
        self, kind: str, payload: Mapping[str, Any], key: str, **more: Any
    ) -> Outcome:
        """Repeat the same request under its key until its outcome is known, or tries are up."""
        outcome: Outcome = "info"
        for _ in range(KEY_TRIES):
            outcome = await self.submit(kind, payload, key=key, **more)
            if outcome != "info":
                break
        return outcome

    async def cancel(self, job_id: str) -> None:
        """POST /v1/jobs/{id}/cancel."""
        await self._post("cancel", f"/v1/jobs/{job_id}/cancel", {"job_id": job_id})

    async def redrive(self, job_id: str) -> None:
        """POST /v1/jobs/{id}/redrive."""
        await self._post("redrive", f"/v1/jobs/{job_id}/redrive", {"job_id": job_id})

    async def redrive_all(self, kind: str) -> None:
        """POST /v1/dead-letters/redrive; the answer tells each that rose."""
        body = {"kind": kind}
        await self._post("redrive_all", "/v1/dead-letters/redrive", body, body)

    async def _post(
        self,
        op: str,
        path: str,
        args: dict[str, Any],
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Outcome, dict[str, Any]]:
        slot = self.dice.choice(self.world.apis)
        if not self.process:
            self.process = self.history.new_process()
        number = self.history.invoke(self.process, op, args | {"api": slot.name})
        outcome: Outcome
        try:
            content = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json"} | dict(headers or {})
            response = await self.http.post(slot.url + path, content=content, headers=sent)
        except httpx.HTTPError as error:
            outcome = "fail" if isinstance(error, httpx.ConnectError) else "info"
            answer: dict[str, Any] = {"error": type(error).__name__}
        else:
            outcome, answer = _judged(response)
        self.history.end(number, outcome, answer)
        if outcome == "info":
            self.process = 0
        return outcome, answer


def _judged(response: httpx.Response) -> tuple[Outcome, dict[str, Any]]:
    """What an answer says: done, surely not done, or unknown."""
    answer: dict[str, Any] = {"status": response.status_code, "body": response.text}
    if response.is_success:
        told = response.json()
        # A report of many; one job says by whom it was redriven, under the same name.
        if "refused" in told:
            return "ok", answer | {key: _ids(told[key]) for key in ("redriven", "refused")}
        if "jobs" in told:
            members = [item["job"]["id"] for item in told["jobs"] if item.get("job")]
            return "ok", answer | {"members": members}
        answer |= {"group" if "policy" in told else "job_id": told["id"]}
        answer |= {k: told[k] for k in ("created", "duplicate", "state", "outcome") if k in told}
        return "ok", answer
    if response.status_code < SERVER_ERROR or any(each in response.text for each in UNDONE):
        return "fail", answer
    return "info", answer


def _ids(items: list[dict[str, Any]]) -> list[str]:
    """Jobs of a report; one that met an outage may or may not have risen."""
    return [item["id"] for item in items if item.get("reason") in DOUBTFUL]


@dataclass(slots=True)
class Workload:
    """What clients do, and how often: weights of operations."""

    until: float
    pause: float
    company: str
    period: str


async def run_client(client: Client, load: Workload) -> None:
    """Submit and disturb until the time is over."""
    loop = asyncio.get_running_loop()
    while loop.time() < load.until:
        await _one_call(client)
        await asyncio.sleep(client.dice.uniform(0, 2 * load.pause))


async def _one_call(client: Client) -> None:
    dice, memory = client.dice, client.memory
    choice = dice.random()
    if choice < 0.08 and memory.jobs:
        await client.cancel(dice.choice(memory.jobs[-30:]))
    elif choice < 0.12 and memory.jobs:
        await client.redrive(dice.choice(memory.jobs[-60:]))
    elif choice < 0.13:
        await client.redrive_all("fault.harm")
    elif choice < 0.20 and memory.recent:
        kind, payload = dice.choice(memory.recent[-6:])  # the same work again
        await client.submit(kind, payload)
    elif choice < 0.28 and memory.keys:
        key, sent = dice.choice(memory.keys[-20:])  # the same request again
        await client.submit_until_known(sent["kind"], sent["payload"], key)
    elif choice < 0.45:
        await _gather(client)
    else:
        await _new_work(client)


async def _gather(client: Client) -> None:
    """Items for one of a few numbers, so that they meet."""
    dice = client.dice
    kind = dice.choice(("fault.merge", "fault.follow"))
    items = [f"i{next(client.memory.numbers)}"]
    await client.submit(kind, {"number": dice.randrange(4), "items": items})


PLAIN = ("fault.write", "fault.move", "fault.move", "fault.limited")
LOCKED = ("fault.lock_write", "fault.lock_read", "fault.lock_read", "fault.lock_two")
PARTS = (None, "A", "B", "C", "C")
RANGES = ((None, None), ("2026-01", "2026-03"), ("2026-03", None), ("2026-04", "2026-06"))


async def _new_work(client: Client) -> None:
    """One job; or three at once that lock what the others lock, so that they meet."""
    dice = client.dice
    if dice.random() < 0.7:
        await _submit_new(client, dice.choice(PLAIN), {})
        return
    first, last = dice.choice(RANGES)
    locked = {"part": dice.choice(PARTS), "first": first, "last": last}
    for _ in range(3):
        # Shorter than the others: they wait for each other.
        short = {"chunks": dice.randint(1, 2), "seconds": round(dice.uniform(0, 0.4), 3)}
        store = {"store": dice.choice(("S1", "S2"))}
        await _submit_new(client, dice.choice(LOCKED), locked | short | store)


async def _submit_new(client: Client, kind: str, more: dict[str, Any]) -> None:
    dice, memory = client.dice, client.memory
    payload: dict[str, Any] = {
        "number": next(memory.numbers),
        "chunks": dice.randint(1, 5),
        "seconds": round(dice.uniform(0, 0.8) ** 2, 3),
        "hold": round(dice.uniform(0, 0.1), 3),
        "fail_first": int(dice.random() < 0.05),
        "complete": dice.random() < 0.3,
    } | more
    memory.recent.append((kind, payload))
    if dice.random() < 0.5:
        key = f"k{payload['number']}"
        memory.keys.append((key, {"kind": kind, "payload": payload}))
        await client.submit_until_known(kind, payload, key)
    else:
        await client.submit(kind, payload)


async def run_costing_client(client: Client, load: Workload) -> None:
    """Cost the sample company again and again."""
    loop = asyncio.get_running_loop()
    for turn in itertools.count():
        if loop.time() >= load.until:
            return
        await cost(client, load, f"costing-{turn}")
        await asyncio.sleep(client.dice.uniform(4, 8))


async def cost(client: Client, load: Workload, key: str) -> Outcome:
    """Submit one costing of the period, in small chunks, until its outcome is known."""
    payload = {"period": load.period, "chunk_movements": 150}
    return await client.submit_until_known("costing.run", payload, key, company=load.company)


ENQUEUE = """
    SELECT job_id, created, duplicate, state
      FROM chot.enqueue('fault.write', 'ACME', 'RED', CAST($1::text AS jsonb))"""
ORDER = "INSERT INTO faults.orders (number, job_id) VALUES ($1, $2)"
# A late receipt like one that is there: an ERP goes on posting while the period is costed.
POST = """
    INSERT INTO books.stock_movements
           (company, brand, item, store, kind, doc_id, doc_line, posting_date, qty_base, value)
    SELECT company, brand, item, store, kind, 'LATE', 1, posting_date, qty_base, value
      FROM books.stock_movements WHERE company = $1 AND kind = 'receipt' AND doc_id <> 'LATE'
     ORDER BY id OFFSET $2 LIMIT 1"""
TOTAL = "SELECT sum(balance)::bigint FROM faults.accounts"


class SqlClient:
    """An ERP that enqueues in its own transactions, rolls some of them back, and reads books."""

    def __init__(self, world: World, dice: random.Random, memory: Memory) -> None:
        self._world = world
        self._history = world.history
        self._dice = dice
        self._memory = memory
        self._process = world.history.new_process()

    async def run(self, load: Workload) -> None:
        """Work until the time is over; a lost connection is opened again."""
        loop = asyncio.get_running_loop()
        while loop.time() < load.until:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    connection = await asyncpg.connect(self._world.database.app_url)
                try:
                    while loop.time() < load.until:
                        await self._one(connection, load.company)
                        await asyncio.sleep(self._dice.uniform(0, 4 * load.pause))
                finally:
                    connection.terminate()
            except LOST:
                await asyncio.sleep(0.2)

    async def _one(self, connection: asyncpg.Connection, company: str) -> None:
        choice = self._dice.random()
        if choice < 0.3:
            await self._read(connection)
        elif choice < 0.5:
            await connection.execute(POST, company, self._dice.randrange(40), timeout=CALL_SECONDS)
        else:
            await self._enqueue(connection, rolls_back=self._dice.random() < 0.3)

    async def _read(self, connection: asyncpg.Connection) -> None:
        number = self._history.invoke(self._process, "read_balances", {})
        try:
            total = await connection.fetchval(TOTAL, timeout=CALL_SECONDS)
        except BaseException as error:
            self._history.end(number, "fail", {"error": type(error).__name__})
            raise
        self._history.end(number, "ok", {"total": int(total)})

    async def _enqueue(self, connection: asyncpg.Connection, *, rolls_back: bool) -> None:
        payload = {"number": next(self._memory.numbers), "chunks": 1 + rolls_back}
        args = {"kind": "fault.write", "payload": payload, "rolls_back": rolls_back}
        number = self._history.invoke(self._process, "enqueue", args)
        outcome: Outcome = "fail"
        answer: dict[str, Any] = {}
        try:
            async with asyncio.timeout(CALL_SECONDS):
                transaction = connection.transaction()
                await transaction.start()
                row = await connection.fetchrow(ENQUEUE, json.dumps(payload))
                await connection.execute(ORDER, payload["number"], row["job_id"])
                if rolls_back:
                    await transaction.rollback()
                    return
                outcome = "info"
                await transaction.commit()
            answer = dict(row) | {"job_id": str(row["job_id"])}
            outcome = "ok"
        except BaseException as error:
            answer = {"error": type(error).__name__}
            raise
        finally:
            self._history.end(number, outcome, answer)
            if outcome == "info":
                self._process = self._history.new_process()

"""One run: a world, a schedule of faults, clients, healing, draining, the verdict."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

import asyncpg
import httpx

from dev.sample_company import load_sample
from tests.faults.backing import Backing
from tests.faults.check import check_evidence
from tests.faults.check_liveness import stuck_leases, waits_for_a_claim
from tests.faults.check_locks import met, waits_for_a_lock
from tests.faults.clients import (
    CALL_SECONDS,
    Client,
    Memory,
    SqlClient,
    Workload,
    cost,
    run_client,
    run_costing_client,
)
from tests.faults.collect import collect
from tests.faults.evidence import Evidence, Ordered
from tests.faults.group_clients import Opened, run_group_client, seal_the_rest
from tests.faults.history import History
from tests.faults.nemeses import heal, run_schedule
from tests.faults.oracle import compute_oracle, read_costed
from tests.faults.restore import forget_between, restore, take_backup
from tests.faults.schedule import Step, make_schedule
from tests.faults.violations import Violation
from tests.faults.world import APIS, LEASE, WORKERS, World, faketime_library, open_world

SAMPLE, PERIOD = "SAMPLE", "2026-01"
DRAIN_POLL_SECONDS = 0.25
FINAL_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one run is to do; the same plan is the same schedule and the same choices."""

    seed: int
    seconds: float
    faults: tuple[str, ...] = ()
    restores: bool = False
    clients: int = 4
    pause: float = 0.25
    movements: int = 1_500
    drain_seconds: float = 150.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    plan: Plan
    evidence: Evidence
    violations: list[Violation]
    failures: list[str]
    home: Path


async def run_one(backing: Backing, plan: Plan, home: Path) -> Verdict:
    """Run the plan; everything there is to know about it is in `home` afterwards."""
    logs = home / "logs"
    await asyncio.to_thread(logs.mkdir, parents=True)
    history = History(home / "history.jsonl")
    async with open_world(backing, logs, history) as world:
        await load_sample(
            world.database.app_url, seed=plan.seed, movements=plan.movements, company=SAMPLE
        )
        evidence = await _run_in(world, plan, home)
        failures = list(world.failures)
    violations = check_evidence(evidence)
    evidence.save(home)
    found = [asdict(violation) for violation in violations]
    (home / "violations.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
    return Verdict(plan, evidence, violations, failures, home)


async def _run_in(world: World, plan: Plan, home: Path) -> Evidence:
    dice = random.Random(plan.seed)
    parts = 2 if plan.restores else 1
    schedules = [planned(dice, plan, plan.seconds / parts) for _ in range(parts)]
    listed = [[asdict(step) for step in steps] for steps in schedules]
    (home / "schedule.json").write_text(json.dumps(listed, indent=1))
    began = time()
    async with httpx.AsyncClient(timeout=CALL_SECONDS) as http, _watching(world):
        clients = _clients(world, dice, http, plan.clients + 3)
        sql = SqlClient(world, random.Random(dice.getrandbits(64)), clients[0].memory)
        storm = Storm(world, clients, sql, plan, plan.seconds / parts)
        if plan.restores:
            await _until_restored(storm, schedules[0], home / "backup")
        await storm.rage(schedules[-1])
        for turn in range(FINAL_TRIES):
            if await cost(clients[0], storm.load(), f"costing-at-the-end-{turn}") == "ok":
                break
        await seal_the_rest(clients[0], storm.opened)
        drained, drain_seconds = await _drain(world, plan.drain_seconds)
    world.history.end_open()
    facts = {"began": began, "drained": drained, "drain_seconds": drain_seconds}
    return await _evidence(world, plan, facts)


async def _until_restored(storm: "Storm", steps: list[Step], file: Path) -> None:
    """A first storm, a backup in the middle of it, and at its end the database of then."""
    world, seconds = storm.world, storm.seconds / 2

    async def back_up() -> float:
        await asyncio.sleep(seconds)
        return await take_backup(world, file)

    backup = asyncio.create_task(back_up())
    await storm.rage(steps)
    began = await backup
    await restore(world, file, began)
    world.history.calls[:] = forget_between(world.history.calls, began, time())


async def _evidence(world: World, plan: Plan, facts: dict[str, Any]) -> Evidence:
    admin = await world.admin()
    try:
        facts |= {
            "seed": plan.seed,
            "seconds": plan.seconds,
            "workers": WORKERS,
            "ended": time(),
            "lease": world.timing.lease,
            "idle_in_transaction": world.timing.idle_in_transaction,
            "reaper": LEASE / 3,
            "costed": await read_costed(admin, SAMPLE, PERIOD),
            "oracle": await compute_oracle(admin, SAMPLE, PERIOD),
        }
        return await collect(admin, world.history, facts)
    finally:
        await admin.close()


def planned(dice: random.Random, plan: Plan, seconds: float) -> list[Step]:
    """The plan's schedule of faults; what this machine cannot do is left out of it."""
    without = () if faketime_library() else ("clock",)
    return make_schedule(
        dice,
        seconds=seconds,
        lease=LEASE,
        workers=WORKERS,
        apis=APIS,
        only=plan.faults,
        without=without,
    )


def _clients(
    world: World, dice: random.Random, http: httpx.AsyncClient, count: int
) -> list[Client]:
    memory = Memory(numbers=iter(range(1_000, 10_000_000)))
    return [
        Client(world, world.history, random.Random(dice.getrandbits(64)), memory, http)
        for _ in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Storm:
    """Clients and faults together, for so many seconds."""

    world: World
    clients: list[Client]
    sql: SqlClient
    plan: Plan
    seconds: float
    opened: Opened = field(default_factory=Opened)

    def load(self) -> Workload:
        """What the clients do from now on."""
        return Workload(
            until=asyncio.get_running_loop().time() + self.seconds,
            pause=self.plan.pause,
            company=SAMPLE,
            period=PERIOD,
        )

    async def rage(self, steps: list[Step]) -> None:
        """Returns when the clients have ended and every fault is healed."""
        *ordinary, nemesis, costing, grouping = self.clients
        load = self.load()
        async with asyncio.TaskGroup() as tasks:
            for client in ordinary:
                tasks.create_task(run_client(client, load))
            tasks.create_task(self.sql.run(load))
            tasks.create_task(run_costing_client(costing, load))
            tasks.create_task(run_group_client(grouping, load, self.opened))
            tasks.create_task(run_schedule(self.world, steps, nemesis))
        await heal(self.world)
        self.world.history.note("healed all")


@asynccontextmanager
async def _watching(world: World) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(world.watch(slot)) for slot in world.slots.values()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, Exception):
                world.failures.append(f"a watch ended: {end!r}")


LEFT = """
    SELECT (SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running'))
         + (SELECT count(*) FROM chot.outbox)"""


async def _drain(world: World, seconds: float) -> tuple[bool, float]:
    """Wait until nothing is left to do; whether that was so, and after how long."""
    began = monotonic()
    while monotonic() < began + seconds:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            admin = await world.admin()
            try:
                if await admin.fetchval(LEFT) == 0:
                    return True, monotonic() - began
            finally:
                admin.terminate()
        await asyncio.sleep(DRAIN_POLL_SECONDS)
    return False, monotonic() - began


def numbers(verdict: Verdict) -> dict[str, Any]:
    """What a run amounted to, for its line in the summary."""
    seen = Ordered(verdict.evidence)
    stuck, waits, locked = stuck_leases(seen), waits_for_a_claim(seen), waits_for_a_lock(seen)
    calls = verdict.evidence.calls
    return {
        "seed": verdict.plan.seed,
        "faults": len(verdict.evidence.windows),
        "calls": len(calls),
        "unknown": sum(call.outcome == "info" for call in calls),
        "jobs": len(seen.jobs),
        "effects": len(verdict.evidence.effects),
        "claims": sum(job.fence for job in seen.jobs.values()),
        "lost": sum(job.lost_leases for job in seen.jobs.values()),
        "released": sum(job.interruptions for job in seen.jobs.values()),
        "stuck_s": round(max((each.seconds for each in stuck), default=0.0), 1),
        "waited_s": round(max((each.seconds for each in waits), default=0.0), 1),
        "waits": len(waits),
        "locked": len(seen.locks),
        "met": met(seen),
        "lock_waits": len(locked),
        "lock_waited_s": round(max((each.seconds for each in locked), default=0.0), 1),
        "groups": len(verdict.evidence.groups),
        "drain_s": round(verdict.evidence.facts.drain_seconds, 1),
        "violations": len(verdict.violations) + len(verdict.failures),
    }


def kinds_of(verdict: Verdict) -> Collection[str]:
    """The names of the faults that happened."""
    return sorted({window.fault for window in verdict.evidence.windows})

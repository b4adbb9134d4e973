"""Nemeses: what each fault of the schedule does, and how it is healed again."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import time
from typing import Any

import asyncpg

from dev.processes import Child
from tests.faults.clients import Client
from tests.faults.schedule import SQS, Step
from tests.faults.world import (
    DRAIN_SECONDS,
    SELF_STOP_LEASES,
    Slot,
    World,
    faked_clock,
    faketime_library,
    state_of,
)
from tests.protocol.frozen import FREEZE, THAW
from tests.sqs_proxy import Body, EntryFault, Refusal, SendFaults

Nemesis = Callable[[World, Step], Awaitable[Mapping[str, Any] | None]]
RECOVERY_TRIES = 100
DRAIN_SLACK_SECONDS = 6.0
HOGS, HOLDERS = 3, 15
HOLD_SECONDS = 1.2
HOG_ENDS_SECONDS = 12.0  # other faults may hold it up
URGENT = 8
HOGGED = """
    SELECT (o.result ->> 'taken')::integer AS taken
      FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
      JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.kind = 'fault.harm' AND (p.payload ->> 'number')::bigint = ANY($1::bigint[])
       AND o.result ->> 'taken' IS NOT NULL"""


async def run_schedule(world: World, steps: Sequence[Step], client: Client) -> None:
    """Run every step at its time; returns when all faults are healed."""
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for step in steps:
            name = f"{step.fault} {step.target}"
            tasks.create_task(_run_step(world, step, client, began), name=name)


async def _run_step(world: World, step: Step, client: Client, began: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, began + step.at - loop.time()))
    fault_began = time()
    world.history.note("fault", fault=step.fault, target=step.target, at=step.at)
    try:
        detail: Mapping[str, Any] | None = None
        if step.target == "jobs":
            detail = await harm_by_job(world, client, step)
        else:
            detail = await NEMESES[step.fault](world, step)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        world.failures.append(f"{step.fault} on {step.target}: {type(error).__name__} {error}")
        detail = {"failed": str(error)}
    world.history.fault(
        step.fault, step.target, fault_began, dict(step.detail) | dict(detail or {})
    )


async def kill(world: World, step: Step) -> None:
    """SIGKILL; a new process takes the place after a while."""
    slot = world.slots[step.target]
    async with slot.lock:
        assert slot.child is not None, "every place is taken"
        slot.child.kill()
        await asyncio.sleep(step.seconds)
        world.start(slot)
        await world.until_ready(slot)


async def stop(world: World, step: Step) -> None:
    """SIGSTOP, then SIGCONT: a process that comes back and knows nothing of its absence."""
    slot = world.slots[step.target]
    async with slot.lock:
        assert slot.child is not None, "every place is taken"
        slot.child.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(step.seconds)
        finally:
            slot.child.send(signal.SIGCONT)


async def drain(world: World, step: Step) -> dict[str, Any]:
    """A deploy: SIGTERM, and a new process at once. Answers how the old one ended."""
    slot = world.slots[step.target]
    async with slot.lock:
        old = slot.child
        assert old is not None, "every place is taken"
        old.send(signal.SIGTERM)
        world.start(slot)
        stopped = SELF_STOP_LEASES * world.timing.lease
        code = await _end_of(old, DRAIN_SECONDS + DRAIN_SLACK_SECONDS, stopped)
        await world.until_ready(slot)
    return {"exit_code": code, "pid": old.pid}


async def _end_of(child: Child, seconds: float, stopped: float) -> int | str | None:
    """The exit code; a process that does not end by itself is killed.

    One that a job of its own has stopped is continued after `stopped` seconds, which are not
    held against it: nobody else watches a process whose place is taken by its successor.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while child.alive and loop.time() < until:
        await asyncio.sleep(0.05)
        if state_of(child.pid) == "T":
            await asyncio.sleep(stopped)
            child.send(signal.SIGCONT)
            until += stopped
    if child.alive:
        child.kill()
        return f"SIGKILL after {seconds:g} s"
    return child.exit_code


async def move_clock(world: World, step: Step) -> dict[str, Any]:
    """A worker whose wall clock is hours away: it must make no difference at all."""
    library = faketime_library()
    if library is None:
        return {"skipped": "libfaketime is not installed (Debian: apt install faketime)"}
    slot = world.slots[step.target]
    async with slot.lock:
        assert slot.child is not None, "every place is taken"
        slot.child.kill()
        world.start(slot, **faked_clock(library), FAKETIME=f"{step.detail['hours']:+d}h")
        await world.until_ready(slot)
    await asyncio.sleep(step.seconds)
    return {}


async def cut(world: World, step: Step) -> None:
    """Every connection to PostgreSQL is reset, new ones are refused."""
    await _on_wire(world.slots[step.target], step, lambda slot: slot.proxy.cut())


async def black_hole(world: World, step: Step) -> None:
    """Not a byte passes, and nobody is told."""
    await _on_wire(world.slots[step.target], step, lambda slot: slot.proxy.block())


async def mute(world: World, step: Step) -> None:
    """One way only: what is asked arrives, what is answered does not."""
    await _on_wire(
        world.slots[step.target], step, lambda slot: slot.proxy.block("server_to_client")
    )


async def lose_commit(world: World, step: Step) -> None:
    """The next COMMIT arrives, its answer does not; then it is late, or lost for good."""
    await _on_wire(
        world.slots[step.target],
        step,
        lambda slot: slot.proxy.lose_answer_to(b"COMMIT"),
        loses=bool(step.detail["lost_for_good"]),
    )


async def _on_wire(
    slot: Slot, step: Step, harm: Callable[[Slot], None], *, loses: bool = False
) -> None:
    async with slot.lock:
        harm(slot)
        try:
            await asyncio.sleep(step.seconds)
        finally:
            if loses:
                slot.proxy.reset()
            slot.proxy.heal()


async def restart_postgres(world: World, step: Step) -> None:
    """`pg_ctl restart -m immediate`: no goodbye to anybody, recovery at the start."""
    await world.backing.crash_postgres()
    await asyncio.sleep(step.seconds)
    await world.backing.recover_postgres()


KILL_BACKENDS = """
    SELECT pg_terminate_backend(pid) FROM (
        SELECT pid FROM pg_stat_activity
         WHERE datname = current_database() AND usename IN ('chot_app', 'chot_read')
         ORDER BY md5(pid::text || $1) LIMIT (
            SELECT ceil(count(*) * $2::float8) FROM pg_stat_activity
             WHERE datname = current_database() AND usename IN ('chot_app', 'chot_read'))) AS chosen"""


async def kill_backends(world: World, step: Step) -> dict[str, int]:
    """pg_terminate_backend on a share of all sessions, whatever they are doing."""
    admin = await world.admin()
    try:
        killed = await admin.fetch(KILL_BACKENDS, str(step.at), step.detail["share"])
    finally:
        await admin.close()
    return {"killed": len(killed)}


async def freeze_commits(world: World, step: Step) -> None:
    """Every COMMIT is durable and answered to nobody, until it is thawed."""
    admin = await world.admin()
    try:
        await admin.execute(FREEZE)
        await admin.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(step.seconds)
    finally:
        await admin.close()
        await thaw(world)


async def thaw(world: World) -> None:
    """Let COMMITs through again; tries until the server hears it."""
    for _ in range(RECOVERY_TRIES):
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            admin = await world.admin()
            try:
                await admin.execute(THAW)
                await admin.execute("SELECT pg_reload_conf()")
            finally:
                admin.terminate()
            return
        await asyncio.sleep(0.1)
    raise TimeoutError("the server does not let COMMITs through again")


def some_entries(dice: random.Random, share: float) -> SendFaults:
    """Refuse a share of each batch's entries, one of them in silence now and then."""

    def faults(_batch: int, entries: list[Body]) -> dict[str, EntryFault]:
        chosen = [entry["Id"] for entry in entries if dice.random() < share]
        return {i: "omit" if dice.random() < 0.2 else "receiver" for i in chosen}

    return faults


def sqs_knobs(step: Step, lease: float) -> dict[str, Any]:
    """The proxy's attributes for a fault."""
    every = int(step.detail.get("every", 2))
    if step.fault == "sqs_partial":
        dice = random.Random(step.detail["dice"])
        return {"send_faults": some_entries(dice, step.detail["share"])}
    throttled = Refusal(status=403, code="ThrottlingException", every=every)
    knobs: Mapping[str, dict[str, Any]] = {
        "sqs_lose": {"lose_every": every},
        "sqs_late": {"late_every": every},
        "sqs_duplicate": {"duplicate_every": every - 1},
        "sqs_reorder": {"reversing": True, "late_every": every, "late_seconds": 1},
        "sqs_throttle": {"refusals": {"*": throttled}},
        "sqs_stale": {"stale_handles_succeed": True, "longest_visibility": 1},
        "sqs_black_hole": {"black_holed": None},
        "sqs_cap": {"visibility_cap": 2 * lease + every},
        "sqs_swallow": {"swallow_every": every},
        "sqs_slow": {"answer_delay": every / 4},
    }
    return knobs[step.fault]


async def trouble_sqs(world: World, step: Step) -> None:
    """Each way in which SQS may behave, for a while."""
    for name, value in sqs_knobs(step, world.timing.lease).items():
        setattr(world.sqs, name, value)
    try:
        await asyncio.sleep(step.seconds)
    finally:
        world.sqs.heal()


async def harm_by_job(world: World, client: Client, step: Step) -> Mapping[str, Any] | None:
    """Faults that come from inside: jobs that stop, block, hold, die, or kill."""
    number = 9_000_000 + round(step.at * 1_000)
    match step.fault:
        case "stop_in_transaction" | "block_loop" | "kill_child":
            payload = {"number": number, "how": step.fault, "seconds": step.seconds}
            await client.submit("fault.harm", payload)
        case "poison":
            payload = {"number": number, "how": step.detail["how"]}
            await client.submit("fault.harm", payload, max_attempts=1)
        case "hog_pool":
            return await hog_pools(world, client, step, number)
    await asyncio.sleep(step.seconds)
    return None


async def hog_pools(world: World, client: Client, step: Step, number: int) -> Mapping[str, Any]:
    """Jobs that take every read connection of their worker, beside jobs that hold transactions.

    Together they are as many as there are slots, and nobody is served before them. Answers how
    many connections each hog got before its pool gave no more: what is known of it in the end.
    """
    hog = {"how": "hog_pool", "seconds": step.seconds}
    # Longer than idle-in-transaction, and the server would end them: that is no hog.
    held = {"chunks": 1, "hold": min(step.seconds, HOLD_SECONDS)}
    numbers = range(number, number + HOGS)
    outcomes = await asyncio.gather(
        *(client.submit("fault.harm", {"number": n} | hog, priority=URGENT) for n in numbers),
        *(
            client.submit("fault.write", {"number": number + HOGS + n} | held, priority=URGENT)
            for n in range(HOLDERS)
        ),
    )
    wanted = sum(each != "fail" for each in outcomes[:HOGS])
    taken: list[int] = []
    loop = asyncio.get_running_loop()
    until = loop.time() + step.seconds + HOG_ENDS_SECONDS
    while len(taken) < wanted and loop.time() < until:
        await asyncio.sleep(0.5)
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            taken = await _hogged(world, numbers)
    return {"hogs": wanted, "taken": taken}


async def _hogged(world: World, numbers: Sequence[int]) -> list[int]:
    admin = await world.admin()
    try:
        return [row["taken"] for row in await admin.fetch(HOGGED, list(numbers))]
    finally:
        admin.terminate()


async def heal(world: World) -> None:
    """Whatever is still in the way goes out of it."""
    world.sqs.heal()
    for slot in world.slots.values():
        slot.proxy.heal()
        if slot.child is not None and slot.child.alive:
            os.kill(slot.child.pid, signal.SIGCONT)
    await thaw(world)


NEMESES: Mapping[str, Nemesis] = {
    "kill": kill,
    "stop": stop,
    "drain": drain,
    "clock": move_clock,
    "pg_cut": cut,
    "pg_black_hole": black_hole,
    "pg_mute": mute,
    "pg_lost_commit": lose_commit,
    "pg_restart": restart_postgres,
    "pg_kill_backends": kill_backends,
    "pg_frozen_commit": freeze_commits,
    **dict.fromkeys(SQS.faults, trouble_sqs),
}

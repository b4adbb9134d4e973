"""Clients of groups: they open, append, seal, and disturb, over the same HTTP as everybody."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.clients import Client, Workload
from tests.faults.evidence import Outcome

TRIES = 6
POLICIES = ("fail_fast", "finish", "finish", "join")
ACME = {"company": "ACME", "brand": "RED"}


@dataclass(slots=True)
class Opened:
    """Every group that was opened, and the requests of which nobody knows whether they did."""

    groups: list[str] = field(default_factory=list)
    unknown: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)


async def run_group_client(client: Client, load: Workload, opened: Opened) -> None:
    """Groups, one after the other, and parents that spawn groups, until the time is over."""
    loop = asyncio.get_running_loop()
    while loop.time() < load.until:
        choice = client.dice.random()
        if choice < 0.2 and opened.groups:
            await _disturb(client, client.dice.choice(opened.groups[-8:]))
        elif choice < 0.4:
            await _spawn(client)
        else:
            await _one_group(client, load, opened)
        await asyncio.sleep(client.dice.uniform(0, 4 * load.pause))


async def seal_the_rest(client: Client, opened: Opened) -> None:
    """What may be open is sealed when the faults are over, so that it may end.

    That may be any of them: a backup may have brought back what was sealed.
    """
    for args, body in opened.unknown:
        group = await _opened(client, args, body)
        opened.groups += [] if group is None else [group]
    for group in opened.groups:
        await _until_known(client, "seal", group)


async def _one_group(client: Client, load: Workload, opened: Opened) -> None:
    """Open, append in batches, seal; some stay open for a while."""
    dice = client.dice
    group = await _open(client, opened)
    if group is None:
        return
    opened.groups.append(group)
    for _ in range(dice.randint(1, 3)):
        numbers = [next(client.memory.numbers) for _ in range(dice.randint(1, 6))]
        bodies = [_member(client, number) for number in numbers]
        for _ in range(TRIES):
            # The same members again, when nobody knows: they are the group's own already.
            if await _append(client, group, numbers, bodies) != "info":
                break
        await asyncio.sleep(dice.uniform(0, load.pause))
    if dice.random() < 0.9:
        await _until_known(client, "seal", group)


async def _open(client: Client, opened: Opened) -> str | None:
    """Open a group under a key, so that a repeated request opens no second one."""
    number = next(client.memory.numbers)
    body: dict[str, Any] = ACME | {"policy": client.dice.choice(POLICIES)}
    joined = client.dice.random() < 0.85
    if joined:
        body["join"] = {"kind": "fault.join", "payload": {"number": number, "complete": True}}
    args = {"number": number, "joined": joined}
    group = await _opened(client, args, body)
    if group is None:
        opened.unknown.append((args, body))
    return group


async def _opened(client: Client, args: dict[str, Any], body: dict[str, Any]) -> str | None:
    """The group, unless that is refused, or unknown after some tries."""
    headers = {"Idempotency-Key": f"g{args['number']}"}
    for _ in range(TRIES):
        outcome, answer = await client._post("open", "/v1/groups", args, body, headers)
        if outcome != "info":
            return str(answer["group"]) if outcome == "ok" else None
    return None


def _member(client: Client, number: int) -> dict[str, Any]:
    dice = client.dice
    payload = {
        "number": number,
        "chunks": dice.randint(1, 3),
        "seconds": round(dice.uniform(0, 0.4) ** 2, 3),
        "fail_first": int(dice.random() < 0.1),
        "complete": dice.random() < 0.5,
        "poison": dice.random() < 0.06,
    }
    return ACME | {"kind": "fault.member", "payload": payload}


async def _append(
    client: Client, group: str, numbers: Sequence[int], bodies: Sequence[dict[str, Any]]
) -> Outcome:
    args = {"group": group, "numbers": list(numbers)}
    path = f"/v1/groups/{group}/jobs:batch"
    outcome, _ = await client._post("append", path, args, {"jobs": list(bodies)})
    return outcome


async def _until_known(client: Client, op: str, group: str) -> Outcome:
    outcome: Outcome = "info"
    for _ in range(TRIES):
        outcome, _ = await client._post(op, f"/v1/groups/{group}/{op}", {"group": group})
        if outcome != "info":
            break
    return outcome


async def _disturb(client: Client, group: str) -> None:
    """Cancel the group, or run again what failed of it; often it is too late, or too early."""
    op = client.dice.choice(("cancel", "redrive", "redrive"))
    await client._post(f"{op}_group", f"/v1/groups/{group}/{op}", {"group": group})


async def _spawn(client: Client) -> None:
    """A job that makes a group of its own, in one commit with its last effect."""
    dice = client.dice
    payload = {
        "number": next(client.memory.numbers),
        "chunks": dice.randint(1, 2),
        "complete": True,
        "spawns": dice.randint(1, 5),
        "joined": dice.random() < 0.7,
    }
    await client.submit("fault.parent", payload)

"""Handlers of the probe kinds that make groups."""

from typing import Any

from sqlalchemy import text

from shared.groups.group import Policy
from tests.probes.group_kinds import Fan, Gather, Split
from tests.probes.handlers import EFFECT
from worker.context import JobContext
from worker.handlers import Handler
from worker.spawn import SELF, Child

# Every effect of the members that there is when the join runs.
SEEN = text("""
    SELECT count(*) FROM probe.effects e JOIN chot.jobs j ON j.id = e.job_id
     WHERE j.group_id = :group_id""")


def writers(payload: Fan | Split) -> list[Child]:
    """So many jobs that write two effects each."""
    return [
        Child(
            kind="probe.write",
            payload={"number": payload.number + n, "chunks": 2, "seconds": payload.seconds},
        )
        for n in range(1, payload.children + 1)
    ]


async def fan(context: JobContext, payload: Fan) -> None:
    """Spawn them in the commit that completes the job."""
    children = writers(payload)
    join = Child(kind="probe.gather", payload={"number": payload.number})
    async with context.completion() as tx:
        group_id = await context.spawn(tx, children, join=join, policy=Policy(payload.policy))
        tx.result = {"group": str(group_id)}


async def split(context: JobContext, payload: Split) -> None:
    """An effect with the wait and one with the end, so that a second run of either would show."""
    binds = {"job_id": context.job.id, "number": payload.number, "pid": 0}
    binds |= {"fence": context.lease.fence, "attempt": context.job.attempt}
    if context.checkpoint is None:
        async with context.transaction() as tx:
            await tx.connection.execute(EFFECT, binds | {"chunk": 0})
            await context.spawn(tx, writers(payload), join=SELF)
            tx.checkpoint = {"split": True}
        return
    group = await context.group()
    assert group is not None, "it waited for one"
    async with context.completion() as tx:
        seen = await tx.connection.scalar(SEEN, {"group_id": group.id})
        await tx.connection.execute(EFFECT, binds | {"chunk": 1})
        tx.result = {"members": group.total, "active": group.remaining, "effects": seen}


async def gather(context: JobContext, payload: Gather) -> dict[str, Any]:
    """One effect, so that a second run would show; what it saw is the result."""
    group = await context.group()
    assert group is not None, "it joins one"
    states = [member.state async for member in context.members(page=50)]
    async with context.transaction() as tx:
        seen = await tx.connection.scalar(SEEN, {"group_id": group.id})
        binds = {"job_id": context.job.id, "number": payload.number, "chunk": 0, "pid": 0}
        binds |= {"fence": context.lease.fence, "attempt": context.job.attempt}
        if context.checkpoint is None:
            await tx.connection.execute(EFFECT, binds)
        tx.checkpoint = {"written": True}
    return {"members": len(states), "active": sum(s == "running" for s in states), "effects": seen}


HANDLERS = (
    Handler(kind="probe.fan", run=fan),
    Handler(kind="probe.split", run=split),
    Handler(kind="probe.gather", run=gather),
)

"""The typed client and real processes: a group from its opening to its join's result."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.client import ChotClient, JobRequest
from shared.client.errors import GroupClosed, GroupNotFound, NothingToRedrive
from tests.factories import NUMBERS
from tests.fleet import Fleet
from tests.journeys.test_groups import MODULES, with_group_kinds


def job() -> JobRequest:
    """A member to be."""
    payload = {"number": next(NUMBERS)}
    return JobRequest(kind="probe.write", company="ACME", brand="RED", payload=payload)


async def test_a_group_by_the_typed_client(probes: AsyncEngine, fleet: Fleet) -> None:
    """Opened, appended to twice under one key, sealed, waited for; then its join, as any job."""
    await with_group_kinds(probes)
    _, url = await asyncio.to_thread(fleet.api, **MODULES)
    fleet.worker(**MODULES)
    async with ChotClient(url) as chot:
        join = JobRequest(kind="probe.gather", company="ACME", payload={"number": 1})
        group = await chot.groups.open(company="ACME", brand="RED", policy="join", join=join)
        jobs = [job() for _ in range(12)]
        first = await chot.groups.append(group.id, jobs, key="part")
        again = await chot.groups.append(group.id, jobs, key="part")
        assert [each.outcome for each in first] == ["created"] * 12
        assert all(each.replayed for each in again)
        sealed = await chot.groups.seal(group.id)
        assert sealed.total == 12
        with pytest.raises(GroupClosed):
            await chot.groups.append(group.id, [job()])
        ended = await chot.groups.wait(group.id, timeout=60)
        assert (ended.outcome, ended.succeeded, ended.remaining) == ("succeeded", 12, 0)
        assert ended.join_id is not None
        done = await chot.wait(ended.join_id, timeout=60)
        assert done.result == {"members": 12, "active": 0, "effects": 24 // 2}
        assert len([each async for each in chot.list(group=group.id)]) == 12
        with pytest.raises(NothingToRedrive):
            await chot.groups.redrive(group.id)
        with pytest.raises(GroupNotFound):
            await chot.groups.get(done.id)

"""What the page of dead letters says: of what they died, and of those that kill their workers."""

import re
from html import unescape

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from tests.factories import execute
from tests.pages.browsing import log_in, text_of
from tests.protocol.api.keys import make_key
from tests.protocol.test_causes import died

KILLS = """UPDATE chot.jobs SET fence = 2 * max_attempts, attempt = 2 * max_attempts, lost_leases = 2 * max_attempts
            WHERE id = CAST(:id AS uuid)"""
TYPED = """UPDATE chot.job_outputs
              SET error = error || jsonb_build_object('type', CAST(:type AS text))
            WHERE job_id = CAST(:id AS uuid)"""
ONE = "This job lost a worker as often as may be"


@pytest.fixture
async def killers(probes: AsyncEngine) -> list[str]:
    """Four dead jobs of one word: three of a KeyError, of which two are killers, and another."""
    jobs = [await died(probes, "the same") for _ in range(4)]
    for job_id, type_ in zip(jobs, ["KeyError"] * 3 + ["TypeError"], strict=True):
        await execute(probes, TYPED, id=job_id, type=type_)
    for job_id in jobs[:2]:
        await execute(probes, KILLS, id=job_id)
    return jobs


def asked(page: str, form: str) -> str:
    """What a button asks before it sends."""
    found = re.search(rf'<details class="confirm" id="{form}">.*?</details>', page, re.DOTALL)
    assert found is not None, form
    return text_of(found[0])


async def test_a_redrive_says_how_many_of_them_kill_their_workers(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, killers: list[str]
) -> None:
    """Before it is done: of one, of a cause, of all; where there are none it says nothing."""
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    page = (await visitor.get("/ui/dead-letters")).text
    assert ONE in asked(page, f"redrive-{killers[0]}")
    assert "lost a worker" not in asked(page, f"redrive-{killers[2]}")
    assert "2 of 4 lost a worker as often as may be" in asked(page, "redrive-all")
    groups = re.findall(r'id="redrive-([0-9a-f]{16})"', page)
    said = [asked(page, f"redrive-{cause}") for cause in groups]
    assert [("2 of 3 lost a worker" in each) for each in said] == [True, False]
    for job_id, kills in ((killers[0], True), (killers[2], False)):
        job = (await visitor.get(f"/ui/jobs/{job_id}")).text
        assert (ONE in asked(job, "redrive")) == kills
    vietnamese = (await visitor.get("/ui/dead-letters?lang=vi")).text
    assert "2 trong 4 công việc đã làm mất worker" in asked(vietnamese, "redrive-all")


async def test_a_cause_shows_the_type_of_its_error(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, killers: list[str]
) -> None:
    """Two types are two causes, and each says which it is; its list has its jobs alone."""
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    page = (await visitor.get("/ui/dead-letters")).text
    causes = page.partition('id="jobs"')[0]
    assert re.findall(r'<code class="soft">(\w+)</code>', causes) == ["KeyError", "TypeError"]
    (place,) = set(re.findall(r'href="(/ui/dead-letters\?cause=[^"]+#jobs)">1</a>', causes))
    listed = (await visitor.get(unescape(place).partition("#")[0])).text.partition('id="jobs"')[2]
    assert [job_id for job_id in killers if f"/ui/jobs/{job_id}" in listed] == killers[3:]

"""Where a worker runs is for accounts of all companies, wherever a job is shown."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role, Scope
from tests.factories import execute
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, RED, bearer, make_key
from tests.protocol.api.test_read_and_act import run, succeed

WORKER = "ip-10-0-3-17-1-0a1b2c3d"


async def told(client: httpx.AsyncClient, job_id: str, key: dict[str, str]) -> list[Any]:
    """The answers that show a whole job: GET, a long poll, a cancel, and one that is too late."""
    url = f"/v1/jobs/{job_id}"
    shown = [await client.get(url, headers=key), await client.get(f"{url}?wait=5", headers=key)]
    late = problem_of(await client.post(f"{url}/cancel", headers=key), 409, "too-late")
    return [*(answer.json() for answer in shown), late["job"]]


@pytest.mark.parametrize("scope", [RED, ACME])
async def test_attempts_name_the_end_of_their_worker_to_accounts_of_less(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine, scope: Scope
) -> None:
    """Host and process are for those who see all companies; the rest tells workers apart."""
    admin = bearer(await make_key(owner_engine, Role.ADMIN))
    part = bearer(await make_key(owner_engine, Role.READ, Role.OPERATE, scope=scope))
    rename = "UPDATE chot.attempts SET worker_id = :worker WHERE job_id = :id"
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        ended, running = [
            (await post(client, note(), headers=admin)).json()["id"] for _ in range(2)
        ]
        for job_id in (ended, running):
            await run(engine, job_id)
            await execute(engine, rename, worker=WORKER, id=UUID(job_id))
        await succeed(engine, ended, "{}")
        for key, worker in ((admin, WORKER), (part, "0a1b2c3d")):
            for view in await told(client, ended, key):
                assert [each["worker_id"] for each in view["attempts"]] == [worker]
        cancelled = await client.post(f"/v1/jobs/{running}/cancel", headers=part)
    assert cancelled.status_code == 200
    assert "0a1b2c3d" in cancelled.text
    assert "ip-10" not in cancelled.text

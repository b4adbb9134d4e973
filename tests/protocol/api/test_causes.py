"""GET /v1/dead-letters/causes: what died of what, and the way back for all that did."""

import json
from collections.abc import Sequence
from uuid import UUID

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.causes import CausePage
from api.settings import ApiSettings
from shared.access import Role
from tests.factories import execute
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import BLUE, bearer, make_key
from tests.protocol.api.test_dead_letters import redrive
from tests.protocol.api.test_read_and_act import bury

MESSAGES = ("document 7 is broken", "document 1,500 is broken", "the period is closed")


async def three_dead(client: httpx.AsyncClient, engine: AsyncEngine) -> Sequence[str]:
    """Two died of the same thing, a third of another."""
    ids = [await bury(client, engine) for _ in MESSAGES]
    for job_id, message in zip(ids, MESSAGES, strict=True):
        await execute(
            engine,
            "UPDATE chot.job_outputs SET error = CAST(:error AS jsonb) WHERE job_id = :id",
            error=json.dumps({"code": "BROKEN", "message": message}),
            id=UUID(job_id),
        )
    return ids


async def test_what_died_of_the_same_thing_is_one_cause(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The largest first, the newest as its example, all of them counted."""
    ids = await three_dead(client, engine)
    page = (await client.get("/v1/dead-letters/causes")).json()
    CausePage.model_validate(page, extra="forbid")
    assert (page["total_jobs"], page["total_causes"]) == (3, 2)
    first, second = page["causes"]
    assert (first["kind"], first["code"], first["jobs"]) == ("api.note", "BROKEN", 2)
    assert first["message"] == "document # is broken"
    assert first["example"]["id"] == ids[1]
    assert first["example"]["error"]["message"] == MESSAGES[1]
    assert (second["jobs"], second["message"]) == (1, MESSAGES[2])
    limited = (await client.get("/v1/dead-letters/causes?limit=1")).json()
    assert ([each["cause"] for each in limited["causes"]], limited["total_causes"]) == (
        [first["cause"]],
        2,
    )
    nothing = (await client.get("/v1/dead-letters/causes?kind=api.merge")).json()
    assert nothing == {"causes": [], "total_jobs": 0, "total_causes": 0}


async def test_a_cause_is_listed_and_redriven_alone(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """What died of something else stays dead."""
    ids = await three_dead(client, engine)
    cause = (await client.get("/v1/dead-letters/causes")).json()["causes"][0]["cause"]
    listed = (await client.get(f"/v1/dead-letters?cause={cause}")).json()["jobs"]
    assert [job["id"] for job in listed] == [ids[1], ids[0]]
    report = (await redrive(client, {"cause": cause})).json()
    assert {item["id"] for item in report["redriven"]} == set(ids[:2])
    assert (report["refused"], report["next_cursor"]) == ([], None)
    left = (await client.get("/v1/dead-letters/causes")).json()
    assert (left["total_jobs"], left["causes"][0]["example"]["id"]) == (1, ids[2])
    for wrong in ({"cause": "x"}, {"cause": cause, "all": True}, {"cause": cause.upper()}):
        problem_of(await redrive(client, wrong), 422, "invalid-request")
    problem_of(await client.get("/v1/dead-letters?cause=x"), 422, "invalid-request")


async def test_causes_are_counted_within_the_scope(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A brand's operator neither sees nor redrives what another brand died of."""
    async with serving(settings) as client:
        await three_dead(client, engine)
        cause = (await client.get("/v1/dead-letters/causes")).json()["causes"][0]["cause"]
    key = await make_key(owner_engine, Role.OPERATE, scope=BLUE, principal="blue")
    async with serving(settings.model_copy(update={"api_open": False})) as guarded:
        page = await guarded.get("/v1/dead-letters/causes", headers=bearer(key))
        assert page.json() == {"causes": [], "total_jobs": 0, "total_causes": 0}
        report = await guarded.post(
            "/v1/dead-letters/redrive",
            content=json.dumps({"cause": cause}),
            headers=bearer(key) | {"Content-Type": "application/json"},
        )
        assert (report.json()["redriven"], report.json()["refused"]) == ([], [])

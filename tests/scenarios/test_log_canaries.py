"""No line of any process holds a payload's value, a key, a header or a password."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from tests.factories import NUMBERS, eventually
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import reached, working
from tests.protocol.api.keys import bearer, make_key

PAYLOAD = "CANARY-PAYLOAD-5e1f"
HEADER = "CANARY-HEADER-9a20"
IDEMPOTENCY = "CANARY-IDEMPOTENCY-77"
DSN = "CANARY-DSN-41"
TOKEN = "CANARY-TOKEN-0c"  # noqa: S105 - of a test
COOKIE = "CANARY-COOKIE-3d"
CANARIES = (PAYLOAD, HEADER, IDEMPOTENCY, DSN, TOKEN, COOKIE)
MODULE = "tests.scenarios.canary_kinds"
HOWS = ("raise", "permanent", "snooze", "yield", "unique", "data", "assert", "log_nothing", "group")


@pytest.fixture
def environment(fleet: Fleet) -> dict[str, str]:
    """Every process has a password in its URLs; the server trusts everybody."""
    urls = {
        "CHOT_DATABASE_URL": fleet.database.app_url,
        "CHOT_READ_DATABASE_URL": fleet.database.read_url,
    }
    with_password = {
        name: url.replace("@", f":{DSN}@", 1) if url.count(":") == 2 else url
        for name, url in urls.items()
    }
    return with_password | {
        "CHOT_KIND_MODULES": f"tests.probes.kinds,{MODULE}",
        "CHOT_HANDLER_MODULES": f"tests.probes.handlers,{MODULE}",
        "CHOT_TOKEN": TOKEN,
    }


def none_in(path: Path) -> None:
    """Whether a log holds no canary; what it says does not repeat it."""
    text = path.read_text(errors="replace")
    found = [
        (canary, [line[:60] for line in text.splitlines() if canary in line][:3])
        for canary in CANARIES
        if canary in text
    ]
    assert not found, f"{path.name} tells {found}"


def body(how: str) -> dict[str, Any]:
    """A job whose payload holds the canary wherever one may stand."""
    payload = {
        "number": next(NUMBERS),
        "secret": PAYLOAD,
        "how": how,
        "notes": {"deep": [PAYLOAD]},
    }
    return {"kind": "probe.canary", "company": "ACME", "brand": "RED", "payload": payload}


async def wrong_requests(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """Requests that are refused, each with a canary in what is wrong with it."""
    for asked in (
        {"json": body("raise") | {"kind": PAYLOAD}},
        {"json": body("raise") | {"payload": {"secret": PAYLOAD}}},
        {"json": body("raise") | {PAYLOAD: 1}},
        {"content": f'{{"kind": "{PAYLOAD}"'.encode()},
        {"json": [PAYLOAD]},
        {"json": body("raise") | {"run_at": PAYLOAD}},
    ):
        answer = await http.post("/v1/jobs", headers=headers, **asked)
        assert 400 <= answer.status_code < 500, answer.text
    await http.get(f"/v1/jobs/{PAYLOAD}", headers=headers)
    await http.get("/v1/jobs", params={"kind": PAYLOAD, PAYLOAD: "1"}, headers=headers)
    refused = await http.get("/v1/jobs", headers={"Authorization": f"Bearer {HEADER}"})
    assert refused.status_code == 401


async def test_a_payload_goes_through_everything_and_is_in_no_line(
    fleet: Fleet, probes: AsyncEngine, owner_engine: AsyncEngine, environment: dict[str, str]
) -> None:
    """Submit, run, fail in every way, die, redrive; a kill -9 between; and every log is clean."""
    key = await make_key(owner_engine, Role.ADMIN)
    headers = bearer(key) | {
        "X-Canary": HEADER,
        "Cookie": f"session={COOKIE}",
        "User-Agent": HEADER,
        "traceparent": HEADER,
        "Referer": f"https://user:{HEADER}@host/",
    }
    _, url = await asyncio.to_thread(fleet.api, **environment)
    worker = fleet.worker(**environment)
    await working(worker)
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        await wrong_requests(http, headers)
        ids: dict[str, UUID] = {}
        for how in HOWS:
            more = {"Idempotency-Key": f"{IDEMPOTENCY}-{how}"}
            for _ in range(2):
                answer = await http.post("/v1/jobs", json=body(how), headers=headers | more)
                assert answer.status_code in {202, 422}, answer.text
                if answer.status_code == 202:
                    ids[how] = UUID(answer.json()["id"])
        dying = [ids[how] for how in ("raise", "permanent", "unique", "data", "assert")]
        for job_id in dying:
            await reached(probes, job_id, "dead", seconds=40)
        for job_id in dying[:2]:

            async def redriven(job_id: UUID = job_id) -> bool:
                answer = await http.post(f"/v1/jobs/{job_id}/redrive", headers=headers)
                return answer.status_code == 202

            await eventually(redriven)
        worker.kill()
        fleet.worker(**environment)
        for job_id in dying:
            await reached(probes, job_id, "dead", seconds=40)
        for page in ("/metrics", "/v1/dead-letters", f"/v1/jobs/{dying[0]}/why"):
            assert (await http.get(page, headers=headers)).status_code == 200
    secret = key.split("_", 2)[2]
    for child in fleet.children:
        log = child.command.log
        assert log is not None
        none_in(log)
        assert secret not in log.read_text(errors="replace")
        assert not [line for line in plain_lines(log) if "Traceback" in line], "all lines are JSON"
    events = {line["event"] for child in fleet.children for line in log_lines(child)}
    assert {"http.request", "attempt.ended", "job.dead", "maintenance.failed"} <= events
    told = [line for child in fleet.workers for line in fleet.events(child, "attempt.ended")]
    assert {line.get("error") for line in told} >= {"ValueError", "PermanentError"}
    assert all(line["where"] for line in told if line["outcome"] == "failed"), "its place is told"


def plain_lines(log: Path) -> list[str]:
    """Lines that are no JSON objects."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        try:
            json.loads(line)
        except ValueError:
            found.append(line)
    return found

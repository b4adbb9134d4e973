"""What docs/blocking-to-202.md tells an ERP developer to write, run: its file, its calls."""

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sample_company import load_sample
from shared.client import ChotClient
from tests.factories import scalar
from tests.fleet import Fleet
from tests.journeys.test_client import TOKEN

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "blocking-to-202.md"
CODE = re.compile(r"^`erp\.py`\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOVEMENTS = 2_000
START = "/companies/SAMPLE/periods/{}/costing"


@pytest.fixture
async def erp(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """The ERP of the page, with its one client for the whole process."""
    (tmp_path / "erp.py").write_text(CODE.findall(PAGE.read_text())[0])
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("erp", None)
    await load_sample(fleet.database.app_url, movements=MOVEMENTS)
    own = {"CHOT_KIND_MODULES": "", "CHOT_HANDLER_MODULES": "", "CHOT_QUEUES": ""}
    fleet.worker(**own)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, **own))
    app = FastAPI()
    app.include_router(importlib.import_module("erp").router)
    transport = httpx.ASGITransport(app=app)
    async with (
        ChotClient(url, TOKEN) as app.state.chot,
        httpx.AsyncClient(transport=transport, base_url="http://erp.test") as client,
    ):
        yield client
    sys.modules.pop("erp", None)


async def test_the_endpoint_of_the_page_answers_at_once_and_is_followed_to_its_result(
    erp: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """202 with an address; pressed again it is the same job; polled to the end as the page does."""
    key = {"Idempotency-Key": "press-1"}
    started = await erp.post(START.format("2026-01"), headers=key)
    assert started.status_code == 202, started.text
    assert started.headers["location"] == started.json()["status_url"]
    again = await erp.post(START.format("2026-01"), headers=key)
    assert again.json() == started.json()
    async with asyncio.timeout(60):
        while True:
            job = (await erp.get(started.json()["status_url"], params={"wait": 20})).json()
            if job["state"] in {"succeeded", "dead", "cancelled"}:
                break
    assert (job["state"], job["error"]) == ("succeeded", None)
    assert job["result"]
    assert job["done"] == job["total"]
    late = await erp.post(START.format("2026-01"), headers=key)
    assert late.json() == started.json(), "the answer of this press, also when it is over"
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1
    anew = await erp.post(START.format("2026-01"), headers={"Idempotency-Key": "press-2"})
    assert anew.json()["id"] != started.json()["id"]


async def test_what_it_refuses_and_what_died_reach_the_page(erp: httpx.AsyncClient) -> None:
    """Field and rule; the error's message of a job that died."""
    key = {"Idempotency-Key": "press-3"}
    refused = await erp.post(START.format("January"), headers=key)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "payload.period"
    dead = await erp.post(START.format("2031-01"), headers=key)
    async with asyncio.timeout(60):
        while True:
            job = (await erp.get(dead.json()["status_url"], params={"wait": 20})).json()
            if job["state"] not in {"pending", "running"}:
                break
    assert job["state"] == "dead"
    assert "2031-01" in job["error"]


def test_the_pages_say_what_is_there() -> None:
    """Calls of the client that the pages show are calls that it has."""
    for page in (PAGE, DOCS / "client.md"):
        called = set(re.findall(r"\b(?:await|in) chot\.(\w+)\(", page.read_text()))
        assert called <= set(dir(ChotClient)), page
    rows = re.findall(r"^\| `(\w+)\(", (DOCS / "client.md").read_text(), re.MULTILINE)
    public = {name for name in vars(ChotClient) if not name.startswith("_")} - {"close"}
    assert set(rows) == public

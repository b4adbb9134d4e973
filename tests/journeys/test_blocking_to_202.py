"""What docs/blocking-to-202.md tells an ERP developer to write, run: its files, its calls."""

import asyncio
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from dev.processes import Command, answers, free_port, start, wait_until
from dev.sample_company import load_sample
from shared.client import ChotClient
from tests.factories import execute, fetch, scalar
from tests.fleet import ROOT, Fleet
from tests.journeys.test_client import TOKEN
from tests.tcp_proxy import Proxy

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "blocking-to-202.md"
FILE = re.compile(
    r"^`(?P<name>\w+\.(?:py|js|sql))`\n```(?:python|js|sql)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
OURS = {"CHOT_KIND_MODULES": "", "CHOT_HANDLER_MODULES": "", "CHOT_QUEUES": ""}
SETTINGS = re.compile(r"\b(CHOT_\w+_MODULES)=(\w+)")
SERVED = re.compile(r"^uvicorn (\w+:app) --port (\d+)$", re.MULTILINE)
PRESSED = re.compile(r'^curl -X POST "http://127.0.0.1:\d+(\S+)" -H "(\S+): (\S+)"$', re.MULTILINE)
MOVEMENTS = 2_000
START = "/companies/SAMPLE/periods/{}/costing"
POINTS = "SELECT store, item, qty_base FROM books.reorder_points ORDER BY store, item"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's files where they can be imported; gone from memory afterwards."""
    written = dict(FILE.findall(PAGE.read_text()))
    for name, code in written.items():
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    modules = [name.removesuffix(".py") for name in written if name.endswith(".py")]
    for module in modules:
        sys.modules.pop(module, None)
    yield tmp_path
    for module in modules:
        sys.modules.pop(module, None)


def logged_in(app: FastAPI) -> None:
    """Stands in for the ERP's login: this user's companies are in a header."""

    @app.middleware("http")
    async def _login(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        request.state.companies = set(request.headers.get("x-companies", "").split())
        return await go_on(request)


@pytest.fixture
async def erp_app(
    fleet: Fleet, files: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FastAPI]:
    """The ERP of the page, started as uvicorn would start it, in front of an api and no worker."""
    assert files == fleet.logs, "where processes of the fleet find them, too"
    await load_sample(fleet.database.app_url, movements=MOVEMENTS)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, **OURS))
    monkeypatch.setenv("CHOT_API_URL", url)
    monkeypatch.setenv("CHOT_TOKEN", TOKEN)
    app: FastAPI = importlib.import_module("erp").app
    logged_in(app)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def erp(erp_app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody of SAMPLE at it; an exception that nobody caught fails the test."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=erp_app),
        base_url="http://erp.test",
        headers={"X-Companies": "SAMPLE"},
    ) as client:
        yield client


def press() -> dict[str, str]:
    """The header of one press of the button."""
    return {"Idempotency-Key": str(uuid4())}


async def followed(erp: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """The job as the page has it in the end."""
    async with asyncio.timeout(60):
        while True:
            answer = await erp.get(address, params={"wait": 20})
            assert answer.status_code == 200, answer.text
            job: dict[str, Any] = answer.json()
            if job["state"] in {"succeeded", "dead", "cancelled"}:
                return job


async def test_the_endpoint_of_the_page_answers_at_once_and_is_followed_to_its_result(
    erp: httpx.AsyncClient, fleet: Fleet, engine: AsyncEngine
) -> None:
    """202 with an address; pressed again it is the same job; polled to the end as the page does."""
    fleet.worker(**OURS)
    key = press()
    started = await erp.post(START.format("2026-01"), headers=key)
    assert started.status_code == 202, started.text
    assert started.json()["created"] is True
    address = started.json()["status_url"]
    assert started.headers["location"] == address
    again = await erp.post(START.format("2026-01"), headers=key)
    assert again.json() == started.json()
    job = await followed(erp, address)
    assert (job["state"], job["error"], job["outcome"]) == ("succeeded", None, "completed")
    assert job["result"]
    assert job["done"] == job["total"]
    assert job["created_at"]
    late = await erp.post(START.format("2026-01"), headers=key)
    assert late.json() == started.json(), "the answer of this press, also when it is over"
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1
    anew = await erp.post(START.format("2026-01"), headers=press())
    assert anew.json()["status_url"] != address


async def test_the_file_that_tries_it_without_a_login_serves(files: Path, fleet: Fleet) -> None:
    """By the page's own uvicorn line and its curl."""
    await load_sample(fleet.database.app_url, movements=MOVEMENTS)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, **OURS))
    ((served, _),) = SERVED.findall(PAGE.read_text())
    ((path, name, key),) = PRESSED.findall(PAGE.read_text())
    port = free_port()
    child = start(
        Command(
            name="erp",
            argv=[sys.executable, "-m", "uvicorn", served, "--port", str(port)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "CHOT_API_URL": url, "CHOT_TOKEN": TOKEN},
            log=files / "erp.log",
            cwd=files,
        )
    )
    fleet.children.append(child)
    up = partial(wait_until, deadline_seconds=30, what="up")
    await asyncio.to_thread(lambda: up(lambda: answers(port, "/openapi.json"), child))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        pressed = await client.post(path, headers={name: key})
        assert pressed.status_code == 202, pressed.text
        shown = await client.get(pressed.json()["status_url"])
    assert (shown.status_code, shown.json()["state"]) == (200, "pending")


async def test_what_it_refuses_and_what_died_reach_the_page(
    erp: httpx.AsyncClient, fleet: Fleet
) -> None:
    """Field and rule; the error's message of a job that died."""
    fleet.worker(**OURS)
    refused = await erp.post(START.format("January"), headers=press())
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "payload.period"
    dead = await erp.post(START.format("2031-01"), headers=press())
    job = await followed(erp, dead.json()["status_url"])
    assert job["state"] == "dead"
    assert "2031-01" in job["error"]


async def test_what_is_not_there_or_not_theirs_is_404_and_a_malformed_request_422(
    erp: httpx.AsyncClient,
) -> None:
    """Never a traceback: an id nobody has, one that is none, keys that are none, other's work."""
    unknown = await erp.get(f"/costing/{uuid4()}")
    assert unknown.status_code == 404
    assert "no such job" in unknown.json()["error"]
    for malformed in ("jan", "..", "%C6%A1", "1;drop"):
        assert (await erp.get(f"/costing/{malformed}")).status_code in {404, 422}, malformed
    for wait in ("nan", "-1", "1e9"):
        answer = await erp.get(f"/costing/{uuid4()}", params={"wait": wait})
        assert answer.status_code == 422, wait
    for key in (b"", b"press-1", "chốt".encode(), b"\xff"):
        answer = await erp.post(START.format("2026-01"), headers=[(b"Idempotency-Key", key)])
        assert answer.status_code == 422, key
    assert (await erp.post(START.format("2026-01"))).status_code == 422, "no key at all"
    mine = (await erp.post(START.format("2026-01"), headers=press())).json()["status_url"]
    stranger = {"X-Companies": "ACME"}
    assert (await erp.get(mine, headers=stranger)).status_code == 404
    theirs = await erp.post(START.format("2026-01"), headers=press() | stranger)
    assert theirs.status_code == 403


async def test_a_key_of_the_erp_that_chot_refuses_is_no_users_fault(
    erp: httpx.AsyncClient, erp_app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    """Chốt's 401 does not send the user to log in: 500, in JSON, and the log says why."""
    async with ChotClient(str(erp_app.state.chot._http.base_url), "wrong") as erp_app.state.chot:
        for answer in (
            await erp.get(f"/costing/{uuid4()}"),
            await erp.post(START.format("2026-01"), headers=press()),
        ):
            assert answer.status_code == 500
            assert answer.json()["error"]
    assert "refuses the ERP's key" in caplog.text


async def test_what_may_pass_is_503_and_the_same_press_finds_out(
    erp: httpx.AsyncClient, erp_app: FastAPI, fleet: Fleet, pg_proxy: Proxy, engine: AsyncEngine
) -> None:
    """Chốt without its database answers 503, Chốt that is gone does not answer: both may pass."""
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, **OURS, **fleet.proxied))
    key = press()
    async with ChotClient(url, TOKEN, deadline=1) as erp_app.state.chot:
        pg_proxy.cut()
        await _both_may_pass(erp, key)
        pg_proxy.heal()
    async with ChotClient(url, TOKEN) as erp_app.state.chot:
        started = await erp.post(START.format("2026-01"), headers=key)
        assert started.status_code == 202, started.text
    fleet.close()
    async with ChotClient(url, TOKEN, deadline=0.3) as erp_app.state.chot:
        await _both_may_pass(erp, press())
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1


async def _both_may_pass(erp: httpx.AsyncClient, key: dict[str, str]) -> None:
    for answer in (
        await erp.post(START.format("2026-01"), headers=key),
        await erp.get(f"/costing/{uuid4()}"),
    ):
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "5"
        assert answer.json()["error"]


STAGE = """
globalThis.shown = []; globalThis.asked = []; globalThis.stored = JSON.parse(process.argv[3]);
globalThis.show = (job) => shown.push(job.state);
globalThis.setTimeout = (done) => queueMicrotask(done);
globalThis.sessionStorage = {
  getItem: (name) => stored[name] ?? null,
  setItem: (name, value) => { stored[name] = value; },
  removeItem: (name) => { delete stored[name]; },
};
const script = JSON.parse(process.argv[2]);
globalThis.fetch = async (url, options) => {
  asked.push([options?.method ?? "GET", url, options?.headers?.["Idempotency-Key"] ?? null]);
  const next = script.shift();
  if (next === null) throw new TypeError("fetch failed");
  return new Response(next[1], {status: next[0], headers: {"Retry-After": "1"}});
};
"""
ENDING = """
let ended; try { ended = (await cost("SAMPLE", "2026-01")).state; } catch (e) { ended = e.message; }
console.log(JSON.stringify({ended, shown, asked, stored}));
"""
ACCEPTED = (202, '{"status_url": "/costing/1"}')
RUNNING, DONE = (200, '{"state": "running"}'), (200, '{"state": "succeeded"}')


def pressed(
    files: Path,
    script: Sequence[tuple[int, str] | None],
    *,
    stored: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the page's script does when fetch answers so, one after the other."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not there to run the page's script")
    program = files / "press.mjs"
    program.write_text(STAGE + (files / "costing.js").read_text() + ENDING)
    done = subprocess.run(
        [node, str(program), json.dumps(script), json.dumps(stored or {})],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_script_waits_for_what_may_pass_and_keeps_its_key(files: Path) -> None:
    """Lost connections, 503s and a restart end nothing: one press, one key, to the end."""
    down = (503, '{"error": "not known yet"}')
    html = (502, "<html>bad gateway</html>")
    found = pressed(files, [None, down, ACCEPTED, html, RUNNING, None, (429, ""), DONE])
    assert found["ended"] == "succeeded"
    keys = {key for method, _, key in found["asked"] if method == "POST"}
    assert len(keys) == 1
    assert found["shown"] == [*["no answer"] * 3, "running", *["no answer"] * 2, "succeeded"]
    assert found["stored"] == {}, "the next press is a new one"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, '{"error": "There is no such job"}'), "There is no such job"),
        ((404, '{"detail": "not here, or not yours"}'), "not here, or not yours"),
        ((500, "Internal Server Error"), "HTTP 500"),
        ((422, '{"detail": [{"loc": ["path"]}]}'), "HTTP 422"),
    ],
)
def test_the_script_stops_with_a_message_at_what_stands(
    files: Path, answer: tuple[int, str], said: str
) -> None:
    """It is asked once, and nothing of it is followed after a reload."""
    found = pressed(files, [ACCEPTED, answer])
    assert (found["ended"], found["stored"], len(found["asked"])) == (said, {}, 2)


def test_a_page_that_was_loaded_anew_follows_the_work_that_it_left(files: Path) -> None:
    """The address is kept, not the key: it goes on there, and a press meanwhile is a new key."""
    found = pressed(files, [DONE, ACCEPTED, DONE], stored={"costing": "/costing/left"})
    assert found["asked"][0][:2] == ["GET", "/costing/left?wait=20"]
    assert [method for method, _, _ in found["asked"]].count("POST") == 1
    assert (found["ended"], found["stored"]) == ("succeeded", {})


def run_page(files: Path, *words: str, **env: str) -> None:
    """A command of the page where its files are."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=files,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def points(files: Path, fleet: Fleet) -> None:
    """The table that the old function writes, made by the page's own SQL as the page says."""
    await load_sample(fleet.database.app_url, movements=MOVEMENTS)
    owner = {"CHOT_MIGRATE_DATABASE_URL": fleet.database.superuser_url}
    await asyncio.to_thread(lambda: run_page(files, "make_table.py", **owner))


async def test_the_old_function_and_its_job_write_the_same(
    points: None, files: Path, fleet: Fleet, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Run as it was, then as the page makes it: the same rows; an unknown period is dead at once."""
    assert points is None
    before: ModuleType = importlib.import_module("before")

    def as_it_was(connection: Connection) -> int:
        with Session(connection) as session:
            written: int = before.set_reorder_points(session, "SAMPLE", "2026-01")
            return written

    async with engine.connect() as conn:
        written = await conn.run_sync(as_it_was)
    wanted = await fetch(engine, POINTS)
    assert written == len(wanted) > 0
    await execute(owner_engine, "DELETE FROM books.reorder_points")
    own = dict(SETTINGS.findall(PAGE.read_text())) | {
        "CHOT_QUEUES": "default",
        "PYTHONPATH": f"{ROOT}:{files}",
    }
    fleet.worker(**own)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, **own))
    async with ChotClient(url, TOKEN) as chot:
        done = await chot.submit("reorder.points", company="SAMPLE", payload={"period": "2026-01"})
        lost = await chot.submit("reorder.points", company="SAMPLE", payload={"period": "2031-01"})
        job, dead = await chot.wait(done.id, timeout=60), await chot.wait(lost.id, timeout=60)
    assert job.state == "succeeded", job.error
    stores = await scalar(engine, "SELECT count(*) FROM books.stores WHERE company = 'SAMPLE'")
    assert job.result == {"stores": stores, "written": written}
    assert await fetch(engine, POINTS) == wanted
    chunks = await scalar(engine, "SELECT count(DISTINCT xmin::text) FROM books.reorder_points")
    assert chunks == len({row[0] for row in wanted}), "a transaction for each store"
    assert dead.state == "dead"
    assert dead.error is not None
    assert (dead.error["code"], dead.attempt) == ("PERIOD_UNKNOWN", 1)


async def test_a_commit_that_was_overlooked_commits_nothing(
    points: None, files: Path, fleet: Fleet, engine: AsyncEngine
) -> None:
    """in_session() of the page: what the old code commits is undone with the chunk."""
    assert (points, files) == (None, fleet.logs)
    in_session = importlib.import_module("reorder_handler").in_session

    def writes(session: Session) -> None:
        session.execute(text("INSERT INTO books.reorder_points VALUES ('SAMPLE', 'x', 'y', 1)"))
        session.commit()

    async with engine.connect() as conn:
        await conn.execute(text("SELECT 1"))
        await conn.run_sync(in_session, writes)
        assert await conn.scalar(text("SELECT count(*) FROM books.reorder_points")) == 1
        await conn.rollback()
    assert await scalar(engine, "SELECT count(*) FROM books.reorder_points") == 0


def test_the_pages_say_what_is_there() -> None:
    """Calls of the client that the pages show are calls that it has."""
    for page in (PAGE, DOCS / "client.md"):
        called = set(re.findall(r"\b(?:await|in) (?:\w+\.)*chot\.(\w+)\(", page.read_text()))
        assert called <= set(dir(ChotClient)), page
        assert called
    rows = re.findall(r"^\| `(\w+)\(", (DOCS / "client.md").read_text(), re.MULTILINE)
    public = {name for name in vars(ChotClient) if not name.startswith("_")} - {"close"}
    assert set(rows) == public

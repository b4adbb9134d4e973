"""Real api processes under uvicorn: races between two, start-up refusals, the end by SIGTERM."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from api.__main__ import main
from api.dropping import DROP_SECONDS_MAX
from dev.processes import Child, Command, answers, free_port, start, wait_until
from tests.factories import scalar
from tests.protocol.api.app import KIND_MODULE, note, post, problem_of
from tests.services import ROOT, Database

START_SECONDS = 30.0
TOKEN = "a-token-for-tests"  # noqa: S105 - of a test
Launch = Callable[..., tuple[Child, int]]


@pytest.fixture
def environment(database: Database, company: str, queue_prefix: str) -> dict[str, str]:
    """The environment of an api process of this test; AWS is the session's emulator."""
    assert company == "ACME", "the tests submit for this company"
    return os.environ | {
        "CHOT_DATABASE_URL": database.app_url,
        "CHOT_QUEUE_PREFIX": queue_prefix,
        "CHOT_KIND_MODULES": KIND_MODULE,
        "CHOT_LOG_FORMAT": "json",
        "CHOT_API_OPEN": "true",
    }


@pytest.fixture
def launch(environment: dict[str, str], tmp_path: Path) -> Iterator[Launch]:
    """Starts an api process and returns once it is ready; what still runs ends with the test."""
    children: list[Child] = []

    def one(**changed: str) -> tuple[Child, int]:
        port = free_port()
        env = environment | {"CHOT_API_PORT": str(port)} | changed
        log = tmp_path / f"api-{len(children)}.log"
        argv = [sys.executable, "-m", "api"]
        child = start(Command(name="api", argv=argv, env=env, log=log, cwd=ROOT))
        children.append(child)
        wait_until(
            lambda: answers(port, "/readyz"), child, deadline_seconds=START_SECONDS, what="ready"
        )
        return child, port

    yield one
    for child in children:
        if child.alive:
            child.stop()


async def test_sigterm_ends_a_waiting_poll_and_exits_zero(launch: Launch) -> None:
    """In-flight requests get their answers, the log has a line for each, the exit code is 0."""
    child, port = launch(CHOT_TOKEN=TOKEN, CHOT_API_OPEN="false")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=30, headers=headers) as client:
        made = (await post(client, note(note="a secret of the payload"))).json()
        refused = await client.get("/v1/queues", headers={"Authorization": "Bearer wrong"})
        problem_of(refused, 401, "unauthorized")
        waiting = asyncio.create_task(client.get(f"{made['status_url']}?wait=25"))
        await asyncio.wait({waiting}, timeout=0.7)
        assert not waiting.done()
        child.send(signal.SIGTERM)
        answer = await waiting
    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    assert await asyncio.to_thread(child.wait, 15) == 0
    assert child.command.log is not None
    said = child.command.log.read_text()
    lines = [json.loads(line) for line in said.splitlines()]
    requests = [line for line in lines if line["event"] == "http.request"]
    submits = [line for line in requests if line["route"] == "/v1/jobs"]
    assert [(line["method"], line["status"], line["job_id"]) for line in submits] == [
        ("POST", 202, made["id"])
    ]
    assert {line["route"] for line in requests} >= {"/v1/jobs/{job_id}", "/readyz"}
    assert all(line["ms"] >= 0 for line in requests)
    assert "secret of the payload" not in said
    assert TOKEN not in said
    assert lines[-1]["event"] == "api.stopped"


async def test_a_client_that_still_sends_sees_why_it_was_refused(launch: Launch) -> None:
    """C38: 10 MB, announced or not, are answered by 413 and no reset; an endless body ends."""
    _, port = launch()
    url = f"http://127.0.0.1:{port}/v1/jobs"
    headers = {"Content-Type": "application/json"}

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100_000

    async with httpx.AsyncClient(timeout=30) as client:
        for content in (b" " * 10_000_000, unannounced()):
            refused = await client.post(url, content=content, headers=headers)
            problem_of(refused, 413, "too-large")
            assert refused.headers["connection"] == "close"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n")
    # Nothing more is sent: the answer is there at once, and the api closes by itself.
    async with asyncio.timeout(DROP_SECONDS_MAX + 5):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_forwarded_address_counts_where_the_peer_is_a_proxy_of_ours(
    launch: Launch, engine: AsyncEngine
) -> None:
    """The server itself must not take it from whoever asks over loopback."""
    forged = {"X-Forwarded-For": "203.0.113.9"}
    sources = []
    for changed in ({}, {"CHOT_TRUSTED_PROXIES": "127.0.0.0/8"}):
        _, port = launch(**changed)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            job_id = (await post(client, note(), headers=forged)).json()["id"]
        read = "SELECT host(source) FROM chot.audit WHERE job_id = CAST(:id AS uuid)"
        sources.append(await scalar(engine, read, id=job_id))
    assert sources == ["127.0.0.1", "203.0.113.9"]


async def test_two_processes_stop_a_script_that_loops(launch: Launch, engine: AsyncEngine) -> None:
    """Each knows late what the other lets in, and never passes the maximum itself; then neither
    lets in one more, and what was let in before a process's first count it knows at once.

    How late is counted in counts (tests/unit/api/test_limiting.py), which take long on a busy
    machine: so far apart, both may let in all that the maximum allows.
    """
    most = 50
    ports = [launch(CHOT_MAX_PENDING=str(most))[1] for _ in range(2)]

    async def loop(port: int, times: int, brand: str = "RED") -> list[int]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            bodies = [note() | {"brand": brand} for _ in range(times)]
            return [(await post(client, body)).status_code for body in bodies]

    first = await asyncio.gather(*(loop(port, 2 * most) for port in ports))
    for statuses in first:
        assert set(statuses) <= {202, 429}
        assert statuses.count(202) <= most
        assert statuses[-1] == 429
    later = await asyncio.gather(*(loop(port, 10) for port in ports))
    assert {status for statuses in later for status in statuses} == {429}
    pending = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'pending'")
    assert pending == sum(statuses.count(202) for statuses in first)
    assert pending >= most, "nobody was refused too early"
    assert await loop(ports[0], most + 1, "BLUE") == [202] * most + [429]
    assert await loop(ports[1], 1, "BLUE") == [429]


async def test_an_upgrade_is_a_request_like_any_other(launch: Launch) -> None:
    """There is no websocket; the answer is a problem and not an empty 403."""
    _, port = launch()
    asked = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/socket", headers=asked)
    problem_of(answer, 404, "not-found")


SOUND: dict[str, str | None] = {
    "CHOT_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "AWS_REGION": "ap-southeast-1",
    "AWS_DEFAULT_REGION": None,
    "AWS_PROFILE": None,
}
REFUSED: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "no database": ({"CHOT_DATABASE_URL": None}, ["CHOT_DATABASE_URL is not set"]),
    **{
        f"a database URL that is none: {url}": ({"CHOT_DATABASE_URL": url}, ["CHOT_DATABASE_URL: "])
        for url in (
            "",
            "nonsense",
            "mysql://x/y",
            "postgresql://h:abc/chot",
            "postgresql://h:99999/chot",
            "postgresql://h/chot?zz=1",
            "postgresql://h",
        )
    },
    "open to the world": (
        {"CHOT_API_HOST": "0.0.0.0", "CHOT_API_OPEN": "true"},  # noqa: S104 - it is refused
        ["CHOT_API_HOST=0.0.0.0 and CHOT_API_OPEN=true disagree"],
    ),
    "open with a token": (
        {"CHOT_TOKEN": "t", "CHOT_API_OPEN": "true"},
        ["CHOT_TOKEN (set) and CHOT_API_OPEN=true disagree"],
    ),
    "several at once": (
        {"CHOT_API_PORT": "70000", "CHOT_IDEMPOTENCY_HOURS": "1"},
        ["CHOT_API_PORT='70000'", "CHOT_IDEMPOTENCY_HOURS='1'"],
    ),
    "a keep-alive below the balancer's": (
        {"CHOT_BALANCER_IDLE_SECONDS": "120"},
        ["CHOT_API_KEEP_ALIVE_SECONDS=75 and CHOT_BALANCER_IDLE_SECONDS=120 disagree"],
    ),
    "a token with a space": ({"CHOT_TOKEN": "not to be told"}, ["CHOT_TOKEN: "]),
    "unsafe timing": ({"CHOT_HEARTBEAT_SECONDS": "20"}, ["CHOT_HEARTBEAT_SECONDS=20"]),
    "no such kind module": (
        {"CHOT_KIND_MODULES": "no.such"},
        ["CHOT_KIND_MODULES names 'no.such'"],
    ),
    "no region": (
        {"AWS_REGION": None, "AWS_DEFAULT_REGION": None, "AWS_CONFIG_FILE": "/nonexistent"},
        ["You must specify a region"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_in_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """Exit code 78, the settings by name, no traceback and no secret."""
    changed, expected = REFUSED[case]
    for name, value in (SOUND | changed).items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as exited:
        main()
    structlog.reset_defaults()
    assert exited.value.code == 78
    said = capsys.readouterr().err
    lines = said.strip().splitlines()
    assert len(lines) == len(expected), said
    for line, part in zip(sorted(lines), sorted(expected), strict=True):
        assert part in line
        assert line.startswith("chot api: ")
    assert "not to be told" not in said


def test_a_refusal_is_all_that_a_process_says() -> None:
    """As a supervisor sees it: the exit code and the lines, without a traceback."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CHOT_")}
    done = subprocess.run(
        [sys.executable, "-m", "api"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (78, "chot api: CHOT_DATABASE_URL is not set\n")

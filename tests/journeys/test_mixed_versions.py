"""Two versions at once: whatever one of them does not know, it leaves to the other (docs/deploy.md).

The version before is real: its own code, taken from the history, on the schema of this one.
"""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.ui.session import COOKIE
from dev.processes import Child
from dev.sample_company import load_sample
from dev.sqs import sqs_client
from shared.access import Role
from tests.factories import NUMBERS, eventually, fetch, job_row, make_job, scalar
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import all_reached, effects, exited, message_for, reached, working
from tests.pages.browsing import log_in, token_in
from tests.protocol.api.keys import make_key
from tests.services import ROOT, Database
from worker.settle import HANDED_BACK

# The last commit before migrations of this version: what runs while this one is deployed, and what
# a roll back brings back. With a release it moves to that release's commit, and with it BEFORE in
# tests/architecture/test_expanding.py.
BEFORE = "3ae20280aa65317c0960a25415111f3979c678af"
# The last commit whose sessions at /ui/ have no rows in PostgreSQL; with a release it goes.
WITHOUT_ROWS = "c8ed900dece33b208abed1d97baba1ee53edd19f"
NEXT = {
    "CHOT_KIND_MODULES": "tests.probes.next_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.next_handlers",
}
MOVEMENTS = 2_000


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Git in this clone, and whatever it answers."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree with the code of the version before. A clone that is too shallow fetches it.

    A tree without any history (an archive of the sources) has no such version, nor has a shallow
    clone whose origin is away: skipped there, and .ci/run says so aloud.
    """
    yield from tree_of(BEFORE, tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def without_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As `before`, of the code whose sessions have no rows."""
    yield from tree_of(WITHOUT_ROWS, tmp_path_factory.mktemp("without-rows"))


def tree_of(commit: str, home: Path) -> Iterator[Path]:
    """The code of a commit in a directory, which is removed afterwards."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git history here: the version before cannot be had")
    if git("cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
        fetched = git("fetch", "--quiet", "--depth=1", "origin", commit)
        if fetched.returncode != 0:
            pytest.skip(
                f"this clone is too shallow: {commit} is neither here nor to be fetched "
                f"({fetched.stderr.decode().strip()}); clone with its history"
            )
    archive = git("archive", "--format=tar", commit)
    assert archive.returncode == 0, archive.stderr.decode()
    subprocess.run(["tar", "-x", "-C", str(home)], input=archive.stdout, check=True)
    yield home
    shutil.rmtree(home)


def older(before: Path) -> dict[str, str]:
    """What makes a process one of the version before: its packages come first."""
    return {"PYTHONPATH": str(before)}


def runs_from(child: Child) -> set[Path]:
    """The trees whose packages the process has opened, by what the system knows of it."""
    found = subprocess.run(
        [sys.executable, "-c", "import worker, api, shared; print(worker.__file__)"],
        env=child.command.env,
        cwd=child.command.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return {Path(found.stdout.strip()).parents[1]}


async def post(url: str, kind: str, **payload: Any) -> UUID:
    """Submit over HTTP, as a client of either version does."""
    body = {"kind": kind, "company": "ACME", "payload": {"number": next(NUMBERS)} | payload}
    async with httpx.AsyncClient(base_url=url, timeout=10) as http:
        answer = await http.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return UUID(answer.json()["id"])


async def workers_of(engine: AsyncEngine, ids: list[UUID]) -> set[int]:
    """The processes that have run these jobs, by pid, and each job in one attempt."""
    rows = await fetch(
        engine, "SELECT DISTINCT pid FROM probe.effects WHERE job_id = ANY(:ids)", ids=ids
    )
    attempts = "SELECT count(*) FROM chot.attempts WHERE job_id = ANY(:ids)"
    assert await scalar(engine, attempts, ids=ids) == len(ids)
    return {row.pid for row in rows}


async def test_the_version_before_works_on_this_schema(
    probes: AsyncEngine, fleet: Fleet, before: Path
) -> None:
    """Its api takes jobs, its worker ends them: a deployment under way, or a roll back."""
    worker = fleet.worker(**older(before))
    _, url = fleet.api(**older(before))
    assert runs_from(worker) == {before}
    await working(worker)
    jobs = [await post(url, "probe.write", chunks=3) for _ in range(5)]
    failing = await post(url, "probe.misbehave", how="raise_permanent")
    await all_reached(probes, jobs, "succeeded")
    await reached(probes, failing, "dead")
    assert await workers_of(probes, jobs) == {worker.pid}
    async with httpx.AsyncClient(base_url=url, timeout=10) as http:
        for path in (
            f"/v1/jobs/{jobs[0]}",
            f"/v1/jobs/{failing}/why",
            "/v1/jobs",
            "/v1/dead-letters",
            "/v1/queues",
            "/v1/workers",
            "/metrics",
            "/readyz",
        ):
            answer = await http.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text}"
        again = await http.post(f"/v1/jobs/{failing}/redrive")
        assert again.status_code == 202, again.text
        cancelled = await http.post(f"/v1/jobs/{await post(url, 'probe.write')}/cancel")
        assert cancelled.status_code in {200, 409}, cancelled.text
    worker.send(signal.SIGTERM)
    assert await exited(worker) == 0
    assert not [line for line in log_lines(worker) if line.get("level") == "critical"]


@pytest.mark.long
async def test_the_version_before_costs_a_month_on_this_schema(
    probes: AsyncEngine, fleet: Fleet, before: Path, database: Database
) -> None:
    """The books, too: what migrations of the ERP's side have added is not in its way."""
    sample = await load_sample(database.app_url, movements=MOVEMENTS)
    _, url = fleet.api(**older(before))
    worker = fleet.worker(CHOT_QUEUES="costing", **older(before))
    await working(worker)
    asked = {"kind": "costing.run", "company": sample.company, "brand": "LUA"}
    async with httpx.AsyncClient(base_url=url, timeout=10) as http:
        answer = await http.post("/v1/jobs", json=asked | {"payload": {"period": sample.period}})
        assert answer.status_code == 202, answer.text
        await reached(probes, UUID(answer.json()["id"]), "succeeded")
        job = (await http.get(f"/v1/jobs/{answer.json()['id']}")).json()
        run = await http.get(f"/v1/cost-runs/{job['result']['run_id']}")
    assert run.status_code == 200, run.text


@pytest.mark.long
async def test_both_versions_share_the_work(
    probes: AsyncEngine, fleet: Fleet, before: Path
) -> None:
    """Old and new apis and workers on one database and queue, as in every deployment."""
    workers = [fleet.worker(), fleet.worker(**older(before))]
    urls = [fleet.api()[1], fleet.api(**older(before))[1]]
    await working(*workers)
    jobs = [await post(urls[turn % 2], "probe.write", seconds=0.2) for turn in range(24)]
    await all_reached(probes, jobs, "succeeded")
    assert await workers_of(probes, jobs) == {each.pid for each in workers}, "both took part"
    for url in urls:
        async with httpx.AsyncClient(base_url=url, timeout=10) as http:
            for job in jobs[:2]:
                assert (await http.get(f"/v1/jobs/{job}")).json()["state"] == "succeeded"


async def send_by_hand(probes: AsyncEngine, fleet: Fleet, job_id: UUID) -> None:
    """The message that the reconciler sends in the end, since the first one is put off for long."""
    client = await asyncio.to_thread(sqs_client, fleet.endpoint)
    url = client.get_queue_url(QueueName=f"{fleet.prefix}-default")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody=await message_for(probes, job_id))
    client.close()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("probe.write", id="newer payload"),
        pytest.param("probe.fresh", id="new kind", marks=pytest.mark.long),
    ],
)
async def test_what_an_older_worker_does_not_know_is_handed_back_untouched(
    probes: AsyncEngine, fleet: Fleet, kind: str
) -> None:
    """It receives the job, leaves it as it is, and works on; a newer worker runs it, uncharged.

    And the newer one runs what the older one's clients have sent.
    """
    old = fleet.worker()
    await working(old)
    _, url = fleet.api(**NEXT)
    colour = {"colour": "red"} if kind == "probe.write" else {}
    job_id = await post(url, kind, **colour)
    untouched = await job_row(probes, job_id)
    assert untouched.payload_version == (2 if kind == "probe.write" else 1)

    async def missed() -> bool:
        return any(each["job_id"] == str(job_id) for each in fleet.events(old, "claim.missed"))

    await eventually(missed)
    (line,) = fleet.events(old, "claim.missed")
    assert "does not know the kind or version" in line["settled"]
    row = await job_row(probes, job_id)
    assert (row.state, row.attempt, row.fence, row.lost_leases, row.interruptions) == (
        "pending",
        0,
        0,
        0,
        0,
    )
    assert (
        await scalar(probes, "SELECT count(*) FROM chot.attempts WHERE job_id = :i", i=job_id) == 0
    )
    known = await make_job(probes, "probe.post")
    await reached(probes, known, "succeeded")
    old.send(signal.SIGTERM)
    assert await exited(old) == 0
    sent_before = await make_job(probes, "probe.merge")
    new = fleet.worker(**NEXT)
    await working(new)
    await send_by_hand(probes, fleet, job_id)
    row = await reached(probes, job_id, "succeeded")
    assert (row.attempt, row.fence) == (1, 1)
    assert [chunk for chunk, _ in await effects(probes, job_id)] == [0]
    await reached(probes, sent_before, "succeeded")


async def test_a_newer_job_waits_for_seconds_while_both_versions_are_there(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """An older worker that gets it hands it back for a moment: the newer one polls as well.

    Nobody counts an attempt, and the message comes nowhere near SQS's own dead-letter queue.
    """
    old, new = fleet.worker(), fleet.worker(**NEXT)
    await working(old, new)
    _, url = fleet.api(**NEXT)
    jobs: list[UUID] = []
    missed: list[dict[str, Any]] = []
    for _ in range(5):
        jobs += [await post(url, "probe.write", colour="red") for _ in range(6)]
        await all_reached(probes, jobs, "succeeded", seconds=20)
        missed = [each for each in fleet.events(old, "claim.missed") if unknown(each)]
        if missed:
            break
    assert missed, "the older worker has got none of them, which says nothing"
    assert await workers_of(probes, jobs) == {new.pid}
    of_job = Counter(each["job_id"] for each in missed)
    assert set(of_job) <= {str(each) for each in jobs}
    assert max(of_job.values()) <= HANDED_BACK
    client = await asyncio.to_thread(sqs_client, fleet.endpoint)
    dead = client.get_queue_url(QueueName=f"{fleet.prefix}-default-dead")["QueueUrl"]
    assert "Messages" not in client.receive_message(QueueUrl=dead, WaitTimeSeconds=0)
    client.close()


@pytest.mark.long
async def test_a_newer_job_is_no_hot_loop_while_newer_workers_are_full(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Older workers offer it rarely, take what is theirs, and the newer one has it in the end."""
    old, new = fleet.worker(), fleet.worker(CHOT_CONCURRENCY="1", **NEXT)
    await working(old, new)
    _, url = fleet.api(**NEXT)
    long = await post(url, "probe.fresh", chunks=16, seconds=0.5)
    await reached(probes, long, "running")
    jobs = [await post(url, "probe.write", colour="red") for _ in range(8)]
    known = [await make_job(probes, "probe.post") for _ in range(8)]
    await all_reached(probes, known, "succeeded", seconds=15)
    assert (await job_row(probes, long)).state == "running", "the newer one was full all the time"
    missed = [each for each in fleet.events(old, "claim.missed") if unknown(each)]
    assert len(missed) <= 4 * len(jobs), "not again and again"
    await all_reached(probes, jobs, "succeeded", seconds=60)
    assert await workers_of(probes, jobs) == {new.pid}


def unknown(line: dict[str, Any]) -> bool:
    """Whether the claim was missed since the worker does not know the job's kind or version."""
    return "does not know the kind or version" in str(line["settled"])


@pytest.mark.long
async def test_nobody_is_logged_out_while_apis_of_both_versions_answer(
    owner_engine: AsyncEngine, probes: AsyncEngine, fleet: Fleet, without_rows: Path
) -> None:
    """A session begun at either is one at the other; and what the newer one ends it ends there.

    The older one knows no rows: until it is gone a copy lives on there, as it did before.
    """
    assert probes is not None, "the kinds are there"
    key = await make_key(owner_engine, Role.READ)
    _, new_url = fleet.api(CHOT_API_OPEN="false")
    _, old_url = fleet.api(CHOT_API_OPEN="false", **older(without_rows))

    async def opens(url: str, cookie: str) -> bool:
        async with httpx.AsyncClient(base_url=url, timeout=10) as http:
            page = await http.get("/ui/", headers={"Cookie": f"{COOKIE}={cookie}"})
            return page.status_code == 200

    cookies = {}
    for url in (old_url, new_url):
        async with httpx.AsyncClient(base_url=url, timeout=10) as browser:
            assert (await log_in(browser, key)).status_code == 303
            cookies[url] = browser.cookies[COOKIE]
    for at in (old_url, new_url):
        for begun in (old_url, new_url):
            assert await opens(at, cookies[begun]), (at, begun)
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.sessions") == 1
    async with httpx.AsyncClient(base_url=new_url, timeout=10) as browser:
        browser.cookies.set(COOKIE, cookies[new_url], domain="127.0.0.1", path="/ui")
        token = token_in((await browser.get("/ui/")).text)
        done = await browser.post("/ui/logout", data={"csrf": token})
        assert done.headers["location"] == "/ui/login?bye=1"
    assert not await opens(new_url, cookies[new_url])
    assert await opens(old_url, cookies[new_url])

"""Build both images and run jobs through them as a deployment would: `make images`.

Needs buildah, util-linux and a base image (BASE of the Dockerfiles) that buildah can find or pull.
PostgreSQL runs on this machine, the stand-in for SQS and S3 in the third image of compose.yaml. The
schema is made by the api image and the queues as compose makes them; a job is submitted over HTTP
to the api's container and done by the worker's, each as pid 1 under the image's own user, with a
read-only root, nothing but /tmp to write to and no capability. SIGTERM comes while a second job
runs: both must end with 0, and the job is done or handed back.

Where no container runtime may be used (inside another container, say), set
BUILDAH_ISOLATION=chroot and STORAGE_DRIVER=vfs. CHOT_IMAGES_BUILD_OPTIONS is handed to
`buildah build`, e.g. "--pull-never" or "--build-arg BASE=…@sha256:…".
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import yaml

from dev.images_containers import Container, output_of, remove, start_container
from dev.images_look import (
    refuse_foreign_parts,
    refuse_privileges,
    refuse_strange_labels,
    refuse_writable_places,
    size_of,
)
from dev.postgres import PostgresServer, start_postgres
from dev.processes import StartFailed, answers, free_port, wait_until
from dev.sample_company import load_sample
from dev.sqs import HEALTH_PATHS, aws_environment
from dev.stack_config import ROOT

SIDES = ("api", "worker")
MOVEMENTS = 5_000
BRAND = "LUA"
JOB_SECONDS = 60.0
TOKEN = "only-for-this-check"  # noqa: S105 - of a server that lives for a minute on loopback


def main() -> int:
    """Return 0 when everything held; print what was measured."""
    if shutil.which("buildah") is None:
        print("images: buildah is not installed", file=sys.stderr)
        return 1
    try:
        revision = _revision()
        for side in SIDES:
            _build(side, revision)
            refuse_foreign_parts(side)
            refuse_writable_places(side)
            refuse_strange_labels(side, revision)
        stand_in = _build_stand_in()
        refuse_writable_places("sqs")
        with tempfile.TemporaryDirectory(prefix="chot-images-") as home:
            Path(home).chmod(0o755)  # PostgreSQL's own account must get through
            asyncio.run(_run_one_job(Path(home), stand_in))
    except (StartFailed, subprocess.CalledProcessError, TimeoutError) as failure:
        print(f"images: {failure}", file=sys.stderr)
        return 1
    print("images: all build, one job went through them, both ended with 0 on SIGTERM;")
    print("        read-only root, user 10001, no capability, pid 1; exactly the locked libraries")
    return 0


def _revision() -> str:
    """Of this tree, as a deployment gives it to the build."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "none"


def _build(side: str, revision: str, file: str = "") -> None:
    began = monotonic()
    options = shlex.split(os.environ.get("CHOT_IMAGES_BUILD_OPTIONS", ""))
    # OCI's own format knows no health check, and would leave it out.
    command = ["buildah", "build", "--format", "docker", "--network", "host", *options]
    command += ["--build-arg", f"REVISION={revision}", "-t", f"chot-{side}"]
    subprocess.run([*command, "-f", file or f"Dockerfile.{side}", "."], cwd=ROOT, check=True)
    size = size_of(f"chot-{side}")
    print(f"images: chot-{side} built in {monotonic() - began:.0f} s, {size} with its base")


def _build_stand_in() -> dict[str, str]:
    """The image that compose.yaml holds itself; answers what compose starts it with."""
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["sqs"]
    with tempfile.NamedTemporaryFile("w", prefix="chot-sqs-") as file:
        file.write(service["build"]["dockerfile_inline"])
        file.flush()
        _build("sqs", "none", file.name)
    return dict(service["environment"])


def _start_stand_in(given: dict[str, str], home: Path) -> tuple[Container, str]:
    """Start it, and make queues and bucket by its own command; its address."""
    port = free_port()
    env = given | {"GATEWAY_PORT": str(port), "MINISTACK_HOST": "127.0.0.1"}
    started = start_container("sqs", env=env, log=home / "sqs.log")
    wait_until(
        lambda: answers(port, HEALTH_PATHS["ministack"]),
        started.child,
        deadline_seconds=JOB_SECONDS,
        what="answering",
    )
    endpoint = f"http://127.0.0.1:{port}"
    output_of("sqs", ["python", "-m", "dev.sqs", "--endpoint", endpoint, "--prefix", "chot"])
    return started, endpoint


async def _run_one_job(home: Path, stand_in: dict[str, str]) -> None:
    postgres = start_postgres(home / "postgres")
    beside: list[Container] = []
    running: list[Container] = []
    try:
        sqs, endpoint = _start_stand_in(stand_in, home)
        beside.append(sqs)
        _migrate(postgres, home)
        sample = await load_sample(postgres.url(user="chot_app"), movements=MOVEMENTS)
        env = _environment(postgres, endpoint)
        running.extend(start_container(side, env=env, log=home / f"{side}.log") for side in SIDES)
        port = int(env["CHOT_API_PORT"])
        wait_until(
            lambda: answers(port, "/readyz"),
            running[0].child,
            deadline_seconds=JOB_SECONDS,
            what="ready",
        )
        await _submit_and_wait(port, sample.company, sample.period, home)
        for container in running:
            refuse_privileges(container)
            if not container.healthy():
                raise StartFailed(f"the {container.image.side}'s health check says no")
        await _look_at_a_page(port)
        await _stop_at_work(port, running, sample.company, sample.period)
    finally:
        for container in (*running, *beside):
            remove(container)
        postgres.stop()


def _migrate(postgres: PostgresServer, home: Path) -> None:
    env = {"CHOT_MIGRATE_DATABASE_URL": postgres.url()}
    log = home / "migrate.log"
    container = start_container("api", entry=["chot", "migrate"], env=env, log=log)
    code = container.child.wait(JOB_SECONDS)
    remove(container)
    if code != 0:
        raise StartFailed(f"chot migrate in the api image:\n{container.child.last_words()}")


def _environment(postgres: PostgresServer, endpoint: str) -> dict[str, str]:
    return {
        **aws_environment(endpoint),
        "CHOT_DATABASE_URL": postgres.url(user="chot_app"),
        "CHOT_READ_DATABASE_URL": postgres.url(user="chot_read"),
        "CHOT_API_HOST": "127.0.0.1",
        "CHOT_API_PORT": str(free_port()),
        "CHOT_TOKEN": TOKEN,
        "CHOT_FILES_BUCKET": "chot-files",
        "CHOT_POLL_SECONDS": "2",
    }


def _client(port: int) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10.0)


async def _submit(client: httpx.AsyncClient, company: str, period: str) -> dict[str, Any]:
    asked = {"kind": "costing.run", "company": company, "brand": BRAND}
    answer = await client.post("/v1/jobs", json=asked | {"payload": {"period": period}})
    if answer.status_code != httpx.codes.ACCEPTED:
        raise StartFailed(f"POST /v1/jobs: {answer.status_code} {answer.text}")
    job: dict[str, Any] = answer.json()
    return job


async def _submit_and_wait(port: int, company: str, period: str, home: Path) -> None:
    async with _client(port) as client:
        job = await _submit(client, company, period)
        began = monotonic()
        while job["state"] in {"pending", "running"}:
            if monotonic() - began > JOB_SECONDS:
                raise StartFailed(f"the job is still {job['state']}:\n{_tail(home / 'worker.log')}")
            job = (await client.get(f"/v1/jobs/{job['id']}", params={"wait": 5})).json()
    if job["state"] != "succeeded":
        raise StartFailed(f"the job ended {job['state']}: {job['error']}")
    print(f"images: job {job['id']} succeeded in {monotonic() - began:.1f} s")


async def _look_at_a_page(port: int) -> None:
    """Templates, styles and scripts are in the image, too."""
    async with _client(port) as client:
        page = await client.get("/ui/login")
        files = sorted(set(re.findall(r"/ui/static/[^\"']+", page.text)))
        if page.status_code != httpx.codes.OK or not files:
            raise StartFailed(f"GET /ui/login: {page.status_code}, and names {files}")
        for path in files:
            answer = await client.get(path)
            if answer.status_code != httpx.codes.OK:
                raise StartFailed(f"GET {path}: {answer.status_code}")


async def _stop_at_work(port: int, running: Sequence[Container], company: str, period: str) -> None:
    """SIGTERM while a job runs: the worker first, then the api that is asked what became of it."""
    api, worker = running
    async with _client(port) as client:
        job = await _submit(client, company, period)
        while job["state"] == "pending":
            job = (await client.get(f"/v1/jobs/{job['id']}")).json()
        worker.terminate()
        job = (await client.get(f"/v1/jobs/{job['id']}")).json()
        if job["state"] == "running":
            raise StartFailed("the worker ended with 0 and still holds a job")
    print(f"images: SIGTERM met a running job, which is now {job['state']}")
    api.terminate()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4_000:]


if __name__ == "__main__":
    sys.exit(main())

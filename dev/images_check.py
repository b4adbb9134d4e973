"""Build both images and run one costing job through them: `make images`.

Needs buildah and an image named python:3.13-slim that buildah can find or pull. PostgreSQL and the
SQS emulator run on this machine; the schema is made by the api image, the job is submitted over
HTTP to the api's container and done by the worker's, and both must end with 0 on SIGTERM.

Where no container runtime may be used (inside another container, say), set
BUILDAH_ISOLATION=chroot and STORAGE_DRIVER=vfs. CHOT_IMAGES_BUILD_OPTIONS is handed to
`buildah build`, e.g. "--pull-never".
"""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from dev.images_containers import Container, output_of, remove, start_container
from dev.postgres import PostgresServer, start_postgres
from dev.processes import StartFailed, answers, free_port, wait_until
from dev.sample_company import load_sample
from dev.sqs import aws_environment, ensure_queues, start_sqs
from dev.stack_config import ROOT

SIDES = ("api", "worker")
NUMERIC = ("numpy", "pandas", "polars", "pyarrow", "scipy")
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
        for side in SIDES:
            _build(side)
        _refuse_foreign_parts()
        with tempfile.TemporaryDirectory(prefix="chot-images-") as home:
            Path(home).chmod(0o755)  # PostgreSQL's own account must get through
            asyncio.run(_run_one_job(Path(home)))
    except (StartFailed, subprocess.CalledProcessError, TimeoutError) as failure:
        print(f"images: {failure}", file=sys.stderr)
        return 1
    print("images: both build, one job went through them, both ended with 0 on SIGTERM")
    return 0


def _build(side: str) -> None:
    began = monotonic()
    options = shlex.split(os.environ.get("CHOT_IMAGES_BUILD_OPTIONS", ""))
    command = ["buildah", "build", "--network", "host", *options, "-t", f"chot-{side}"]
    subprocess.run([*command, "-f", f"Dockerfile.{side}", "."], cwd=ROOT, check=True)
    listed = subprocess.run(
        ["buildah", "images", "--json", f"chot-{side}"], check=True, capture_output=True, text=True
    )
    size = json.loads(listed.stdout)[0]["size"]
    print(f"images: chot-{side} built in {monotonic() - began:.0f} s, {size} with its base")


def _refuse_foreign_parts() -> None:
    """Look for what must not be there, in the images themselves."""
    hidden = {"api": (*NUMERIC, "worker", "dev"), "worker": ("api", "dev", "fastapi", "uvicorn")}
    for side, names in hidden.items():
        look = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
        found = output_of(side, ["python", "-c", look, *names])
        if found != "[]":
            raise StartFailed(f"the {side} image holds {found}")


async def _run_one_job(home: Path) -> None:
    postgres = start_postgres(home / "postgres")
    sqs = start_sqs(home / "sqs.log")
    running: list[Container] = []
    try:
        ensure_queues(sqs.endpoint, "chot")
        _migrate(postgres, home)
        sample = await load_sample(postgres.url(user="chot_app"), movements=MOVEMENTS)
        env = _environment(postgres, sqs.endpoint)
        for side in SIDES:
            command = ["python", "-m", side]
            log = home / f"{side}.log"
            running.append(start_container(side, command, env=env, log=log))
        port = int(env["CHOT_API_PORT"])
        wait_until(
            lambda: answers(port, "/readyz"),
            running[0].child,
            deadline_seconds=JOB_SECONDS,
            what="ready",
        )
        await _submit_and_wait(port, sample.company, sample.period, home)
        for container in running:
            container.terminate()
    finally:
        for container in running:
            remove(container)
        sqs.stop()
        postgres.stop()


def _migrate(postgres: PostgresServer, home: Path) -> None:
    env = {"CHOT_MIGRATE_DATABASE_URL": postgres.url()}
    container = start_container("api", ["chot", "migrate"], env=env, log=home / "migrate.log")
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
        "CHOT_POLL_SECONDS": "2",
    }


async def _submit_and_wait(port: int, company: str, period: str, home: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"http://127.0.0.1:{port}"
    asked = {"kind": "costing.run", "company": company, "brand": BRAND}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=10.0) as client:
        answer = await client.post("/v1/jobs", json=asked | {"payload": {"period": period}})
        if answer.status_code != httpx.codes.ACCEPTED:
            raise StartFailed(f"POST /v1/jobs: {answer.status_code} {answer.text}")
        began = monotonic()
        job: dict[str, Any] = answer.json()
        while job["state"] in {"pending", "running"}:
            if monotonic() - began > JOB_SECONDS:
                raise StartFailed(f"the job is still {job['state']}:\n{_tail(home / 'worker.log')}")
            job = (await client.get(f"/v1/jobs/{job['id']}", params={"wait": 5})).json()
    if job["state"] != "succeeded":
        raise StartFailed(f"the job ended {job['state']}: {job['error']}")
    print(f"images: job {job['id']} succeeded in {monotonic() - began:.1f} s")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4_000:]


if __name__ == "__main__":
    sys.exit(main())

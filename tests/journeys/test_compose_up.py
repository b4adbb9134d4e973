"""`docker compose up` itself, where there is an engine: from nothing to a job, an owner killed.

Of compose.yaml nothing is replaced but the port and the project's name. The images it takes from a
registry (PostgreSQL, Python) must be there or to be had; what compose builds, it builds here.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev.processes import free_port, poll_until
from dev.sample_company import load_sample
from tests.deploy.composed import SERVICES
from tests.services import ROOT

TOKEN = "only-for-this-test"  # noqa: S105 - of an api on loopback, for minutes
UP_SECONDS = 1200.0
HEALTHY_SECONDS = 180.0
MOVEMENTS = 60_000


def has_engine() -> bool:
    """Whether a Docker engine answers, and has Compose."""
    if shutil.which("docker") is None:
        return False
    asked = (["docker", "info"], ["docker", "compose", "version"])
    return all(
        subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in asked
    )


pytestmark = [
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.skipif(not has_engine(), reason="no Docker engine with Compose here"),
]


@dataclass(frozen=True, slots=True)
class Project:
    """One start of compose.yaml, under a name and a port of its own."""

    file: Path
    name: str
    port: int

    def compose(self, *words: str, seconds: float = 120.0) -> str:
        """What `docker compose …` has said; it must end with 0."""
        return self.docker(
            "compose", "-p", self.name, "-f", str(self.file), *words, seconds=seconds
        )

    def docker(self, *words: str, seconds: float = 120.0) -> str:
        """What `docker …` has said; it must end with 0."""
        done = subprocess.run(
            ["docker", *words],
            cwd=ROOT,
            env={**os.environ, "CHOT_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def containers(self) -> list[dict[str, Any]]:
        """Each as `docker compose ps` tells of it."""
        said = self.compose("ps", "--all", "--format", "json")
        return [json.loads(line) for line in said.splitlines() if line.strip()]

    def is_up(self) -> bool:
        """Whether all that stays is healthy."""
        stay = [each for each in self.containers() if each["State"] != "exited"]
        return len(stay) == STAYING and all(each["Health"] == "healthy" for each in stay)


# Two of the services do one thing and end.
STAYING = sum(
    each.get("scale", 1) for name, each in SERVICES.items() if name not in {"migrate", "queues"}
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Up, and gone afterwards with its volume."""
    port = free_port()
    file = ROOT / "compose.yaml"
    beside = tmp_path / "compose.yaml"
    beside.write_text(file.read_text().replace("127.0.0.1:8000:8000", f"127.0.0.1:{port}:8000"))
    made = Project(beside, f"chot-test-{port}", port)
    try:
        made.compose("--project-directory", str(ROOT), "up", "--build", "-d", seconds=UP_SECONDS)
        yield made
    finally:
        made.compose("down", "--volumes")


async def test_compose_up_is_the_whole_platform(project: Project) -> None:
    """All healthy; a costing job is taken over from a killed worker; all end with 0."""
    assert await asyncio.to_thread(poll_until, project.is_up, HEALTHY_SECONDS), project.containers()
    database = next(each["Name"] for each in project.containers() if each["Service"] == "postgres")
    address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    host = project.docker("inspect", database, "-f", address).strip()
    sample = await load_sample(f"postgresql://chot_app@{host}:5432/chot", movements=MOVEMENTS)
    killed = ""
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{project.port}",
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=40,
    ) as http:
        asked = {"kind": "costing.run", "company": sample.company, "brand": "LUA"}
        answer = await http.post("/v1/jobs", json=asked | {"payload": {"period": sample.period}})
        assert answer.status_code == 202, answer.text
        job = answer.json()
        async with asyncio.timeout(HEALTHY_SECONDS):
            while job["state"] in {"pending", "running"}:
                job = (await http.get(f"/v1/jobs/{job['id']}")).json()
                if not killed and (job.get("progress") or {}).get("done", 0):
                    # A worker is named after its host, which is its container.
                    killed = job["attempts"][-1]["worker_id"].split("-")[0]
                    project.docker("kill", killed)
                await asyncio.sleep(0.1)
        assert job["state"] == "succeeded", job
        assert [each["outcome"] for each in job["attempts"]] == ["lost_lease", "succeeded"]
        place = {"company": sample.company, "name": "a.csv"}
        sent = await http.post("/v1/files", params=place, content=b"a,b\n1,2\n")
        assert sent.status_code == 201, f"is the bucket there? {sent.text}"
    project.compose("stop", seconds=240.0)
    ended = {each["ID"]: (each["Service"], each["ExitCode"]) for each in project.containers()}
    assert ended.pop(killed) == ("worker", 137)
    assert [each for each in ended.values() if each[1] != 0] == []

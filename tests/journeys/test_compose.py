"""`docker compose up` without an engine: the same commands in the same order, until a job is done.

Each service of compose.yaml is a process here, with the command and environment that its container
would have, started when what it depends on is healthy or has ended well, by the very health checks.
What differs is said in `Places`: names of hosts and ports, and where PostgreSQL comes from.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest

from dev.postgres_install import embedded_bin
from dev.processes import Child, Command, free_port, poll_until, start
from dev.sample_company import load_sample
from tests.deploy.composed import (
    SERVICES,
    check_of,
    environment_of,
    image_of,
    in_order,
    program,
    words_of,
)
from tests.services import ROOT, Database

TOKEN = "only-for-this-test"  # noqa: S105 - of an api on loopback, for seconds
HEALTHY_SECONDS = 90.0


@dataclass(slots=True)
class Places:
    """Where on this machine what containers reach by name is, and what was started."""

    home: Path
    database: Database
    ports: dict[str, int] = field(
        default_factory=lambda: {"4566": free_port(), "8000": free_port()}
    )
    running: dict[str, list[Child]] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """A container's text with the places of this machine in it."""
        server = self.database.superuser_url.rpartition("@")[2]
        text = text.replace("postgres:5432/chot", server)
        text = text.replace("sqs:4566", f"127.0.0.1:{self.ports['4566']}")
        for port, mine in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{mine}")
        return text

    def environment(self, service: str, number: int) -> dict[str, str]:
        """Nothing of ours but what the container has; its /tmp and its ports are its own."""
        given = environment_of(service, CHOT_TOKEN=TOKEN, REVISION="none")
        found = {name: self.here(value) for name, value in given.items()}
        moved = {
            "GATEWAY_PORT": str(self.ports["4566"]),
            "MINISTACK_HOST": "127.0.0.1",
            "CHOT_API_HOST": "127.0.0.1",
            "CHOT_API_PORT": str(self.ports["8000"]),
            "CHOT_WORKER_METRICS_HOST": "127.0.0.1",
            "CHOT_WORKER_METRICS_PORT": str(self.port_of(f"{service}{number}")),
        }
        found |= {name: value for name, value in moved.items() if name in found}
        temporary = self.home / f"{service}{number}-tmp"
        temporary.mkdir(exist_ok=True)
        outside = {"BIND_HOST": "127.0.0.1", "DOCKER_HOST": "unix:///nonexistent"}
        return {"PATH": os.environ["PATH"], "TMPDIR": str(temporary), **outside, **found}

    def port_of(self, name: str) -> int:
        """One port for each name."""
        return self.ports.setdefault(name, free_port())

    def tree(self, service: str) -> Path:
        """A working directory with what was copied into the image, and nothing else."""
        place = self.home / f"{SERVICES[service]['image']}-app"
        if not place.exists():
            place.mkdir()
            for name in image_of(service).copied:
                if "/" not in name:
                    (place / name).symlink_to(ROOT / name)
        return place

    def up(self, service: str) -> None:
        """Start it, once what it depends on is as it wants it."""
        for needed, how in SERVICES[service].get("depends_on", {}).items():
            match how["condition"]:
                case "service_healthy":
                    self.until_healthy(needed)
                case "service_completed_successfully":
                    (child,) = self.running[needed]
                    assert child.wait(HEALTHY_SECONDS) == 0, child.last_words()
                case other:
                    raise AssertionError(other)
        if service == "postgres":  # the tests' own server, which is there
            return
        for number in range(SERVICES[service].get("scale", 1)):
            child = start(
                Command(
                    name=service,
                    argv=[self.here(each) for each in program(words_of(service))],
                    env=self.environment(service, number),
                    log=self.home / f"{service}{number}.log",
                    cwd=self.tree(service),
                )
            )
            self.running.setdefault(service, []).append(child)

    def until_healthy(self, service: str) -> None:
        """Ask its health check as often as it takes; AssertionError where it never is."""
        for number in range(SERVICES[service].get("scale", 1)):
            assert poll_until(partial(self.is_healthy, service, number), HEALTHY_SECONDS), (
                f"{service} is not healthy: "
                + "".join(each.last_words() for each in self.running.get(service, []))
            )

    def is_healthy(self, service: str, number: int) -> bool:
        """Run the health check in the container's environment."""
        words = [self.here(each) for each in program(check_of(service))]
        if service == "postgres":
            return self._accepts(words)
        check = start(
            Command(
                name=f"{service}'s check",
                argv=words,
                env=self.environment(service, number),
                log=self.home / "check.log",
                cwd=self.tree(service),
            )
        )
        return check.wait(30.0) == 0

    def _accepts(self, words: list[str]) -> bool:
        assert words[0] == "pg_isready"
        server = self.database.server
        place = ["-h", str(server.hostname), "-p", str(server.port), "-d", self.database.name]
        argv = [str(embedded_bin() / "pg_isready"), "-U", str(server.username), *place]
        check = start(Command(name="pg_isready", argv=argv, log=self.home / "check.log"))
        return check.wait(30.0) == 0

    def down(self, service: str) -> int | None:
        """Stop it as Compose does, within its grace; the exit code of the last."""
        grace = float(str(SERVICES[service].get("stop_grace_period", "10s")).removesuffix("s"))
        code: int | None = None
        for child in self.running[service]:
            child.send(signal.SIGTERM)
        for child in self.running[service]:
            code = child.wait(grace)
            assert code == 0, child.last_words()
        return code


@pytest.fixture
def places(tmp_path: Path, empty_database: Database) -> Iterator[Places]:
    """Nothing is left running."""
    made = Places(tmp_path, empty_database)
    yield made
    for children in made.running.values():
        for child in children:
            if child.alive:
                child.kill()


@pytest.mark.long
async def test_what_compose_starts_does_a_job(places: Places) -> None:
    """From nothing: schema, queues, bucket, api, two workers; a job goes through, all end with 0."""
    started = []
    for service in in_order():
        await asyncio.to_thread(places.up, service)
        started.append(service)
    assert set(started) == set(SERVICES)
    assert len(places.running["worker"]) == 2
    for service in ("sqs", "api", "worker"):
        await asyncio.to_thread(places.until_healthy, service)
    sample = await load_sample(places.database.app_url, movements=500)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{places.ports['8000']}",
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=30,
    ) as http:
        asked = {"kind": "costing.run", "company": sample.company, "brand": "LUA"}
        answer = await http.post("/v1/jobs", json=asked | {"payload": {"period": sample.period}})
        assert answer.status_code == 202, answer.text
        job = answer.json()
        for _ in range(12):
            if job["state"] not in {"pending", "running"}:
                break
            job = (await http.get(f"/v1/jobs/{job['id']}", params={"wait": 5})).json()
        assert job["state"] == "succeeded", job
        workers = (await http.get("/v1/workers")).json()["workers"]
        assert len(workers) == 2
        place = {"company": sample.company, "name": "a.csv"}
        sent = await http.post("/v1/files", params=place, content=b"a,b\n1,2\n")
        assert sent.status_code == 201, f"is the bucket there? {sent.text}"
    for number in range(2):
        port = places.port_of(f"worker{number}")
        async with httpx.AsyncClient() as http:
            scraped = await http.get(f"http://127.0.0.1:{port}/metrics")
        assert "chot_heartbeats_total" in scraped.text
    for service in ("worker", "api"):
        assert await asyncio.to_thread(places.down, service) == 0

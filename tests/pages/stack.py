"""The live stack of the pages' tests: one api, one worker, jobs that run, died, ended and wait."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from dev.processes import Child
from dev.sqs import ensure_queues
from shared.access import EVERYTHING, Role, Scope
from shared.database import open_engine
from tests.factories import prepare_probes
from tests.fleet import Fleet, open_fleet
from tests.pages.browsing import token_in
from tests.protocol.api.keys import RED, bearer, make_key
from tests.services import Database, seed_company

NUMBERS = itertools.count(1_000)
DEADLINE_SECONDS = 30.0
ENDED = frozenset({"succeeded", "dead", "cancelled"})


@dataclass(slots=True)
class Stack:
    """Where it answers, who may look, and the jobs that are there.

    `jobs`: "finished", "dead", "running" (with progress, for two minutes), "waiting" (tomorrow).
    """

    url: str
    database: Database
    fleet: Fleet
    worker: Child
    keys: Mapping[str, str]
    jobs: dict[str, str] = field(default_factory=dict)
    _cookies: dict[str, str] = field(default_factory=dict)

    def submit(self, payload: Mapping[str, Any], kind: str = "probe.write", **more: Any) -> str:
        """A new job of ACME's brand RED; its id."""
        body = {"kind": kind, "company": "ACME", "brand": "RED", **more}
        body["payload"] = {"number": next(NUMBERS), **payload}
        made = httpx.post(f"{self.url}/v1/jobs", json=body, headers=bearer(self.keys["admin"]))
        assert made.status_code == 202, made.text
        job_id: str = made.json()["id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """A job as the api shows it."""
        found = httpx.get(f"{self.url}/v1/jobs/{job_id}", headers=bearer(self.keys["admin"]))
        assert found.status_code == 200, found.text
        shown: dict[str, Any] = found.json()
        return shown

    def until(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of these states; AssertionError after half a minute."""
        url = f"{self.url}/v1/jobs/{job_id}?wait=1"
        for _ in range(round(DEADLINE_SECONDS)):
            shown = self.job(job_id)
            if shown["state"] in states:
                return shown
            httpx.get(url, headers=bearer(self.keys["admin"]), timeout=10)
        raise AssertionError(f"{job_id} is {self.job(job_id)['state']}, not {' or '.join(states)}")

    def cookie(self, who: str) -> str:
        """The session cookie of a key of ours: logged in once, as a person would."""
        if who not in self._cookies:
            with httpx.Client(base_url=self.url) as client:
                token = token_in(client.get("/ui/login").text)
                done = client.post("/ui/login", data={"csrf": token, "key": self.keys[who]})
                assert done.status_code == 303, done.text
                self._cookies[who] = client.cookies["chot_session"]
        return self._cookies[who]


# Who may do what in these tests.
WHO: Mapping[str, tuple[tuple[Role, ...], Scope]] = {
    "admin": ((Role.ADMIN,), EVERYTHING),
    "operator": ((Role.READ, Role.OPERATE), EVERYTHING),
    "reader": ((Role.READ,), EVERYTHING),
    "submitter": ((Role.SUBMIT,), EVERYTHING),
    "red": ((Role.READ, Role.OPERATE), RED),
}


async def _prepare(database: Database) -> Mapping[str, str]:
    await seed_company(database)
    owner = open_engine(database.owner_url, pool_size=2)
    app = open_engine(database.app_url, pool_size=2)
    try:
        await prepare_probes(owner, app)
        return {
            name: await make_key(owner, *roles, scope=scope, principal=name)
            for name, (roles, scope) in WHO.items()
        }
    finally:
        await owner.dispose()
        await app.dispose()


@contextmanager
def open_stack(
    database: Database, prefix: str, endpoint: str, logs: Path, sqs: Any, **settings: str
) -> Iterator[Stack]:
    """Start it, and wait until each of its jobs is what it is to be."""
    ensure_queues(endpoint, prefix, client=sqs)
    keys = asyncio.run(_prepare(database))
    with open_fleet(database, prefix, endpoint, logs) as fleet:
        _, url = fleet.api(CHOT_API_OPEN="false", **settings)
        worker = fleet.worker(**settings)
        stack = Stack(url, database, fleet, worker, keys)
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        stack.jobs["finished"] = stack.submit({"chunks": 2})
        stack.jobs["dead"] = stack.submit({"how": "raise_permanent"}, "probe.misbehave")
        stack.jobs["running"] = stack.submit({"chunks": 100, "seconds": 1.0})
        stack.jobs["waiting"] = stack.submit({}, run_at=tomorrow)
        stack.until(stack.jobs["finished"], "succeeded")
        stack.until(stack.jobs["dead"], "dead")
        stack.until(stack.jobs["running"], "running")
        yield stack

"""F55: a password in a payload, in a database URL or in AWS's environment is told nowhere."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from tests.factories import NUMBERS, eventually, fetch, scalar
from tests.fleet import Fleet
from tests.protocol.api.keys import bearer, make_key
from tests.scenarios.looking import Queue

PASSWORD = "S3CR3T-42"  # noqa: S105 - of a test
DSN_PASSWORD = "DSN-S3CR3T-43"  # noqa: S105 - of a test; the server trusts everybody
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIAS3CR3T44EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "AWS-S3CR3T-45",
    "AWS_SESSION_TOKEN": "AWS-S3CR3T-46",
}
SECRETS = (PASSWORD, DSN_PASSWORD, *AWS.values())
MODULE = "tests.scenarios.secret_kinds"
# Every table that an operator's page, a log or a queue is filled from: all but the payloads.
TABLES = (
    "jobs",
    "attempts",
    "job_outputs",
    "outbox",
    "dead_messages",
    "idempotency_keys",
    "workers",
)


@pytest.fixture
def secretive(fleet: Fleet) -> dict[str, str]:
    """What every process of the test runs with: secrets wherever one may stand."""
    urls = {
        "CHOT_DATABASE_URL": fleet.database.app_url,
        "CHOT_READ_DATABASE_URL": fleet.database.read_url,
    }
    return (
        AWS
        | {
            name: url.replace("@", f":{DSN_PASSWORD}@", 1) if url.count(":") == 2 else url
            for name, url in urls.items()
        }
        | {
            "CHOT_KIND_MODULES": f"tests.probes.kinds,{MODULE}",
            "CHOT_HANDLER_MODULES": f"tests.probes.handlers,{MODULE}",
            "CHOT_API_OPEN": "false",
        }
    )


def none_of(where: str, text: str) -> None:
    """Whether a text holds no secret; the message names the place and not the text."""
    found = [secret for secret in SECRETS if secret in text]
    assert not found, f"{where} tells {found}"


async def submit_logins(client: httpx.AsyncClient, key: str) -> list[str]:
    """A job for each way to fail."""
    ids = []
    for how in ("raise", "validate"):
        payload = {"number": next(NUMBERS), "password": PASSWORD, "how": how}
        body = {"kind": "probe.login", "company": "ACME", "brand": "RED", "payload": payload}
        answer = await client.post(
            "/v1/jobs", json=body, headers=bearer(key) | {"Idempotency-Key": f"{how}-key"}
        )
        assert answer.status_code == 202, answer.text
        none_of("the answer to a submit", answer.text)
        ids.append(answer.json()["id"])
    return ids


@pytest.mark.scenario("F55")
async def test_a_failing_job_with_a_password_tells_it_nowhere(
    fleet: Fleet,
    probes: AsyncEngine,
    owner_engine: AsyncEngine,
    queue: Queue,
    secretive: dict[str, str],
) -> None:
    """F55: POST with a password, make the job fail; logs, metrics, SQS bodies, error fields."""
    key = await make_key(owner_engine, Role.ADMIN)
    _, url = await asyncio.to_thread(fleet.api, **secretive)
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        ids = await submit_logins(client, key)
        await queue.holds(len(ids))
        bodies = queue.sqs.receive_message(
            QueueUrl=queue.url, MaxNumberOfMessages=10, VisibilityTimeout=0
        )
        assert bodies["Messages"]
        none_of("SQS", str(bodies))
        fleet.worker(**secretive)
        dead = "SELECT count(*) = :n FROM chot.jobs WHERE state = 'dead'"
        await eventually(lambda: scalar(probes, dead, n=len(ids)), seconds=30)
        pages = [f"/v1/jobs/{job_id}" for job_id in ids]
        for page in (
            *pages,
            "/v1/jobs",
            "/v1/dead-letters",
            "/v1/queues",
            "/v1/workers",
            "/metrics",
        ):
            answer = await client.get(page, headers=bearer(key))
            assert answer.status_code == 200, page
            none_of(page, answer.text)
            assert key.split("_", 2)[2] not in answer.text
        errors = [(await client.get(page, headers=bearer(key))).json()["error"] for page in pages]
        assert [error["type"] for error in errors] == ["ConnectionError", "ValidationError"]
        assert "password" in errors[1]["message"], "the field is named all the same"
    for table in TABLES:
        rows = await fetch(owner_engine, f"SELECT t::text AS said FROM chot.{table} t")
        none_of(table, "\n".join(row.said for row in rows))
    for child in fleet.children:
        none_of(child.name, logged(child))
        assert key.split("_", 2)[2] not in logged(child)
    events = {line["event"] for line in fleet.events(fleet.workers[0], "attempt.ended")}
    assert events == {"attempt.ended"}, "what happened is told, without the words"


def logged(child: Any) -> str:
    """All that a child has written."""
    return str(child.command.log.read_text(errors="replace"))


AWAY = "AWAY"  # a database that cannot be reached
WRONG = "WRONG"  # settings that are refused
STARTS = {
    "config of the api": (["shared.cli", "config", "api"], ""),
    "config of the worker": (["shared.cli", "config", "worker", "--json"], ""),
    "config of migrate": (["shared.cli", "config", "migrate"], AWAY),
    "keys without a database": (["shared.cli", "keys", "list"], AWAY),
    "doctor without a database": (["shared.cli", "doctor"], AWAY),
    "an api that is refused": (["api"], WRONG),
    "a worker that is refused": (["worker"], WRONG),
}


@pytest.mark.scenario("F55")
@pytest.mark.parametrize("start", STARTS)
def test_no_start_tells_a_secret(
    fleet: Fleet, secretive: dict[str, str], tmp_path: Path, start: str
) -> None:
    """F55: the start-up dump (`chot config`), a database that is away, settings that are refused."""
    words, how = STARTS[start]
    away = secretive["CHOT_DATABASE_URL"].rpartition("@")[0] + "@127.0.0.1:1/none"
    changes = {
        "": {},
        AWAY: {"CHOT_DATABASE_URL": away, "CHOT_MIGRATE_DATABASE_URL": away},
        WRONG: {"CHOT_DATABASE_URL": f"{away}?strange=1", "CHOT_API_PORT": "x"},
    }[how]
    token = {"CHOT_TOKEN": "TOKEN-S3CR3T-47"}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        env=fleet.environment(**(secretive | token | changes)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "CHOT_" in said or "PostgreSQL" in said or "database" in said
    none_of(start, said)
    assert token["CHOT_TOKEN"] not in said
    assert "Traceback" not in said

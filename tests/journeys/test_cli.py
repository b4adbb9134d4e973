"""The command line against real processes: what it prints, and the exit codes scripts rely on."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dev.processes import free_port
from tests.fleet import PROBE_MODULES, ROOT, Fleet
from tests.services import Database

LONG_AGO = "0190163d-8694-739b-aea5-966c26f8ad91"
TOKEN = "cli-journey"  # noqa: S105 - of this test only
EXAMPLE = ROOT / "tests" / "cases" / "costing" / "textbooks.json"


@dataclass(frozen=True, slots=True)
class Chot:
    """Runs `chot` as a process of its own."""

    env: dict[str, str]

    async def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(self._run, words)

    async def json(self, *words: str, code: int = 0) -> Any:
        done = await self(*words, "--json")
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def _run(self, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "shared.cli", *words],
            env=self.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHOT_")}
    return kept | PROBE_MODULES | settings


@pytest.fixture
async def chot(fleet: Fleet) -> Chot:
    """The command line of an api that runs, with a token of its own."""
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN))
    return Chot(environment(CHOT_API_URL=url, CHOT_TOKEN=TOKEN))


SUBMIT = ("submit", "probe.write", "--company", "ACME", "--brand", "RED")
BAD = ("submit", "probe.misbehave", "--company", "ACME", "how=raise_permanent")


async def test_submit_wait_status_and_list_tell_one_story(chot: Chot, fleet: Fleet) -> None:
    """A job goes from the command line to its result and is shown by every command."""
    fleet.worker()
    done = await chot(*SUBMIT, "number:=1", "chunks:=3", "--wait", "--timeout", "60")
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    assert "3/3 chunks (100%)" in done.stdout
    [job] = (await chot.json("list", "--state", "succeeded", "--kind", "probe.write"))["jobs"]
    shown = await chot.json("status", job["id"])
    assert shown["result"] == {"chunks": 3, "resumed_at": 0}
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["succeeded"]
    assert await chot.json("wait", job["id"]) == shown
    listed = await chot("list", "--brand", "RED")
    assert job["id"] in listed.stdout


async def test_one_key_is_one_job_and_duplicate_work_joins(chot: Chot) -> None:
    """The same key answers the same; other keys for the same work find the active job."""
    first = await chot.json(*SUBMIT, "number:=2", "--key", "k-1")
    again = await chot.json(*SUBMIT, "number:=2", "--key", "k-1")
    other = await chot.json(*SUBMIT, "number:=2")
    assert (first.pop("replayed"), again.pop("replayed")) == (False, True)
    assert again == first
    assert first["created"] is True
    assert (other["id"], other["created"], other["duplicate"]) == (first["id"], False, "joined")
    reused = await chot(*SUBMIT, "number:=3", "--key", "k-1")
    assert reused.returncode == 4
    assert "Idempotency-Key was used for another request" in reused.stderr


async def test_a_cancelled_job_ends_a_wait_with_6_and_a_second_job_can_follow(chot: Chot) -> None:
    job_id = (await chot(*SUBMIT, "number:=4")).stdout.strip()
    assert (await chot.json("cancel", job_id))["state"] == "cancelled"
    assert (await chot("wait", job_id)).returncode == 6
    assert (await chot(*SUBMIT, "number:=4")).stdout.strip() != job_id


async def test_a_dead_job_is_listed_redriven_and_refused_when_it_lives(
    chot: Chot, fleet: Fleet
) -> None:
    """Dead → dead letters → redrive → conflict, because now it is not dead any more."""
    worker = fleet.worker()
    job = await chot.json(*BAD, "number:=5", "--wait", "--timeout", "60", code=1)
    assert (job["state"], job["error"]["code"]) == ("dead", "TOLD")
    letters = await chot.json("dead-letters", "--kind", "probe.misbehave")
    assert [each["id"] for each in letters["jobs"]] == [job["id"]]
    assert "told to be wrong" in (await chot("dead-letters")).stdout
    await _cleaned_up(chot, job["id"])
    await asyncio.to_thread(worker.stop)
    redriven = await chot.json("redrive", "--all")
    assert ([each["id"] for each in redriven["redriven"]], redriven["refused"]) == ([job["id"]], [])
    assert (await chot("redrive", job["id"])).returncode == 5
    shown = await chot.json("status", job["id"])
    assert (shown["state"], len(shown["attempts"])) == ("pending", 1)


async def _cleaned_up(chot: Chot, job_id: str) -> None:
    async with asyncio.timeout(30):
        while (await chot.json("status", job_id))["cleanup_pending"]:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


REFUSALS = (
    (("submit", "no.such", "--company", "ACME"), 4, "no.such"),
    ((*SUBMIT[:-1], "GREEN", "number:=6"), 4, "brand"),
    ((*SUBMIT, "number=seven"), 4, "payload.number"),
    ((*SUBMIT, "number:=6", "extra:=1"), 4, "payload.extra"),
    ((*SUBMIT, "number:=6", "--run-at", "2026-01-31T18:00:00"), 4, "run_at"),
    (("status", LONG_AGO), 3, "no such job"),
    (("status", "not-an-id"), 3, "UUID"),
)


async def test_a_refusal_names_what_is_wrong(chot: Chot) -> None:
    """Field and rule in a sentence, the exit code of the documentation, never a traceback."""
    for words, code, said in REFUSALS:
        done = await chot(*words)
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


async def test_a_wrong_token_is_refused_and_says_what_to_set(chot: Chot) -> None:
    stranger = Chot(chot.env | {"CHOT_TOKEN": "guess"})
    done = await stranger("list")
    assert done.returncode == 4
    assert "CHOT_TOKEN" in done.stderr


async def test_a_submit_survives_an_api_that_starts_late(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for the api instead of failing, and submits once."""
    port = free_port()
    late = Chot(environment(CHOT_API_URL=f"http://127.0.0.1:{port}", CHOT_TOKEN=TOKEN))
    submitting = asyncio.create_task(late.json(*SUBMIT, "number:=7"))
    monkeypatch.setattr("tests.fleet.free_port", lambda: port)
    await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN))
    assert (await submitting)["created"] is True


async def test_migrate_goes_up_says_where_it_is_and_down(empty_database: Database) -> None:
    """Up and down as the owner; --check changes nothing and answers with its exit code."""
    chot = Chot(environment(CHOT_MIGRATE_DATABASE_URL=empty_database.superuser_url))
    before = await chot.json("migrate", "--check", code=1)
    assert (before["revision"], before["current"]) == (None, False)
    moved = await chot.json("migrate")
    assert moved["after"] == before["head"]
    assert {"costing.run", "probe.write"} <= set(moved["kinds"])
    assert (await chot.json("migrate", "--check"))["current"] is True
    assert (await chot.json("migrate", "--to", "0009_enqueue"))["after"] == "0009_enqueue"
    assert (await chot.json("migrate", "--check", code=1))["revision"] == "0009_enqueue"
    assert (await chot("migrate", "--to", "no_such")).returncode == 4
    assert (await chot.json("migrate"))["after"] == before["head"]


async def test_migrate_without_a_server_or_a_url_says_so() -> None:
    nowhere = f"postgresql://postgres@127.0.0.1:{free_port()}/chot"
    done = await Chot(environment(CHOT_MIGRATE_DATABASE_URL=nowhere))("migrate")
    assert done.returncode == 69
    assert "no answer from PostgreSQL" in done.stderr
    unset = await Chot(environment())("migrate")
    assert unset.returncode == 78
    assert "CHOT_MIGRATE_DATABASE_URL is not set" in unset.stderr


def test_migrate_works_from_any_directory(empty_database: Database, tmp_path: Path) -> None:
    """The migrations are found beside the packages, not in the working directory."""
    url = empty_database.superuser_url
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli", "migrate", "--json"],
        env=environment(CHOT_MIGRATE_DATABASE_URL=url, PYTHONPATH=str(ROOT)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_api_and_worker_refuse_a_wrong_configuration_with_78() -> None:
    """`chot api` and `chot worker` become those processes: the exit code is theirs."""
    wrong = Chot(environment(CHOT_HEARTBEAT_SECONDS="20", CHOT_DATABASE_URL="postgresql://x@y/z"))
    for process in ("api", "worker"):
        done = await wrong(process)
        assert done.returncode == 78, done.stderr
        assert "CHOT_HEARTBEAT_SECONDS=20" in done.stderr


async def test_costing_check_runs_a_worked_example() -> None:
    done = await Chot(environment())("costing", "check", str(EXAMPLE))
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)

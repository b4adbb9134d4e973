"""The command line of an operator against real processes: files of jobs, queues, what dies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, scalar
from tests.fleet import ROOT, Fleet
from tests.journeys.test_cli import TOKEN, Chot, environment

GOOD = '{{"kind": "probe.write", "company": "ACME", "brand": "RED", "payload": {{"number": {}}}}}'
BAD = '{"kind": "probe.write", "company": "ACME", "brand": "GREEN", "payload": {"number": 1}}'
DIES = ("submit", "probe.misbehave", "--company", "ACME", "how=raise_permanent")


@pytest.fixture
async def chot(fleet: Fleet) -> Chot:
    """The command line of an api that runs."""
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN))
    return Chot(environment(CHOT_API_URL=url, CHOT_TOKEN=TOKEN))


async def test_a_file_of_jobs_is_submitted_once_however_often(
    chot: Chot, engine: AsyncEngine, tmp_path: Path
) -> None:
    """Two thousand and a half lines, one of them wrong; killed half-way and asked for again."""
    file, left = tmp_path / "night.jsonl", tmp_path / "refused.jsonl"
    lines = [GOOD.format(number) for number in range(2500)]
    lines[1700] = BAD
    file.write_text("\n".join(lines))
    command = ("submit-batch", str(file))
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "shared.cli", *command),
        env=chot.env,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    jobs = "SELECT count(*) FROM chot.jobs"

    async def begun() -> bool:
        return bool(await scalar(engine, jobs))

    await eventually(begun, seconds=60)
    killed.kill()
    await killed.wait()
    told = await chot.json(*command, "--refused-to", str(left), code=4)
    assert told["outcomes"] == {"created": 2499, "error": 1}
    assert left.read_text() == BAD + "\n"
    assert await scalar(engine, jobs) == 2499
    once_more = await chot.json(*command, code=4)
    assert all(each.pop("replayed") for each in once_more["jobs"])
    for each in told["jobs"]:  # by the one that was killed, as far as it came
        del each["replayed"]
    assert once_more == told
    shown = await chot(*command)
    assert shown.stdout.splitlines()[1].split()[:2] == ["1701", "refused"]
    assert await scalar(engine, jobs) == 2499


async def test_a_queue_is_paused_shown_and_resumed(chot: Chot) -> None:
    """What waits is counted; a queue that is none is not found."""
    await chot("submit", "probe.write", "--company", "ACME", "number:=1")
    assert (await chot("pause", "default")).returncode == 0
    (queue,) = [q for q in (await chot.json("queues"))["queues"] if q["name"] == "default"]
    assert (queue["paused"], queue["pending"]) == (True, 1)
    assert "paused" in (await chot("queues")).stdout
    assert (await chot.json("resume", "default"))["paused"] is False
    assert (await chot("pause", "no_such")).returncode == 3


async def test_kinds_books_limits_and_weights_are_operated(chot: Chot) -> None:
    """Each is set, told by `why`, shown and taken back."""
    submit = ("submit", "probe.write", "--company", "ACME", "--brand", "RED", "number:=1")
    job_id = (await chot.json(*submit))["id"]

    async def reason() -> str:
        return str((await chot.json("why", job_id))["reason"])

    assert (await chot("pause", "--kind", "probe.write")).returncode == 0
    assert await reason() == "kind-paused"
    assert "`chot resume --kind probe.write`" in (await chot("why", job_id)).stdout
    assert "paused" in (await chot("kinds")).stdout
    assert (await chot.json("resume", "--kind", "probe.write"))["paused"] is False
    assert (await chot("freeze", "ACME", "--brand", "RED", "--reason", "stock")).returncode == 0
    assert await reason() == "books-frozen"
    assert "stock" in (await chot("freezes")).stdout
    assert (await chot.json("thaw", "ACME", "--brand", "RED"))["frozen"] is False
    assert await reason() == "no-worker"
    limit = ("--company", "ACME", "--brand", "RED")
    assert (await chot.json("limits", "set", "2", *limit))["max_running"] == 2
    (shown,) = (await chot.json("limits"))["limits"]
    assert (shown["brand"], shown["max_running"], shown["running"]) == ("RED", 2, 0)
    assert (await chot.json("limits", "remove", *limit))["max_running"] is None
    assert (await chot("weights", "default", "ACME/RED=3")).returncode == 0
    assert (await chot.json("weights", "default"))["weights"] == [
        {"company": "ACME", "brand": "RED", "weight": 3}
    ]
    refused = await chot("weights", "default", "ACME/NONE=3")
    assert (refused.returncode, "brand of this company" in refused.stderr) == (4, True)
    assert (await chot("pause", "--kind", "no.such")).returncode == 3


async def test_a_kind_that_is_none_is_said_to_be_none(chot: Chot) -> None:
    """It is no empty list; one that is known and has no jobs is."""
    done = await chot("list", "--kind", "nope")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no kind that was ever declared" in done.stderr
    assert "probe.write" in done.stderr
    done = await chot("list", "--company", "ACME", "--brand", "nope")
    assert (done.returncode, done.stdout) == (4, "")
    assert "brand = 'nope': is no brand whose jobs this account may see" in done.stderr
    assert (await chot("list", "--kind", "probe.merge")).stdout.strip() == "no jobs"


async def test_workers_are_shown_with_what_they_run(chot: Chot, fleet: Fleet) -> None:
    """The job's id and kind, while it runs."""
    fleet.worker()
    job_id = (
        await chot("submit", "probe.write", "--company", "ACME", "number:=2", "seconds:=20")
    ).stdout.strip()

    async def shown() -> bool:
        return f"probe.write {job_id}" in (await chot("workers")).stdout

    await eventually(shown, seconds=30)
    assert (await chot("cancel", job_id)).returncode == 0


def _hear_ctrl_c() -> None:
    """Whoever runs the tests in the background of a script has all of them ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_what_dies_is_a_line_of_the_watch_and_ctrl_c_ends_it(
    chot: Chot, fleet: Fleet
) -> None:
    """Those that are dead already, then each that dies; interrupted it ends with 0, in silence."""
    fleet.worker()
    first = await chot.json(*DIES, "number:=1", "--wait", "--timeout", "60", code=1)
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "shared.cli", "dead-letters", "--watch", "--json"),
        env=chot.env | {"PYTHONUNBUFFERED": "1"},
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=_hear_ctrl_c,
    )
    assert watching.stdout is not None
    assert watching.stderr is not None
    async with asyncio.timeout(60):
        seen = json.loads(await watching.stdout.readline())["job"]
        assert seen["id"] == first["id"]
        second = await chot.json(*DIES, "number:=2", "--wait", "--timeout", "60", code=1)
        seen = json.loads(await watching.stdout.readline())["job"]
        assert (seen["id"], seen["error"]["code"]) == (second["id"], "TOLD")
        os.kill(watching.pid, signal.SIGINT)
        assert await watching.wait() == 0
    assert await watching.stderr.read() == b""

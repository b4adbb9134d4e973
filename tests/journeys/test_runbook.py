"""Every `chot` line of the runbook, run on a live platform with a job that has died."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.deploy.runbook import commands
from tests.factories import make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import exited, reached, working
from tests.services import ROOT

TOKEN = "only-for-this-test"  # noqa: S105 - of an api on loopback, for seconds
# 1: the answer is no (something fires, a job is dead); anything else is a fault of the page.
ANSWERS = {0, 1}
ALONE = ["doctor", "--restored"]


def run(words: list[str], env: dict[str, str], at: Path) -> subprocess.CompletedProcess[str]:
    """One line, as an operator would type it."""
    return subprocess.run(
        [sys.executable, "-m", "shared.cli", *words],
        cwd=at,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


async def stop(*children: Child) -> None:
    """In order, as before a restore."""
    for child in children:
        child.stop(grace=30)
        await exited(child)


@pytest.mark.long
async def test_every_line_of_the_runbook_does_what_it_says(
    probes: AsyncEngine, owner_engine: AsyncEngine, fleet: Fleet, tmp_path: Path
) -> None:
    """In the page's order, with its words in capitals filled in; what must run alone, at the end."""
    worker = fleet.worker()
    api, url = fleet.api(CHOT_TOKEN=TOKEN)
    await working(worker)
    job_id = await make_job(probes, "probe.misbehave", how="raise_permanent")
    await reached(probes, job_id, "dead")
    words = {
        "JOB": str(job_id),
        "QUEUE": "default",
        "KIND": "probe.misbehave",
        "RULE": "dead_jobs",
        "KEY_ID": "",
    }
    env = {
        "CHOT_API_URL": url,
        "CHOT_TOKEN": TOKEN,
        "CHOT_MIGRATE_DATABASE_URL": fleet.database.superuser_url,
    }
    lines = commands("chot")
    assert len(lines) > 25
    for line in (each for each in lines if each != ALONE):
        if "KEY_ID" in line:
            newest = "SELECT key_id FROM chot.api_keys ORDER BY created_at DESC LIMIT 1"
            words["KEY_ID"] = str(await scalar(owner_engine, newest))
        filled = [words.get(each, each) for each in line]
        done = await asyncio.to_thread(run, filled, env, tmp_path)
        assert done.returncode in ANSWERS, f"chot {' '.join(filled)}:\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
    await stop(api, worker)
    done = await asyncio.to_thread(run, ALONE, env, tmp_path)
    assert done.returncode == 0, done.stderr
    assert await scalar(probes, "SELECT count(*) FROM chot.queues WHERE paused") == 0
    assert await scalar(probes, "SELECT count(*) FROM chot.freezes") == 0

"""What the README tells a newcomer to do, done: its files, its settings, its command."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev.sample_company import load_sample
from dev.stack import Stack
from dev.stack_config import DatabaseUrls, StackConfig
from tests.services import Database

README = Path(__file__).parents[2] / "README.md"
MOVEMENTS = 3_000
FILE = re.compile(r"^`(?P<name>\w+\.py)`\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = re.compile(r"^export (CHOT_KIND_MODULES=.*)$", re.MULTILINE)
SUBMIT = re.compile(r"^(chot submit stock\.count .*)$", re.MULTILINE)


def test_the_kind_of_the_readme_has_about_twenty_lines_each() -> None:
    """A newcomer adds a kind in minutes, or the README promises too much."""
    files = {found["name"]: found["code"] for found in FILE.finditer(README.read_text())}
    assert set(files) == {"stock_kind.py", "stock_handler.py"}
    assert all(len(code.strip().splitlines()) <= 30 for code in files.values())
    assert all(len(line) <= 100 for code in files.values() for line in code.splitlines())


async def test_the_kind_of_the_readme_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: Database,
    queue_prefix: str,
    sqs_endpoint: str,
) -> None:
    """Two files in a directory of one's own, two settings, one command: the job succeeds."""
    text = README.read_text()
    for found in FILE.finditer(text):
        (tmp_path / found["name"]).write_text(found["code"])
    monkeypatch.chdir(tmp_path)  # the reader starts the platform where the two files are
    settings = dict(pair.split("=") for pair in SETTINGS.findall(text)[0].split())
    sample = await load_sample(database.app_url, movements=MOVEMENTS)
    config = StackConfig(
        home=tmp_path / "home",
        workers=1,
        supervise=False,
        env=settings | {"CHOT_POLL_SECONDS": "1"},
        queue_prefix=queue_prefix,
        sqs_endpoint=sqs_endpoint,
        database=DatabaseUrls(
            superuser=database.superuser_url, app=database.app_url, read=database.read_url
        ),
    )
    async with Stack(config) as stack:
        job = await asyncio.to_thread(_submit, SUBMIT.findall(text)[0], stack)
    assert job["state"] == "succeeded"
    assert len(job["result"]) == sample.stores
    assert sum(job["result"].values()) == sample.movements
    assert job["progress"]["done"] == job["progress"]["total"] == sample.stores


def _submit(command: str, stack: Stack) -> dict[str, Any]:
    words = shlex.split(command)
    assert words[0] == "chot"
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli", *words[1:], "--json", "--timeout", "60"],
        env={
            **os.environ,
            "CHOT_API_URL": stack.api_url,
            "CHOT_TOKEN": stack.config.token,
            "PYTHONPATH": str(README.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    job: dict[str, Any] = json.loads(done.stdout)
    return job


def test_every_place_and_test_the_readme_names_is_there() -> None:
    """A guarantee whose test was renamed or removed is not guaranteed any more."""
    text = README.read_text()
    root = README.parent
    places = set(re.findall(r"`((?:api|worker|shared|alembic|tests|docs)/[\w./]+)`", text))
    places |= set(re.findall(r"\]\(([\w./]+)\)", text))
    assert len(places) > 20
    assert [place for place in sorted(places) if not (root / place).exists()] == []
    names = set(re.findall(r"`(test_\w+)`", text))
    assert len(names) > 10
    sources = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert [name for name in sorted(names) if f"def {name}(" not in sources] == []

"""`chot import` against real processes: what it prints, its exit codes, and workers that are killed."""

import asyncio
import csv
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sqs import bucket_name, ensure_bucket
from shared.client import ChotClient
from shared.client.errors import FileNotFound
from tests.costing_books import SEED
from tests.factories import eventually, scalar
from tests.fleet import ROOT, Fleet
from tests.importing import HEAD, MOVEMENTS, workbook

TOKEN = "import-journey"  # noqa: S105 - of this test only
WRITTEN = "SELECT count(*) FROM books.stock_movements"


@dataclass(frozen=True, slots=True)
class Importer:
    """Runs `chot import` as a process of its own."""

    env: dict[str, str]
    home: Path

    async def __call__(
        self, content: str | bytes, *words: str, name: str = "file.csv"
    ) -> "subprocess.CompletedProcess[str]":
        path = self.home / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return await asyncio.to_thread(self._run, str(path), *words)

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "shared.cli", "import", *words, "--company", "ACME"]
        return subprocess.run(
            argv,
            env=self.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
async def importer(fleet: Fleet, tmp_path: Path) -> Importer:
    """The command line of an api that takes files; no worker runs yet."""
    connection = await asyncpg.connect(fleet.database.superuser_url)
    try:
        for statement in SEED:
            await connection.execute(statement)
    finally:
        await connection.close()
    bucket = bucket_name(fleet.prefix)
    ensure_bucket(fleet.endpoint, bucket)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN, CHOT_FILES_BUCKET=bucket))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHOT_")}
    home = tmp_path / "mine"
    home.mkdir()
    return Importer(kept | {"CHOT_API_URL": url, "CHOT_TOKEN": TOKEN}, home)


def started(fleet: Fleet, **changes: str) -> None:
    fleet.worker(CHOT_FILES_BUCKET=bucket_name(fleet.prefix), **changes)


async def test_a_file_goes_into_the_books_and_what_is_refused_onto_the_disk(
    importer: Importer, fleet: Fleet, engine: AsyncEngine
) -> None:
    """Tried first, then done, then done again; 1 while a line is refused."""
    started(fleet)
    bad = MOVEMENTS + "BH9,1,issue,2026-01-04,R9,,A,3,,,\n"
    allowed = ("--as", "movements", "--max-reject-percent", "50")
    refused = importer.home / "refused.csv"
    tried = await importer(bad, *allowed, "--dry-run", "--rejects", str(refused))
    assert tried.returncode == 1, tried.stderr
    assert tried.stdout == "a dry run: 5 created, 1 refused\n"
    assert "line 7, store 'R9': is no store of company ACME" in tried.stderr
    with refused.open(newline="", encoding="utf-8-sig") as lines:
        (row,) = csv.DictReader(lines)
    assert (row["line"], row["field"], row["value"]) == ("7", "store", "R9")
    assert await scalar(engine, WRITTEN) == 0
    done = await importer(bad, *allowed)
    assert (done.returncode, done.stdout) == (1, "5 created, 1 refused\n"), done.stderr
    rows = [line.split(",") for line in MOVEMENTS.splitlines()]
    again = await importer(workbook(rows), "--as", "movements", name="again.xlsx")
    assert (again.returncode, again.stdout) == (0, "5 unchanged, 0 refused\n"), again.stderr


async def test_a_file_that_cannot_be_read_ends_the_command_with_its_reason(
    importer: Importer, fleet: Fleet
) -> None:
    """1 of a file, 4 of what the api refuses, 2 of a wrong word; as JSON too."""
    started(fleet)
    unread = await importer("a,b\n1,2\n", "--as", "items")
    assert unread.returncode == 1
    assert "COLUMNS_MISSING" in unread.stdout
    assert (await importer("", "--as", "items")).returncode == 4
    assert (await importer("x", "--as", "nothing")).returncode == 2
    told = await importer(MOVEMENTS, "--as", "movements", "--json")
    assert told.returncode == 0
    assert '"created": 5' in told.stdout


async def test_the_client_sends_a_file_and_submits_its_import(
    importer: Importer, fleet: Fleet
) -> None:
    """In Python, as the command does it; removed, the file is unknown to the next import."""
    started(fleet)
    path = importer.home / "mine.csv"
    path.write_text(MOVEMENTS)
    async with ChotClient(importer.env["CHOT_API_URL"], TOKEN) as chot:
        file = await chot.files.send(path, company="ACME")
        assert (await chot.files.send(path, company="ACME"))["id"] == file["id"]
        payload = {"task": "import.movements", "params": {"file": file["id"]}}
        made = await chot.submit("migration.run", company="ACME", payload=payload)
        job = await chot.wait(made.id, timeout=60)
        assert job.result is not None
        assert job.result["counts"] == {"created": 5}
        await chot.files.remove(file["id"])
        with pytest.raises(FileNotFound):
            await chot.files.remove(file["id"])
        again = await chot.submit("migration.run", company="ACME", payload=payload)
        ended = await chot.wait(again.id, timeout=60)
        assert ended.error is not None
        assert ended.error["code"] == "FILE_UNKNOWN"


async def test_workers_that_are_killed_on_the_way_change_nothing(
    importer: Importer, fleet: Fleet, engine: AsyncEngine
) -> None:
    """SIGKILL while it reads and while it merges: every line once."""
    lines = 60_000
    content = f"{HEAD}\n" + "".join(
        f"PN{n // 4},{n % 4 + 1},receipt,2026-01-{n % 28 + 1:02d},R1,,A,1,{n},,\n"
        for n in range(lines)
    )
    started(fleet)
    running = asyncio.create_task(importer(content, "--as", "movements"))
    for table in ("import_movements", "stock_movements"):

        async def begun(table: str = table) -> bool:
            return bool(await scalar(engine, f"SELECT EXISTS (SELECT FROM books.{table})"))

        await eventually(begun, seconds=60, every=0.02)
        fleet.workers[-1].kill()
        started(fleet)
    done = await running
    assert (done.returncode, done.stdout) == (0, f"{lines:,} created, 0 refused\n"), done.stderr
    found = "SELECT count(DISTINCT (doc_id, doc_line)) FROM books.stock_movements"
    assert await scalar(engine, WRITTEN) == await scalar(engine, found) == lines
    attempts = "SELECT max(attempt) FROM chot.jobs WHERE kind = 'migration.run'"
    assert (await scalar(engine, attempts) or 0) >= 2

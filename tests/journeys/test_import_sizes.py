"""Files of many lines: they are read, staged and merged in bounded memory, and each line once."""

import asyncio
import gzip
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from dev.sqs import bucket_name, ensure_bucket
from tests.costing_books import SEED
from tests.fleet import Fleet

LINES = int(os.environ.get("CHOT_TEST_IMPORT_LINES", "10000000"))
MOST_MIB = 500  # the worker and the child that reads, together
SECONDS = 5_400
ITEMS = 2_000
TOLD_EVERY_SECONDS = 30.0


def write_file(path: Path, lines: int) -> None:
    """Receipts and issues of two shops; every ten-thousandth line is of no known kind."""
    with gzip.open(path, "wt", compresslevel=1) as target:
        target.write("doc_id,doc_line,kind,posting_date,posting_seq,store,item,quantity,value\n")
        for n in range(lines):
            kind = "?" if n % 10_000 == 9_999 else "issue" if n % 2 else "receipt"
            value = "" if n % 2 else str(n % 1_000_000)
            day = 1 + n * 31 // lines
            target.write(
                f"PN{n // 4:08d},{n % 4 + 1},{kind},2026-01-{day:02d},{n},R{n // 4 % 2 + 1},"
                f"I{n % ITEMS},{n % 50 + 1},{value}\n"
            )


async def parts_of(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as source:
        while part := source.read(1 << 18):
            yield part


def resident_mib(pid: int) -> float:
    """What the process and its children hold now."""
    total = 0.0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) / 1024
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, StopIteration):
        return total
    return total + sum(resident_mib(int(child)) for child in children)


@pytest.mark.long
async def test_ten_million_lines_are_imported_in_bounded_memory(
    fleet: Fleet, tmp_path: Path
) -> None:
    """And a second import of the file finds every one of them there.

    Says how long it took and what it held. CHOT_TEST_IMPORT_LINES asks for another size.
    """
    bad = LINES // 10_000
    await seed(fleet)
    path = tmp_path / "movements.csv.gz"
    await asyncio.to_thread(write_file, path, LINES)
    bucket = bucket_name(fleet.prefix)
    ensure_bucket(fleet.endpoint, bucket)
    ours = {"CHOT_FILES_BUCKET": bucket, "CHOT_LEASE_SECONDS": "30", "CHOT_HEARTBEAT_SECONDS": "5"}
    ours |= {"CHOT_VISIBILITY_SECONDS": "60", "CHOT_MIGRATION_CONNECTIONS_PERCENT": "100"}
    worker = fleet.worker(**ours)
    _, url = await asyncio.to_thread(lambda: fleet.api(**ours))
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        query = f"/v1/files?company=ACME&name=m.csv.gz&sha256={digest}"
        sent = (await client.post(query, content=parts_of(path))).json()
        for expected, again in (("created", False), ("unchanged", True)):
            began, peak = time.monotonic(), 0.0
            payload = {
                "task": "import.movements",
                "params": {"file": sent["id"]},
                "batch_size": 20_000 + again,
            }
            body = {"kind": "migration.run", "company": "ACME", "payload": payload}
            job_id = (await client.post("/v1/jobs", json=body)).json()["id"]
            told = began
            while True:
                job = (await client.get(f"/v1/jobs/{job_id}?wait=1")).json()
                peak = max(peak, resident_mib(worker.pid))
                if job["state"] in {"succeeded", "dead"}:
                    break
                if time.monotonic() - told > TOLD_EVERY_SECONDS:
                    told = time.monotonic()
                    print(f"{told - began:6.0f} s", job["progress"], f"{peak:.0f} MiB")  # noqa: T201
                assert time.monotonic() - began < SECONDS, job["progress"]
            seconds = time.monotonic() - began
            assert job["state"] == "succeeded", job["error"]
            result = job["result"]
            rate = LINES / seconds
            print(  # noqa: T201 - the numbers of docs/import.md
                f"{LINES:,} lines {expected} in {seconds:.0f} s, {rate:,.0f} a second, "
                f"at most {peak:.0f} MiB, {result['batches']} batches"
            )
            assert result["counts"] == {expected: LINES - bad}
            assert result["rows_failed"] == bad
            assert peak < MOST_MIB


async def seed(fleet: Fleet) -> None:
    """Items and periods beside those of the company."""
    connection = await asyncpg.connect(fleet.database.superuser_url)
    try:
        for statement in SEED:
            await connection.execute(statement)
        await connection.execute(
            """INSERT INTO books.items (company, code, name, base_uom)
               SELECT 'ACME', 'I' || n, 'i', 'cái' FROM generate_series(0, $1::int - 1) AS n""",
            ITEMS,
        )
    finally:
        await connection.close()

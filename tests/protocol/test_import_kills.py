"""An import whose worker is killed while it reads, or while it merges: each line is there once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.s3 import S3Client, StorageUnavailable
from tests.factories import execute, scalar
from tests.importing import HEAD, Importing
from tests.migrating import Killed
from worker.migrations import importing as module
from worker.migrations import running
from worker.migrations.importing import ImportTask
from worker.migrations.preparing import Preparing

LINES = 400
FILE = f"{HEAD}\n" + "".join(
    f"PN{n // 3},{n % 3 + 1},{'receipt' if n % 50 else 'x'},2026-01-{n % 28 + 1:02d},R1,,A,{n + 1},5,,\n"
    for n in range(LINES)
)
BAD = LINES // 50


async def assert_once(importing: Importing, job_id: Any) -> None:
    """Every good line once, every bad one told once, nothing left staged."""
    row = await importing.migrating.finish(job_id)
    assert row.state == "succeeded", await importing.migrating.error(job_id)
    result = await importing.migrating.result(job_id)
    assert result["counts"] == {"created": LINES - BAD}
    assert (result["rows_done"], result["rows_failed"]) == (LINES, BAD)
    found = """SELECT count(*), count(DISTINCT (doc_id, doc_line)), sum(qty_base)
                 FROM books.stock_movements"""
    quantities = sum(n + 1 for n in range(LINES) if n % 50)
    assert await importing.fetch(found) == [(LINES - BAD, LINES - BAD, quantities)]
    told = [reject.line for reject in await importing.migrating.rejects(job_id)]
    assert told == [n + 2 for n in range(0, LINES, 50)]
    assert await importing.staged() == 0


def dying(after: int, step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The step, which the n-th time is the last thing that the worker does."""
    left = after

    async def then_dies(*args: Any, **named: Any) -> Any:
        nonlocal left
        found = await step(*args, **named)
        left -= 1
        if not left:
            raise Killed
        return found

    return then_dies


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (module, "_download"),  # the file is on the disk, nothing is read
        (ImportTask, "_copy"),  # rows are staged, in a transaction that never commits
        (Preparing, "save"),  # and the line that was read last with them
        (Preparing, "between"),  # all of it is committed
    ],
)
async def test_a_kill_while_the_file_is_read(
    importing: Importing, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    """The next attempt reads on behind the last line that is committed."""
    monkeypatch.setattr(module, "PORTION_LINES", 64)
    job_id = await importing.submit(FILE, batch_size=50)
    for after in (1, 2, 1) if name != "_download" else (1, 1):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dying(after, getattr(owner, name)))
            killed = importing.migrating.killed_attempt(job_id)
            (met,) = await asyncio.gather(killed, return_exceptions=True)
            assert met is None
        kept = await importing.migrating.run_row(job_id)
        read = 0 if kept.state is None else kept.state["lines"]
        refused = 0 if kept.state is None else kept.state["refused"]
        assert await importing.staged() == read - refused
        assert kept.rows_failed == refused
    await assert_once(importing, job_id)


@pytest.mark.parametrize("name", ["advance", "add_rejects", "add_batches"])
async def test_a_kill_while_lines_are_merged(
    importing: Importing, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Lines and cursor are of one commit."""
    content = FILE.replace("R1,,A,100,", "R9,,A,100,").replace("R1,,A,150,", "R1,,Z,150,")
    job_id = await importing.submit(content, batch_size=50)
    for after in (1, 2) if name != "add_rejects" else (1, 1):
        with monkeypatch.context() as patch:
            patch.setattr(running, name, dying(after, getattr(running, name)))
            await importing.migrating.killed_attempt(job_id)
        run = await importing.migrating.run_row(job_id)
        written = await scalar(
            importing.migrating.app, "SELECT count(*) FROM books.stock_movements"
        )
        assert written == run.counts.get("created", 0)
    assert (await importing.migrating.finish(job_id)).state == "succeeded"
    assert (await importing.migrating.result(job_id))["counts"] == {"created": LINES - BAD - 2}
    assert len(await importing.migrating.rejects(job_id)) == BAD + 2


async def test_while_s3_is_away_an_import_is_tried_again(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is back; what breaks off in the middle is no file."""
    get = S3Client.get
    failures = iter([0, 1])

    async def breaks(self: Any, key: str, **given: Any) -> Any:
        left = next(failures, None)
        async for chunk in get(self, key, chunk_bytes=4096, **given):
            if left == 0:
                raise StorageUnavailable("S3 get_object: gone")
            left = None if left is None else left - 1
            yield chunk

    monkeypatch.setattr(S3Client, "get", breaks)
    job_id = await importing.submit(FILE)
    await assert_once(importing, job_id)
    attempts = "SELECT count(*) FROM chot.attempts WHERE job_id = :i AND outcome = 'failed'"
    assert await scalar(importing.migrating.app, attempts, i=job_id) == 2


async def test_a_file_that_is_another_than_was_sent_is_never_merged(importing: Importing) -> None:
    """Its bytes in S3 are held to the hash of what the client has sent."""
    file = await importing.send(FILE)
    await execute(
        importing.migrating.owner,
        "UPDATE chot.uploads SET sha256 = sha256('another') WHERE id = :i",
        i=file,
    )
    job_id = await importing.submit(file)
    assert (await importing.migrating.finish(job_id)).state == "dead"
    assert "FILE_CHANGED" in (await importing.migrating.error(job_id))["message"]
    assert await scalar(importing.migrating.app, "SELECT count(*) FROM books.stock_movements") == 0


async def test_a_cancelled_import_leaves_nothing_staged(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is merged stays; a second import of the file does the rest."""
    job_id = await importing.submit(FILE, batch_size=50)
    with monkeypatch.context() as patch:
        patch.setattr(running, "advance", dying(3, getattr(running, "advance")))  # noqa: B009 - not exported
        await importing.migrating.killed_attempt(job_id)
    await execute(
        importing.migrating.owner,
        """UPDATE chot.jobs SET state = 'cancelled', cleanup_due = true, lease_token = NULL,
                  lease_expires_at = NULL, worker_id = NULL, finished_at = clock_timestamp()
            WHERE id = :i""",
        i=job_id,
    )
    assert await importing.migrating.clean_up()
    assert await importing.staged() == 0
    merged = await scalar(importing.migrating.app, "SELECT count(*) FROM books.stock_movements")
    assert 0 < merged < LINES - BAD
    counts = (await importing.take(FILE))["counts"]
    assert counts == {"created": LINES - BAD - merged, "unchanged": merged}

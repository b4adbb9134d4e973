"""Imports that are begun twice, stopped on the way, or given a file that is not what it is said to be."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.access import EVERYTHING
from shared.jobs.cancel import cancel_job
from shared.migrations.pausing import pause_run, resume_run
from tests.factories import job_row, scalar
from tests.importing import HEAD, MOVEMENTS, Importing
from worker.migrations import importing as module
from worker.migrations.preparing import Preparing
from worker.outcome import Released

LINES = 300
FILE = f"{HEAD}\n" + "".join(
    f"PN{n},1,receipt,2026-01-{n % 28 + 1:02d},R1,,A,{n + 1},5,,\n" for n in range(LINES)
)
COUNT = "SELECT count(*) FROM books.stock_movements"


def meanwhile(
    patch: pytest.MonkeyPatch, name: str, act: Callable[[], Awaitable[Any]], *, after: int
) -> None:
    """Something happens while the file is read: after the step was taken so many times."""
    step, left = getattr(Preparing, name), after

    async def then_acts(*args: Any, **named: Any) -> Any:
        nonlocal left
        found = await step(*args, **named)
        left -= 1
        if not left:
            await act()
        return found

    patch.setattr(module, "PORTION_LINES", 64)
    patch.setattr(Preparing, name, then_acts)


async def test_the_same_file_twice_at_once_is_imported_one_after_the_other(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run of the task is not claimed while the first one reads; then it finds all there."""
    file = await importing.send(FILE)
    first, second = [await importing.submit(file, batch_size=size) for size in (100, 101)]
    claimed: list[Any] = []

    async def claim() -> None:
        claimed.append(await importing.migrating.claim(second))

    with monkeypatch.context() as patch:
        meanwhile(patch, "between", claim, after=2)
        assert (await importing.migrating.finish(first)).state == "succeeded"
    assert claimed == [None]
    assert (await importing.migrating.finish(second)).state == "succeeded"
    assert (await importing.migrating.result(second))["counts"] == {"unchanged": LINES}
    assert await scalar(importing.migrating.app, COUNT) == LINES


async def test_an_import_that_is_paused_while_it_reads_goes_on_behind_its_last_line(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is staged stays; nobody claims it until it is resumed."""
    migrating = importing.migrating
    job_id = await importing.submit(FILE)

    async def pause() -> None:
        async with migrating.app.begin() as conn:
            assert await pause_run(conn, job_id, EVERYTHING) is not None

    with monkeypatch.context() as patch:
        meanwhile(patch, "save", pause, after=1)
        assert await migrating.attempt(job_id) == Released(reason="paused")
        assert await importing.staged() == 64
        assert await migrating.claim(job_id) is None
        async with migrating.app.begin() as conn:
            assert await resume_run(conn, job_id, EVERYTHING) is not None
        assert (await migrating.finish(job_id)).state == "succeeded"
    assert (await migrating.result(job_id))["counts"] == {"created": LINES}
    assert await importing.staged() == 0


async def test_an_import_that_is_cancelled_while_it_reads_leaves_nothing(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the books nor staged, and the next one begins at the first line."""
    migrating = importing.migrating
    job_id = await importing.submit(FILE)

    async def cancel() -> None:
        async with migrating.app.begin() as conn:
            assert await cancel_job(conn, job_id)

    with monkeypatch.context() as patch:
        meanwhile(patch, "between", cancel, after=2)
        await migrating.attempt(job_id)
    assert (await job_row(migrating.app, job_id)).state == "cancelled"
    assert await importing.staged() == 128
    assert await migrating.clean_up()
    assert await importing.staged() == 0
    assert await scalar(migrating.app, COUNT) == 0
    assert (await importing.take(FILE))["counts"] == {"created": LINES}


async def test_a_file_of_nothing_but_heads_succeeds_with_nothing(importing: Importing) -> None:
    """A till that has sold nothing sends one as well."""
    for kind, head in (("movements", HEAD), ("documents", "type,doc_no,doc_date,net")):
        result = await importing.take(head + "\n", kind)
        assert (result["outcome"], result["counts"], result["rows_done"]) == ("succeeded", {}, 0)


async def test_a_file_of_another_kind_is_refused_by_its_heads(importing: Importing) -> None:
    """All that is missing and strange at once, and nothing written."""
    for kind, says in (("items", "name (Tên hàng)"), ("documents", "doc_no (Số chứng từ)")):
        error = await importing.refused(MOVEMENTS, kind)
        assert error["code"] == "COLUMNS_MISSING"
        assert says in error["message"]
        assert "those of movements" in error["message"]
    assert await importing.staged() == 0


async def test_a_hundred_columns_are_told_or_left_out(importing: Importing) -> None:
    """As an ERP exports all that it has."""
    lines = MOVEMENTS.splitlines()
    wide = "\n".join(
        [lines[0] + "".join(f",x{n}" for n in range(100))]
        + [line + ",y" * 100 for line in lines[1:]]
    )
    error = await importing.refused(wide)
    assert error["code"] == "COLUMNS_REFUSED"
    assert "'x0'" in error["message"]
    done = await importing.take(wide, params={"other_columns": "ignore"})
    assert done["counts"] == {"created": 5}


DOUBLES = f"""{HEAD}
D1,1,receipt,2026-01-03,R1,,A,1,10,,
D1,1,receipt,2026-01-03,R1,,A,1,10,,
D2,1,receipt,2026-01-03,R9,,A,1,10,,
D2,1,receipt,2026-01-03,R1,,A,1,10,,
D3,1,receipt,2026-01-03,R1,,A,1,10,,
D3,2,receipt,2026-01-03,R1,,A,1,10,,
D3,2,issue,2026-01-04,R1,,A,1,,,
D3,2,receipt,2026-01-03,R1,,A,1,10,,
D4,17,receipt,2026-01-03,R1,,A,1,10,,
D4,1,receipt,2026-01-03,R1,,A,1,10,,
D4,17,receipt,2026-01-03,R1,,A,1,10,,
"""


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
async def test_a_line_is_told_for_a_double_wherever_batches_end(
    *, importing: Importing, batch_size: int, dry_run: bool
) -> None:
    """Of a line that was taken, or refused, or there already; in its batch or in one before."""
    there = f"{HEAD}\nD3,1,receipt,2026-01-03,R1,,A,1,10,,\nD3,2,issue,2026-01-04,R1,,A,1,,,\n"
    await importing.take(there)
    found = await importing.take(DOUBLES, batch_size=batch_size, dry_run=dry_run)
    twice = [(line, "doc_line", "DUPLICATE_IN_FILE") for line in (3, 5, 9, 12)]
    assert found["rejects"] == sorted([*twice, (4, "store", "STORE_UNKNOWN")])
    assert found["counts"] == {"created": 4, "unchanged": 2}
    again = await importing.take(DOUBLES, batch_size=batch_size, dry_run=dry_run)
    assert again["rejects"] == found["rejects"]

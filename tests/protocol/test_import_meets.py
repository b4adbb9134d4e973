"""An import beside others who write the same lines: an ERP at that moment, or a file of another kind."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from tests.factories import eventually, execute, scalar
from tests.importing import HEAD, MOVEMENTS, Importing

LINE = f"{HEAD}\nPN1,1,receipt,2026-01-03,R1,,A,10,150000,,\n"
BY_ERP = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value, lot_id)
    VALUES ('ACME', 'RED', $3, 'R1', $1, $2, 1, '2026-01-03', 10, 150000, $4)"""
COUNT = "SELECT count(*) FROM books.stock_movements"
OPENINGS = "posting_date,store,item,quantity,value\n2026-01-01,R1,A,100,1000000\n"
LAYERS = f"""{HEAD}
DK,1,opening,2026-01-01,R1,,A,60,600000,,
DK,2,opening,2026-01-01,R1,,A,40,400000,,
"""
WAITING = """SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
              WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database()"""


async def erp(importing: Importing) -> asyncpg.Connection:
    """A connection that writes movements itself."""
    url = importing.migrating.app.url.set(drivername="postgresql")
    return await asyncpg.connect(url.render_as_string(hide_password=False))


async def by_erp(
    connection: asyncpg.Connection,
    kind: str = "receipt",
    doc: str = "PN1",
    item: str = "A",
    lot: str | None = None,
) -> None:
    await connection.execute(BY_ERP, kind, doc, item, lot)


async def test_what_an_erp_is_writing_at_this_moment_is_not_written_twice(
    importing: Importing,
) -> None:
    """Its rows are not committed when the import looks for them: the import looks again."""
    writer = await erp(importing)
    job_id = await importing.submit(LINE)
    transaction = writer.transaction()
    await transaction.start()
    await by_erp(writer)
    run = asyncio.create_task(importing.migrating.finish(job_id))

    async def waits() -> bool:
        return bool(await scalar(importing.migrating.app, WAITING))

    assert await eventually(waits)
    await transaction.commit()
    assert (await run).state == "succeeded"
    assert (await importing.migrating.result(job_id))["counts"] == {"unchanged": 1}
    assert await scalar(importing.migrating.app, COUNT) == 1
    await writer.close()


async def test_an_erp_that_comes_while_an_import_commits_is_refused(importing: Importing) -> None:
    """It waits at the gate for the import's commit, and then sees what stands there."""
    writer, holder = await erp(importing), await erp(importing)
    await importing.take(f"{HEAD}\nPN0,1,receipt,2026-01-03,R1,,A,10,150000,,\n")
    async with holder.transaction():
        await holder.execute(
            """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id,
                      doc_line, posting_date, qty_base, value, job_id)
               VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'PN1', 1, '2026-01-03', 10, 150000,
                       gen_random_uuid())"""
        )
        await holder.execute(
            "SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-01'))"
        )
        late = asyncio.create_task(by_erp(writer))

        async def waits() -> bool:
            return bool(await scalar(importing.migrating.app, WAITING))

        assert await eventually(waits)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await late
    assert refused.value.sqlstate == "CH108"
    assert await scalar(importing.migrating.app, COUNT) == 2
    await writer.close()
    await holder.close()


async def test_what_a_job_has_brought_nobody_writes_again(importing: Importing) -> None:
    """The error names it; what was taken back, and what is another line, may be written."""
    writer = await erp(importing)
    await importing.take(LINE + "DK,1,opening,2026-01-03,R1,,B,10,150000,,\n")
    with pytest.raises(asyncpg.PostgresError, match=r"MOVEMENT_THERE: .*'PN1', line 1") as refused:
        await by_erp(writer)
    assert refused.value.sqlstate == "CH108"
    with pytest.raises(asyncpg.PostgresError, match="MOVEMENT_THERE"):
        await by_erp(writer, "opening", "SODU", "B")
    others: Sequence[tuple[Any, ...]] = (
        ("receipt", "PN2"),
        ("adjust_in", "PN1"),
        ("receipt", "PN1", "C"),
        ("opening", "SODU", "B", "L2"),
    )
    for other in others:
        await by_erp(writer, *other)
    head = "doc_id,doc_line,kind,posting_date,store,item,quantity,value,reverses_doc,reverses_line"
    await importing.take(f"{head}\nDB1,1,receipt,2026-01-04,R1,A,10,150000,PN1,1\n")
    await by_erp(writer)
    await by_erp(writer)  # its own numbers are its own affair
    await writer.close()


@pytest.mark.parametrize("first", ["movements", "openings"])
async def test_an_opening_is_one_whichever_file_it_comes_by_first(
    importing: Importing, first: str
) -> None:
    """By its day and place; what says something else is told."""
    files = {"movements": MOVEMENTS.splitlines()[0] + "\n" + MOVEMENTS.splitlines()[1] + "\n"}
    files |= {"openings": OPENINGS}
    second = "openings" if first == "movements" else "movements"
    assert (await importing.take(files[first], first))["counts"] == {"created": 1}
    assert (await importing.take(files[second], second))["counts"] == {"unchanged": 1}
    other = await importing.take(files[second].replace(",100,", ",101,"), second)
    assert other["rejects"] == [(2, "doc_line", "DIFFERS")]
    (told,) = await importing.migrating.rejects(other["job"])
    number = "DK, line 1" if first == "movements" else "SDDK, line 2"
    assert told.rule.startswith(
        f"opens what document {number}, has opened in the books, with another quantity:"
    )
    assert await scalar(importing.migrating.app, COUNT) == 1


async def test_a_place_may_be_opened_by_several_lines_of_one_file(importing: Importing) -> None:
    """Layers at prices of their own. Together they are what lies there."""
    assert (await importing.take(LAYERS, batch_size=1))["counts"] == {"created": 2}
    assert (await importing.take(LAYERS + "\n"))["counts"] == {"unchanged": 2}
    assert (await importing.take(LAYERS + "\n\n", batch_size=1))["counts"] == {"unchanged": 2}
    assert (await importing.take(OPENINGS, "openings"))["counts"] == {"unchanged": 1}
    part = await importing.take(OPENINGS.replace("100,1000000", "60,600000"), "openings")
    assert part["rejects"] == [(2, "doc_line", "DIFFERS")]
    assert await scalar(importing.migrating.app, COUNT) == 2


async def test_a_place_that_is_open_takes_no_layers(importing: Importing) -> None:
    """Even where one of them says just what lies there: the other would be lost, or too much."""
    await importing.take(OPENINGS.replace("100,1000000", "60,600000"), "openings")
    for size in (1, 100):
        again = await importing.take(LAYERS, batch_size=size)
        assert again["rejects"] == [(2, "doc_line", "DIFFERS"), (3, "doc_line", "DIFFERS")]
    assert await scalar(importing.migrating.app, COUNT) == 1


async def test_an_opening_that_was_taken_back_is_given_anew_under_another_number(
    importing: Importing,
) -> None:
    """The file of before does not bring it back."""
    await importing.take(OPENINGS, "openings")
    await execute(
        importing.migrating.app,
        """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
                  posting_date, qty_base, value, reverses_movement_id)
           SELECT company, brand, item, store, kind, 'DB1', 1, posting_date, qty_base, value, id
             FROM books.stock_movements""",
    )
    assert (await importing.take(OPENINGS + "\n", "openings"))["counts"] == {"unchanged": 1}
    right = "doc_id,doc_line," + OPENINGS.replace("2026", "SD2,1,2026").replace("100,", "99,")
    assert (await importing.take(right, "openings"))["counts"] == {"created": 1}
    assert (await importing.take(right + "\n", "openings"))["counts"] == {"unchanged": 1}
    assert await scalar(importing.migrating.app, COUNT) == 3

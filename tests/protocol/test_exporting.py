"""An export from its claim to a file: whole and of one run, or none at all."""

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.errors import LeaseLost, PermanentError, Yield
from shared.files import CHUNK_BYTES, remove_expired
from tests.cost_run_rows import Pool, seed_places, sold, supersede, write_run
from tests.exporting import Exports, open_exports, saved
from tests.factories import autocommit, execute, expire_lease, fetch, scalar
from worker.context import CleanupContext
from worker.exports.tables import TABLES
from worker.exports.xlsx_file import PROOF
from worker.handlers import exporting, stored_files
from worker.handlers.exporting import clean_up_export, run_export
from worker.records import export_rows
from worker.records.files import add_chunks, begin_file

MOVE = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', :doc, 1, '2026-01-09', 3, 900) RETURNING id"""


@pytest.fixture
async def books(owner_engine: AsyncEngine, company: str) -> AsyncEngine:
    """Owner's engine, on the books of ACME, in VND."""
    assert company == "ACME"
    await seed_places(owner_engine, cents=False)
    return owner_engine


@pytest.fixture
async def exports(engine: AsyncEngine, read_engine: AsyncEngine, books: AsyncEngine) -> Exports:
    """A worker's engines on these books."""
    assert books is not None
    return await open_exports(engine, read_engine)


def table_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def workbook(tmp_path: Path, content: bytes) -> Any:
    return openpyxl.load_workbook(saved(tmp_path / "t.xlsx", content))


async def moved(engine: AsyncEngine, doc: str) -> int:
    async with engine.begin() as conn:
        return int((await conn.execute(text(MOVE), {"doc": doc})).scalar_one())


async def whole_run(books: AsyncEngine) -> int:
    """A run with rows in every table."""
    movement = await moved(books, "=1+1")
    cost = {"movement_id": movement, "value": 900, "brand": "RED", "item": "A"}
    error = {
        "brand": "BLUE",
        "item": "=B",
        "number": 1,
        "pool": None,
        "code": "MISSING_COST",
        "detail": "goods come in",
        "movement_ids": [movement],
    }
    pools = [sold("RED", "R1"), sold("RED", "R2"), sold("BLUE", "B1", "=B"), sold("", "*")]
    return await write_run(books, pools, costs=[cost], errors=[error])


@pytest.mark.parametrize(
    ("table", "rows"), [("results", 4), ("stores", 3), ("movements", 1), ("errors", 1)]
)
async def test_each_table_of_a_run_becomes_a_file(
    exports: Exports, books: AsyncEngine, table: str, rows: int
) -> None:
    """Hash, size and rows of the result are those of what is stored."""
    run = await whole_run(books)
    result, content = await exports.export(run, table=table)
    assert (result["rows"], len(table_of(content))) == (rows, rows)
    file = result["file"]
    assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert file["name"] == f"costs-2026-01-run{run}-{table}.csv"
    (row,) = await fetch(exports.app, "SELECT * FROM chot.files")
    assert (row.state, row.size, row.company, row.principal) == (
        "ready",
        len(content),
        "ACME",
        "tester",
    )
    assert row.sha256.hex() == file["sha256"]
    if table == "movements":
        assert table_of(content)[0]["Document (Chứng từ)"] == "'=1+1"


async def test_differences_and_errors_of_a_preview_are_exported_too(
    exports: Exports, books: AsyncEngine
) -> None:
    """They are all that it leaves; its results are refused."""
    difference = {"brand": "RED", "item": "A", "account": "632", "before": 5, "after": -2}
    run = await write_run(books, status="previewed", differences=[difference])
    _, content = await exports.export(run, table="differences")
    (row,) = table_of(content)
    assert (row["Account (Tài khoản)"], row["Difference (Chênh lệch)"]) == ("632", "-7")
    _, content = await exports.export(run, table="errors")
    assert table_of(content) == []
    job_id = await exports.submit(run, table="results")
    with pytest.raises(PermanentError, match=r"RUN_SUPERSEDED.*previewed"):
        await exports.attempt(job_id)


async def test_a_workbook_has_the_rows_and_what_proves_them(
    exports: Exports, books: AsyncEngine, tmp_path: Path
) -> None:
    """Numbers are numbers; the last sheet has totals, invariants, checksum and snapshot."""
    run = await whole_run(books)
    result, content = await exports.export(run, format="xlsx", digits=4)
    assert result["file"]["media_type"].endswith("spreadsheetml.sheet")
    book = workbook(tmp_path, content)
    sheet = book["Results"]
    heads = [cell.value for cell in sheet[1]]
    assert heads == [column.head for column in TABLES["results"].columns]
    rows = [
        dict(zip(heads, row, strict=True)) for row in sheet.iter_rows(min_row=2, values_only=True)
    ]
    assert [(row["Pool (Kho tính giá)"], row["Item (Mã hàng)"]) for row in rows] == [
        ("*", "A"),
        ("B1", "=B"),
        ("R1", "A"),
        ("R2", "A"),
    ]
    closing = "Closing: value (Tồn cuối kỳ: giá trị)"
    assert [row[closing] for row in rows] == [30_000] * 4
    proof = dict(book[PROOF].iter_rows(values_only=True))
    assert proof["Closing (Tồn cuối kỳ)"] == 120000
    assert proof["Opening + in (Tồn đầu + Nhập)"] == proof["Out + closing (Xuất + Tồn cuối)"]
    assert {value for name, value in proof.items() if name[:2] in {"I1", "I2", "I3", "I4"}} == {0}
    checksum = await scalar(
        exports.app, "SELECT checksum FROM books.cost_runs WHERE id = :r", r=run
    )
    assert proof["Checksum, SHA-256 of all results"] == checksum.hex()


async def test_a_brands_export_has_its_rows_and_totals_only(
    exports: Exports, books: AsyncEngine, tmp_path: Path
) -> None:
    """Of a run of the whole company; the file is the brand's."""
    run = await whole_run(books)
    result, content = await exports.export(run, brand="RED")
    assert {row["Brand (Thương hiệu)"] for row in table_of(content)} == {"RED"}
    assert result["rows"] == 2
    assert await scalar(exports.app, "SELECT brand FROM chot.files") == "RED"
    _, content = await exports.export(run, brand="RED", format="xlsx")
    book = workbook(tmp_path, content)
    proof = dict(book[PROOF].iter_rows(values_only=True))
    assert proof["Closing (Tồn cuối kỳ)"] == 60000
    assert not any(name.startswith("I3") for name in proof)


async def test_pages_and_chunks_lose_no_row_and_no_byte(
    exports: Exports, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their sizes."""
    monkeypatch.setattr(exporting, "PAGE_ROWS", 3)
    monkeypatch.setattr(stored_files, "CHUNK_BYTES", 500)
    monkeypatch.setattr(stored_files, "CHUNKS_PER_TRANSACTION", 2)
    names = [f"P{n:02}" for n in range(10)]
    run = await write_run(books, [sold("RED", name) for name in names])
    result, content = await exports.export(run)
    assert [row["Pool (Kho tính giá)"] for row in table_of(content)] == names
    stored = await fetch(exports.app, "SELECT octet_length(content) AS n FROM chot.file_chunks")
    assert sum(row.n for row in stored) == result["file"]["size"] == len(content)
    assert max(row.n for row in stored) == 500
    assert len(stored) > 3
    assert CHUNK_BYTES == 262_144


async def _superseded_at(
    books: AsyncEngine, run: int, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """From that page of rows on the run is gone."""
    reading, pages = export_rows.read_page, 0

    async def gone(conn: AsyncConnection, *args: Any, **more: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == page:
            await supersede(books, run)
        return await reading(conn, *args, **more)

    monkeypatch.setattr(exporting, "read_page", gone)
    monkeypatch.setattr(exporting, "PAGE_ROWS", 2)


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_a_run_that_is_superseded_while_it_is_exported_leaves_no_file(
    exports: Exports, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """Not the half that was read: the job dies, and says what to do."""
    run = await write_run(books, [sold("RED", f"P{n}") for n in range(4)])
    job_id = await exports.submit(run)
    await _superseded_at(books, run, monkeypatch, page)
    with pytest.raises(PermanentError, match="RUN_SUPERSEDED") as raised:
        await exports.attempt(job_id)
    assert raised.value.code == "RUN_SUPERSEDED"
    assert "GET /v1/cost-runs?company=ACME&period=2026-01&status=active" in str(raised.value)
    assert await exports.visible() == 0


async def test_a_run_that_is_superseded_before_the_last_commit_leaves_no_file(
    exports: Exports, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its rows were read, and they are not what holds any more."""
    run = await write_run(books, [sold("RED", "R1")])
    job_id = await exports.submit(run)
    storing = stored_files.store_file

    async def stored(*args: Any, **named: Any) -> Any:
        file = await storing(*args, **named)
        await supersede(books, run)
        return file

    monkeypatch.setattr(exporting, "store_file", stored)
    with pytest.raises(PermanentError, match="RUN_SUPERSEDED"):
        await exports.attempt(job_id)
    assert await exports.visible() == 0


async def test_an_attempt_that_ends_half_way_is_never_seen_and_the_next_starts_over(
    exports: Exports, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two chunks: its chunks are no part of the next file, and go."""
    monkeypatch.setattr(stored_files, "CHUNK_BYTES", 400)
    monkeypatch.setattr(stored_files, "CHUNKS_PER_TRANSACTION", 1)
    run = await write_run(books, [sold("RED", f"P{n}") for n in range(6)])
    job_id = await exports.submit(run)
    times = 0

    async def dies(*args: Any) -> None:
        nonlocal times
        times += 1
        if times == 3:
            raise RuntimeError("the worker is gone")
        await add_chunks(*args)

    monkeypatch.setattr(stored_files, "add_chunks", dies)
    with pytest.raises(RuntimeError):
        await exports.attempt(job_id)
    assert await exports.visible() == 0
    assert await scalar(exports.app, "SELECT count(*) FROM chot.file_chunks") == 2
    await expire_lease(exports.app, job_id)
    await exports.attempt(job_id)
    result = await exports.result(job_id)
    rows = await fetch(exports.app, "SELECT * FROM chot.files ORDER BY created_at")
    assert [row.state for row in rows] == ["building", "ready"]
    assert str(rows[1].id) == result["file"]["id"]
    auto = autocommit(exports.app)
    while await remove_expired(auto) is not None:
        pass
    left = await fetch(exports.app, "SELECT id FROM chot.files")
    assert [str(row.id) for row in left] == [result["file"]["id"]]
    stored = await scalar(exports.app, "SELECT sum(octet_length(content)) FROM chot.file_chunks")
    assert stored == result["file"]["size"]


async def test_a_zombie_makes_no_file_visible(
    exports: Exports, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is another one's while it stores its last chunk: the fence keeps it out."""
    run = await write_run(books, [sold("RED", "R1")])
    job_id = await exports.submit(run)
    zombie, payload = await exports.claimed(job_id)
    storing = stored_files.store_file

    async def overtaken(*args: Any, **named: Any) -> Any:
        file = await storing(*args, **named)
        await expire_lease(exports.app, job_id)
        await exports.claimed(job_id)
        return file

    monkeypatch.setattr(exporting, "store_file", overtaken)
    with pytest.raises(LeaseLost):
        await run_export(zombie, payload)
    await zombie.close()
    assert await exports.visible() == 0


async def test_a_worker_that_drains_hands_the_export_back(
    exports: Exports, books: AsyncEngine
) -> None:
    """Uncharged; whoever goes on starts over."""
    run = await write_run(books, [sold("RED", "R1")])
    job_id = await exports.submit(run)
    with pytest.raises(Yield):
        await exports.attempt(job_id, draining=True)
    assert await exports.visible() == 0


async def test_a_job_that_ends_without_a_file_leaves_none_for_long(
    exports: Exports, books: AsyncEngine
) -> None:
    """Dead or cancelled: its cleanup lets go of what it wrote, the retention removes it."""
    run = await write_run(books, [sold("RED", "R1")])
    job_id = await exports.submit(run)
    context, _ = await exports.claimed(job_id)
    async with context.transaction() as tx:
        file = await begin_file(
            tx.connection, context.job, name="a.csv", media_type="text/csv", keep=9e9
        )
        await add_chunks(tx.connection, file, [b"half"])
    await context.close()
    for _ in range(2):  # idempotent
        async with exports.app.begin() as conn:
            await clean_up_export(CleanupContext(job=context.job, checkpoint=None, connection=conn))
    assert await remove_expired(autocommit(exports.app)) == 1
    assert await scalar(exports.app, "SELECT count(*) FROM chot.files") == 0


async def test_a_run_of_another_company_is_unknown(exports: Exports, books: AsyncEngine) -> None:
    """Whoever made the job: the worker looks, too."""
    await execute(
        books,
        """WITH c AS (INSERT INTO books.companies (code, name) VALUES ('OTHER', 'Other'))
           SELECT 1""",
    )
    await execute(
        books,
        """INSERT INTO books.periods (company, period, starts_on, ends_on)
           VALUES ('OTHER', '2026-01', '2026-01-01', '2026-01-31')""",
    )
    run = await write_run(books, company="OTHER")
    for number in (run, run + 5):
        job_id = await exports.submit(number)
        with pytest.raises(PermanentError, match="RUN_UNKNOWN"):
            await exports.attempt(job_id)


async def test_a_stored_chunk_is_never_changed_and_only_app_writes_any(
    exports: Exports, books: AsyncEngine, read_engine: AsyncEngine
) -> None:
    """By the grants, whatever the code would do; half a file cannot be called ready."""
    run = await write_run(
        books, [Pool(brand="RED", pool="R1", flows={"opening": (0, 0), "closing": (0, 0)})]
    )
    await exports.export(run)
    for engine, statement in (
        (exports.app, "UPDATE chot.file_chunks SET content = 'x'"),
        (exports.app, "UPDATE chot.files SET company = 'OTHER'"),
        (read_engine, "DELETE FROM chot.file_chunks"),
        (read_engine, "UPDATE chot.files SET state = 'building'"),
    ):
        with pytest.raises(Exception, match=r"permission denied|read-only transaction"):
            await execute(engine, statement)
    for changes in ("sha256 = NULL", "size = NULL", "state = 'building'", "chunks = -1"):
        with pytest.raises(Exception, match="check constraint"):
            await execute(exports.app, f"UPDATE chot.files SET {changes}")

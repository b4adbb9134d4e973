"""Reports on the ledger as files: every line, exact, of one moment, and balanced."""

import asyncio
import csv
import io
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import LeaseLost, Yield
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.ledger import LEDGER_EXPORT, LedgerExportPayload
from shared.types import JobId, WorkerId
from tests.costing_books import Books
from tests.exporting import CONTENT, saved
from tests.factories import TIMING, autocommit, expire_lease, fetch, scalar
from tests.ledger_books import Line, cash_sale, entry, open_ledger, post, poster
from tests.period_books import after
from worker.claim import Claimant, claim_jobs, read_input
from worker.context import JobContext
from worker.exports.xlsx_file import PROOF
from worker.handlers import ledger_exports
from worker.handlers.ledger_exports import run_ledger_export
from worker.records.ledger_rows import count_rows

EXPORTER = Claimant(
    worker_id=WorkerId("exporter"),
    code_version="test",
    kinds={LEDGER_EXPORT.name: LEDGER_EXPORT},
    timing=TIMING,
)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME's ledger with goods bought in January and sales of two brands in February."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    held = await poster(opened)
    bought = (
        Line(account="1561", debit=700, item="A"),
        Line(account="331", credit=700, party="=NCC", store=None),
    )
    await post(opened, held, await entry(opened, bought))
    february = date(2026, 2, 3)
    for lines in (cash_sale(500), cash_sale(40, store="B1", brand="BLUE")):
        await post(opened, held, await entry(opened, lines, day=february, memo="bán lẻ"))
    return opened


async def _submitted(books: Books, *, brand: str | None = None, **asked: Any) -> JobId:
    payload = {"format": "csv", "date_from": "2026-01-01", "date_to": "2026-02-28", "bom": False}
    job = Submit(
        kind=LEDGER_EXPORT.name,
        company="ACME",
        brand=brand,
        payload=payload | {"asked": "once"} | asked,
        principal="tester",
    )
    async with books.app.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def _claimed(
    books: Books, job_id: JobId, *, draining: bool = False
) -> tuple[JobContext, LedgerExportPayload]:
    auto = autocommit(books.app)
    (held,) = await claim_jobs(auto, EXPORTER, [job_id])
    raw, _ = await read_input(auto, held)
    payload = LedgerExportPayload.model_validate_json(raw)
    drain = asyncio.Event()
    if draining:
        drain.set()
    context = JobContext(
        job=replace(held.job, payload=payload.model_dump()),
        checkpoint=None,
        _held=held,
        _engines=books.engines,
        _timing=TIMING,
        _draining=drain,
    )
    return context, payload


async def _attempt(books: Books, job_id: JobId, *, draining: bool = False) -> None:
    context, payload = await _claimed(books, job_id, draining=draining)
    try:
        await run_ledger_export(context, payload)
    finally:
        await context.close()


async def _exported(books: Books, **asked: Any) -> tuple[dict[str, Any], bytes]:
    job_id = await _submitted(books, **asked)
    await _attempt(books, job_id)
    result = await books.result(job_id)
    rows = await fetch(books.app, CONTENT, id=result["file"]["id"])
    return result, b"".join(row.content for row in rows)


def _table(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


async def test_a_trial_balance_is_a_file(books: Books) -> None:
    """The rows of the report, and its sums in the job's result."""
    result, content = await _exported(books, report="trial_balance", date_from="2026-02-01")
    heads, *rows = _table(content)
    assert heads[0] == "Account (Tài khoản)"
    assert [row[0] for row in rows] == ["1111", "1561", "331", "5111"]
    assert rows[1] == ["1561", "Giá mua hàng hóa", "700", "0", "0", "0", "700", "0"]
    assert result["sums"]["debit"] == result["sums"]["credit"] == "540"
    assert result["file"]["name"] == "trial-balance-2026-02-01-2026-02-28.csv"
    _, rolled = await _exported(books, report="trial_balance", level=1)
    assert [row[0] for row in _table(rolled)[1:]] == ["111", "156", "331", "511"]


async def test_a_journal_has_every_line(books: Books) -> None:
    """By day and entry; a text that a spreadsheet would run stays text."""
    result, content = await _exported(books, report="journal")
    _, *rows = _table(content)
    assert (result["rows"], len(rows)) == (6, 6)
    assert [row[8:10] for row in rows[:2]] == [["700", "0"], ["0", "700"]]
    assert rows[1][10] == "'=NCC"
    assert rows[2][5] == "bán lẻ"
    assert {row[6]: row[7] for row in rows}["331"] == "Phải trả cho người bán"  # as in the balance
    assert result["sums"] == {"debit": "1240", "credit": "1240"}


async def test_a_general_ledger_begins_with_its_opening(books: Books, tmp_path: Path) -> None:
    """And ends with the balance that its sheet of facts says."""
    asked = {"report": "general_ledger", "account": "111", "date_from": "2026-02-01"}
    result, content = await _exported(books, **asked, format="xlsx")
    book = openpyxl.load_workbook(saved(tmp_path / "t.xlsx", content))
    rows = list(book[book.sheetnames[0]].iter_rows(values_only=True))
    assert (rows[1][5], rows[1][10]) == ("Opening (Số dư đầu kỳ)", 0)
    assert [row[10] for row in rows[2:]] == [500, 540]
    facts = {row[0]: row[1] for row in book[PROOF].iter_rows(values_only=True)}
    assert facts["closing"] == 540
    assert result["file"]["name"] == "general-ledger-111-2026-02-01-2026-02-28.xlsx"
    assert result["rows"] == 3


async def test_a_brands_file_has_its_lines_only(books: Books) -> None:
    """As the job has it, whoever reads the file sees no other brand."""
    _, content = await _exported(books, report="journal", brand="BLUE")
    assert {row[13] for row in _table(content)[1:]} == {"BLUE"}


async def test_a_file_is_of_one_moment(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is posted while its pages are read is in none of them, wherever its day lies."""
    held = await poster(books)

    async def book() -> None:
        early = await entry(books, cash_sale(9), day=date(2026, 1, 1))
        late = await entry(books, cash_sale(9), day=date(2026, 2, 27))
        await post(books, held, early, late)

    monkeypatch.setattr(ledger_exports, "PAGE_ROWS", 2)
    counted = after(count_rows, book)
    monkeypatch.setattr(ledger_exports, "count_rows", counted)
    result, content = await _exported(books, report="journal")
    assert len(_table(content)) == 1 + 6
    assert result["sums"]["debit"] == "1240"


async def test_a_worker_that_lost_its_job_shows_no_file(books: Books) -> None:
    """Whoever took it over writes its own, whole; what is asked for twice is two files."""
    job_id = await _submitted(books, report="journal")
    context, payload = await _claimed(books, job_id)
    await expire_lease(books.app, job_id)
    await _attempt(books, job_id)
    with pytest.raises(LeaseLost):
        await run_ledger_export(context, payload)
    await context.close()
    ready = "SELECT count(*) FROM chot.files WHERE state = 'ready'"
    assert await scalar(books.app, ready) == 1
    await _exported(books, report="journal", asked="twice")
    assert await scalar(books.app, ready) == 2


async def test_a_worker_that_drains_hands_the_export_back(books: Books) -> None:
    """Between two pages; there is no file."""
    job_id = await _submitted(books, report="journal")
    with pytest.raises(Yield):
        await _attempt(books, job_id, draining=True)
    assert await scalar(books.app, "SELECT count(*) FROM chot.files") == 0

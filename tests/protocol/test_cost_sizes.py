"""Costs of a month of the sample chain: in the ledger in seconds, store by store what costing says."""

from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sample_company import load_sample
from dev.sample_movements import WHOLE
from shared.costs.legs import BY_HASH, LEGS
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.cost_documents import POSTING_COSTS
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.logs import log
from tests.cost_books import attempt_costs
from tests.costing_books import JANUARY, Books
from tests.factories import TIMING, autocommit, execute
from worker.context import Engines

COMPANY = "SAMPLE"
MOVEMENTS = 1_000_000
UNHURRIED = replace(TIMING, lease=3600.0, idle_in_transaction=3600.0)
# What documents would have put on stock, and the openings: with that the ledger is the closing.
OFF = text(f"""
    WITH {LEGS},
    posted AS (
        SELECT l.store, l.item, sum(l.debit - l.credit) AS amount FROM books.gl_lines l
          JOIN books.gl_accounts g ON g.company = l.company AND g.code = l.account AND g.is_stock
         GROUP BY l.store, l.item),
    stated AS (
        SELECT store, item, sum(stated - opened) AS amount FROM legs WHERE role = 'stock'
         GROUP BY store, item),
    there AS (
        SELECT b.store, b.item, b.v_closing - b.v_opening AS amount FROM active a
          JOIN books.store_balances b
            ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item)
    SELECT count(*) AS places, count(*) FILTER (
               WHERE coalesce(b.amount, 0) + coalesce(s.amount, 0) <> t.amount) AS off
      FROM there t
      LEFT JOIN posted b USING (store, item)
      LEFT JOIN stated s USING (store, item)""")


@pytest.mark.long
async def test_a_million_movements(
    engine: AsyncEngine, read_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posted; asked again, nothing is posted. How long it took is told, not judged."""
    for module in ("tests.costing_books", "tests.cost_books"):
        monkeypatch.setattr(f"{module}.TIMING", UNHURRIED)  # nobody's heart beats here
    books = Books(engines=Engines(app=engine, auto=autocommit(engine), read=read_engine))
    async with engine.begin() as conn:
        await mirror_kinds(conn, load_kinds(""), default_max_attempts=5)
    await load_sample(engine, movements=MOVEMENTS, items=MOVEMENTS // 50, habits=WHOLE)
    await execute(engine, "SELECT books.adopt_chart('SAMPLE', 'TT200')")
    await books.cost(company=COMPANY, brand=None, parts=1)
    first = await _posted(books)
    assert first["documents"]["posted"] == first["documents"]["standing"] > 1000
    again = await _posted(books)
    assert again["outcome"] == "nothing_to_do"
    async with read_engine.connect() as conn:
        binds = {"company": COMPANY, "period": JANUARY, "items": None}
        days = await conn.execute(
            text("SELECT starts_on, ends_on FROM books.periods WHERE company = :company"), binds
        )
        await conn.execute(text(BY_HASH), {"setting": "off"})  # as whoever reads legs does
        found = (await conn.execute(OFF, binds | dict(days.mappings().one()))).one()
    assert (found.places > MOVEMENTS // 50, found.off) == (True, 0)


async def _posted(books: Books) -> dict[str, Any]:
    began = monotonic()
    body = {"period": JANUARY}
    async with books.app.begin() as conn:
        job = Submit(kind=POSTING_COSTS.name, company=COMPANY, brand=None, payload=body)
        job_id = (await enqueue(conn, job)).job_id
    await attempt_costs(books, job_id)
    log.info("test.costs_posted", seconds=round(monotonic() - began, 1))
    return await books.result(job_id)

"""What docs/company.md tells an ERP developer to load, loaded: its SQL, its table, its counts."""

import re
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.costs.shown import scaled
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import fetch, scalar

PAGE = Path(__file__).parents[2] / "docs" / "company.md"
SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ((?:HAT|LY|SUA) \| .*) \|$", re.MULTILINE)
RESULTS = """
    SELECT p.item, p.brand, p.pool, i.qty_scale, p.q_opening, p.v_opening, p.q_closing, p.v_closing,
           p.q_receipt + p.q_gain + p.q_sales_return + p.q_transfer_in AS q_in,
           p.v_receipt + p.v_gain + p.v_sales_return + p.v_transfer_in AS v_in,
           p.q_issue + p.q_usage + p.q_purchase_return + p.q_transfer_out AS q_out,
           p.v_issue + p.v_usage + p.v_purchase_return + p.v_transfer_out AS v_out,
           round(p.price_num / p.price_den * power(CAST(10 AS numeric), i.qty_scale), 2) AS price
      FROM books.pool_results p
      JOIN books.items i ON i.company = 'THU' AND i.code = p.item
     WHERE p.run_id = :run ORDER BY p.item, p.brand, p.pool"""


async def load(books: Books, block: str) -> None:
    """Run the statements of a block in one transaction, as role app."""
    async with books.app.begin() as conn:
        for statement in filter(str.strip, block.split(";\n")):
            await conn.exec_driver_sql(statement)


def shown(row: Any) -> str:
    """A result as the page's table has it."""
    cells = [row.item, row.brand, row.pool]
    for flow in ("opening", "in", "out", "closing"):
        cells += [scaled(int(getattr(row, f"q_{flow}")), row.qty_scale)]
        cells += [str(getattr(row, f"v_{flow}"))]
    return " | ".join([*cells, str(row.price)])


async def test_the_company_of_the_page_is_loaded_and_costed(
    engine: AsyncEngine, read_engine: AsyncEngine, company: str
) -> None:
    """Its January to the unit; freight that comes a month later, and what comes late."""
    assert company == "ACME", "another company's rows are beside it"
    books = await open_books(engine, read_engine)
    who, moved, freight, late = SQL.findall(PAGE.read_text())
    await load(books, who)
    await load(books, moved)
    run = await books.cost(company="THU", brand=None)
    assert run["outcome"] == "completed"
    rows = await fetch(books.app, RESULTS, run=run["run_id"])
    assert [shown(row) for row in rows] == ROW.findall(PAGE.read_text())
    await load(books, freight)
    later = await books.cost(FEBRUARY, company="THU", brand=None)
    assert (later["values"]["receipt"], later["values"]["variance"]) == ("900000", "100000")
    await load(books, late)
    assert await scalar(books.app, "SELECT count(*) FROM books.late_movements") == 1
    again = await books.cost(JANUARY, company="THU", brand=None, items=["@dirty"])
    assert again["warnings"] == [{"code": "LATER_PERIODS_STALE", "results": 2}]
    assert again["items"]["total"] == 2
    stale = await books.cost(FEBRUARY, company="THU", brand=None, items=["@dirty"])
    assert (stale["items"]["total"], stale["warnings"]) == (2, [])

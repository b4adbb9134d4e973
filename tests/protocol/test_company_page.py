"""What docs/company.md tells an ERP developer to load, loaded: its SQL, its table, its counts."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.costs.shown import scaled
from shared.database import open_engine
from tests.costing_books import FEBRUARY, JANUARY, open_books
from tests.factories import fetch, scalar
from tests.services import Database

PAGE = Path(__file__).parents[2] / "docs" / "company.md"
SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GRANTS = re.compile(r"^```sql owner\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ((?:HAT|LY|SUA) \| .*) \|$", re.MULTILINE)
# Roles are the cluster's: the test's own must not meet the one of another test run.
ERP = f"erp_{uuid4().hex[:12]}"
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


async def load(owner: AsyncEngine, block: str, *, role: str | None = ERP) -> None:
    """Run the statements of a block in one transaction, as the page's login or as the owner."""
    async with owner.begin() as conn:
        if role is not None:
            await conn.exec_driver_sql(f"SET LOCAL ROLE {role}")
        for statement in filter(str.strip, block.split(";\n")):
            await conn.exec_driver_sql(statement)


def shown(row: Any) -> str:
    """A result as the page's table has it."""
    cells = [row.item, row.brand, row.pool]
    for flow in ("opening", "in", "out", "closing"):
        cells += [scaled(int(getattr(row, f"q_{flow}")), row.qty_scale)]
        cells += [str(getattr(row, f"v_{flow}"))]
    return " | ".join([*cells, str(row.price)])


@pytest.fixture
async def erp(database: Database) -> AsyncIterator[AsyncEngine]:
    """An engine that may become the page's login, which is made under the test's own name."""
    engine = open_engine(database.superuser_url, pool_size=1)
    (grants,) = GRANTS.findall(PAGE.read_text())
    await load(engine, re.sub(r"\berp\b", ERP, grants), role=None)
    yield engine
    await load(engine, f"DROP OWNED BY {ERP};\nDROP ROLE {ERP};\n", role=None)
    await engine.dispose()


async def test_the_login_of_the_page_opens_no_period(erp: AsyncEngine, company: str) -> None:
    """Nor does it change what was written."""
    assert company == "ACME"
    for statement in (
        "UPDATE books.periods SET status = 'open'",
        "UPDATE books.stock_movements SET value = 1",
        "DELETE FROM books.stock_movements",
        "INSERT INTO books.stock_movements (xid) VALUES (pg_current_xact_id())",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            await load(erp, statement)


async def test_the_company_of_the_page_is_loaded_and_costed(
    engine: AsyncEngine, read_engine: AsyncEngine, erp: AsyncEngine, company: str
) -> None:
    """Its January to the unit; freight that comes a month later, and what comes late."""
    assert company == "ACME", "another company's rows are beside it"
    books = await open_books(engine, read_engine)
    who, moved, freight, late = SQL.findall(PAGE.read_text())
    await load(erp, who)
    await load(erp, moved)
    run = await books.cost(company="THU", brand=None)
    assert run["outcome"] == "completed"
    rows = await fetch(books.app, RESULTS, run=run["run_id"])
    assert [shown(row) for row in rows] == ROW.findall(PAGE.read_text())
    await load(erp, freight)
    later = await books.cost(FEBRUARY, company="THU", brand=None)
    assert (later["values"]["receipt"], later["values"]["variance"]) == ("900000", "100000")
    await load(erp, late)
    assert await scalar(books.app, "SELECT count(*) FROM books.late_movements") == 1
    again = await books.cost(JANUARY, company="THU", brand=None, items=["@dirty"])
    assert again["warnings"] == [{"code": "LATER_PERIODS_STALE", "results": 2}]
    assert again["items"]["total"] == 2
    stale = await books.cost(FEBRUARY, company="THU", brand=None, items=["@dirty"])
    assert (stale["items"]["total"], stale["warnings"]) == (2, [])

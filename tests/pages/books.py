"""Books for the pages of runs: a month of goods, one mistake in it, and documents to post."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import httpx

from shared.database import open_engine
from tests.factories import execute
from tests.ledger_books import open_ledger
from tests.pages.stack import Stack
from tests.posting_books import manual, sale
from tests.protocol.api.keys import bearer

MANY = 60
FEBRUARY = {"date_from": "2026-02-01", "date_to": "2026-02-28"}
ITEMS = f"""
    INSERT INTO books.items (company, code, name, base_uom)
    SELECT 'ACME', 'P' || to_char(n, 'FM000'), 'Hàng ' || n, 'cái'
      FROM generate_series(1, {MANY}) AS n"""
RECEIPTS = f"""
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    SELECT 'ACME', 'RED', 'P' || to_char(n, 'FM000'), 'R1', 'receipt', 'PN-' || n, 1,
           date '2026-01-03', 10, 1000000 + n
      FROM generate_series(1, {MANY}) AS n"""


@dataclass(slots=True)
class Month:
    """What was run, by name: numbers of cost runs, ids of postings."""

    runs: dict[str, int] = field(default_factory=dict)
    postings: dict[str, str] = field(default_factory=dict)


def run_job(stack: Stack, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Submit a job of the whole company and wait for its end; the job."""
    body = {"kind": kind, "company": "ACME", "payload": payload}
    made = httpx.post(f"{stack.url}/v1/jobs", json=body, headers=bearer(stack.keys["admin"]))
    assert made.status_code == 202, made.text
    done = stack.until(made.json()["id"], "succeeded", "dead")
    assert done["state"] == "succeeded", done["error"]
    return done


async def fill_books(stack: Stack) -> Month:
    """Cost January, post it, find a receipt that came late, and cost again.

    Runs: "whole" (replaced in part, B could not be costed), "february" (stale), "again" (of A
    alone) and "preview". Postings: "documents" (one of them cannot be posted), "nothing" (of February,
    where there is no document) and "costs".
    """
    app = open_engine(stack.database.app_url, pool_size=2)
    read = open_engine(stack.database.read_url, pool_size=2)
    month = Month()
    try:
        books = await open_ledger(app, read)
        await execute(app, ITEMS)
        await execute(app, RECEIPTS)
        await books.move("opening", 10, value=1_000_000, day=date(2026, 1, 1), doc="TDK")
        await books.move("receipt", 20, value=2_090_000, doc="PN-A")
        await books.move("issue", 12, doc="PX-A")
        await books.move("issue", 3, item="B", doc="PX-B")
        await books.move("receipt", 5, value=600_000, day=date(2026, 2, 3), doc="PN-2")
        for number in range(3):
            await sale(books, f"HD-{number + 1}", net=150_000)
        await manual(books, "BT-LECH", ("1111", 100_000), ("5111", -90_000))
        month.runs["whole"] = _cost(stack, period="2026-01")
        month.runs["february"] = _cost(stack, period="2026-02")
        days = {"date_from": "2026-01-01", "date_to": "2026-01-31"}
        month.postings["documents"] = run_job(stack, "posting.post", days)["id"]
        month.postings["nothing"] = run_job(stack, "posting.post", FEBRUARY)["id"]
        month.postings["costs"] = run_job(stack, "posting.costs", {"period": "2026-01"})["id"]
        await books.move("receipt", 4, value=500_000, day=date(2026, 1, 9), doc="PN-MUON")
        preview = {"period": "2026-01", "items": ["A"]}
        month.runs["preview"] = _run_of(run_job(stack, "costing.preview", preview))
        month.runs["again"] = _cost(stack, period="2026-01", items=["A"])
    finally:
        await app.dispose()
        await read.dispose()
    return month


def _cost(stack: Stack, **payload: Any) -> int:
    return _run_of(run_job(stack, "costing.run", payload))


def _run_of(job: Mapping[str, Any]) -> int:
    return int(job["result"]["run_id"])

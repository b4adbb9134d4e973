"""A company's month by jobs alone: import, post, cost, post what it cost, close; then the proof."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from sqlalchemy import text

from dev.sample_catalogue import BRANDS, COMPANY_NAME, shops
from dev.sample_documents import MonthFiles
from shared.cli.http import Api
from shared.cli.progress import screen
from shared.cli.wait import follow
from shared.database import open_engine, transaction

PERIOD = "2026-01"
FIRST_DAY, LAST_DAY = date(2026, 1, 1), date(2026, 1, 31)
TEMPLATE = "TT200"
AMOUNTS = ("opening_debit", "opening_credit", "debit", "credit", "closing_debit", "closing_credit")
LONGEST_SECONDS = 300.0
Say = Callable[[str], None]


class MonthFailed(Exception):
    """A job did not end well, or a proof does not hold; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One job of the month: what it did, in words, how long it took and how many attempts."""

    name: str
    did: str
    seconds: float
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the month left behind, to be compared: balances by account, goods by store and item."""

    accounts: Sequence[tuple[str, ...]]
    goods: Sequence[tuple[object, ...]]
    debits: str
    credits: str
    stock_value: str
    stock_ledger: str
    entries: int


@dataclass(slots=True)
class Month:
    """The month of one company, job by job, through the api."""

    company: str
    files: MonthFiles
    say: Say
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        """Every job in its order; MonthFailed where one does not end as it should."""
        with Api(retry_for=60.0) as api:
            for name in ("items", "openings", "movements", "documents"):
                self._import(api, name)
            days = {"date_from": str(FIRST_DAY), "date_to": str(LAST_DAY)}
            posted = self._job(api, "post documents", "posting.post", days)
            if posted["result"]["failures_total"]:
                raise MonthFailed(f"not posted: {posted['result']['failures'][:3]}")
            self._did(posted, "post documents", _counted(posted["result"]["outcomes"]))
            costed = self._job(api, "cost", "costing.run", {"period": PERIOD})
            if costed["result"]["outcome"] != "completed":
                raise MonthFailed(f"the costing has errors: {costed['result']}")
            self._did(costed, "cost", f"cost run {costed['result']['run_id']}")
            booked = self._job(api, "post costs", "posting.costs", {"period": PERIOD})
            self._did(booked, "post costs", _counted(booked["result"]["documents"]))
            self._close(api)

    def _import(self, api: Api, name: str) -> None:
        path: Path = getattr(self.files, name)
        with path.open("rb") as source:
            query = {"company": self.company, "name": path.name}
            sent = api.upload("/v1/files", query, source, path.stat().st_size)
        payload = {"task": f"import.{name}", "params": {"file": sent.body["id"], "decimal": "."}}
        job = self._job(api, f"import {name}", "migration.run", payload)
        if job["result"]["rows_failed"]:
            raise MonthFailed(f"import of {name}: {job['result']['first_rejects'][:3]}")
        self._did(job, f"import {name}", _counted(job["result"]["counts"]))

    def _job(self, api: Api, name: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        body = {"kind": kind, "company": self.company, "payload": payload}
        key = {"Idempotency-Key": str(uuid4())}
        return self._ended(api, name, api.post("/v1/jobs", json.dumps(body), key).body["id"])

    def _close(self, api: Api) -> None:
        body = json.dumps({"company": self.company, "reason": "month end"})
        answer = api.post(f"/v1/periods/{PERIOD}/close", body)
        job = self._ended(api, "close", answer.body["id"])
        self._did(job, "close", f"{job['result']['outcome']}; ledger: {job['result']['ledger']}")

    def _ended(self, api: Api, name: str, job_id: str) -> dict[str, Any]:
        with screen(quiet=True) as shown:
            job = follow(api, job_id, shown, timeout=LONGEST_SECONDS)
        if job["state"] != "succeeded":
            raise MonthFailed(f"{name}: job {job_id} is {job['state']}: {job['error']}")
        return job

    def _did(self, job: dict[str, Any], name: str, did: str) -> None:
        seconds = _between(job["created_at"], job["finished_at"])
        self.steps.append(Step(name=name, did=did, seconds=seconds, attempts=len(job["attempts"])))
        self.say(f"{self.company}: {name}: {did}")


def _counted(counts: Mapping[str, Any]) -> str:
    """Such as `1,000 created, 3 unchanged`."""
    return ", ".join(f"{n:,} {name.lower()}" for name, n in counts.items() if n)


def _between(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


async def open_company(url: str, company: str) -> None:
    """A company with brands, stores, the chart of accounts, and January open; nothing else."""
    engine = open_engine(url, pool_size=1, application_name="chot month")
    try:
        async with transaction(engine, lock_timeout=10) as conn:
            for statement, rows in _rows_of(company):
                await conn.execute(text(statement), rows)
    finally:
        await engine.dispose()


def _rows_of(company: str) -> list[tuple[str, Any]]:
    return [
        (
            "INSERT INTO books.companies (code, name) VALUES (:code, :name)",
            {"code": company, "name": COMPANY_NAME},
        ),
        (
            "INSERT INTO books.brands (company, code, name) VALUES (:company, :code, :name)",
            [{"company": company, "code": code, "name": name} for code, name in BRANDS.items()],
        ),
        (
            """INSERT INTO books.stores (company, code, brand, name)
               VALUES (:company, :code, :brand, :name)""",
            [
                {"company": company, "code": s.code, "brand": s.brand, "name": s.name}
                for s in shops()
            ],
        ),
        (
            """INSERT INTO books.periods (company, period, starts_on, ends_on)
               VALUES (:company, :period, :first, :last)""",
            {"company": company, "period": PERIOD, "first": FIRST_DAY, "last": LAST_DAY},
        ),
        ("SELECT books.adopt_chart(:company, :chart)", {"company": company, "chart": TEMPLATE}),
    ]


GOODS = """
    SELECT b.store, b.item, b.q_closing, b.v_closing
      FROM books.active_results a
      JOIN books.store_balances b
        ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
     WHERE a.company = $1 AND a.period = $2 AND NOT a.failed
     ORDER BY b.store, b.item"""
# Beside what the api says: every entry balances, each number was given once and none is missing.
LEDGER = """
    SELECT count(*) AS entries, count(*) FILTER (WHERE s.debit <> s.credit) AS unbalanced,
           count(DISTINCT e.entry_no) AS numbers, coalesce(max(e.entry_no), 0) AS last
      FROM books.gl_entries e
      JOIN LATERAL (SELECT sum(l.debit) AS debit, sum(l.credit) AS credit
                      FROM books.gl_lines l WHERE l.entry_id = e.id) s ON true
     WHERE e.company = $1"""


async def read_books(conn: asyncpg.Connection, company: str) -> Books:
    """The books as they stand; MonthFailed unless debit = credit and stock = ledger."""
    balance, control = await asyncio.to_thread(_ask, company)
    goods = [tuple(row) for row in await conn.fetch(GOODS, company, PERIOD)]
    row = await conn.fetchrow(LEDGER, company)
    assert row is not None, "an aggregate has a row"
    totals = balance["totals"]
    found = Books(
        accounts=[
            tuple(str(line[name]) for name in ("account", *AMOUNTS)) for line in balance["accounts"]
        ],
        goods=goods,
        debits=totals["debit"],
        credits=totals["credit"],
        stock_value=control["value"],
        stock_ledger=control["ledger"],
        entries=row["entries"],
    )
    _refuse_unproven(found, dict(row), control)
    return found


def _ask(company: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with Api(retry_for=60.0) as api:
        query = {"company": company, "period": PERIOD}
        balance = api.get("/v1/ledger/trial-balance", query).body
        return balance, api.get("/v1/ledger/control", query).body


def _refuse_unproven(books: Books, ledger: dict[str, Any], control: dict[str, Any]) -> None:
    wrong = []
    if books.debits != books.credits or ledger["unbalanced"]:
        wrong.append(f"debit {books.debits}, credit {books.credits}: {ledger}")
    if not ledger["entries"] or not ledger["entries"] == ledger["numbers"] == ledger["last"]:
        wrong.append(f"numbers of entries have a gap or stand twice: {ledger}")
    if not control["agrees"] or books.stock_value != books.stock_ledger:
        wrong.append(f"stock is not the ledger's: {str(control)[:500]}")
    if wrong:
        raise MonthFailed("; ".join(wrong))

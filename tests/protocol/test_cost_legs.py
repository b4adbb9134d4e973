"""I11 for random companies: opening, documents and cost documents are what costing says is there.

The engine costs a company told by chance; its movements and results are put into the tables as a
run leaves them, with what documents book of it. Each store's ledger must then be its closing value.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from tests.costing_oracle.companies import EARLIER_RECEIPT, Company, Taste, companies
from tests.services import Database
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Kind, Method, Movement, in_order
from worker.costing.results import (
    ItemCosts,
    Line,
    Negative,
    Policy,
    PoolResult,
    ResiduePolicy,
    StoreBalance,
)
from worker.records.cost_plan import WANTED

TASTES = {
    "periodic": Taste(items=2, any_day=True),
    "periodic short": Taste(
        kinds=("receipt", "issue", "issue", "transfer", "count", "landed_cost"),
        short=True,
        owed=True,
    ),
    "moving": Taste(method=Method.MOVING, items=2, short=True, owed=True),
    "fifo": Taste(method=Method.FIFO, items=2, short=True, owed=True),
    "specific": Taste(method=Method.SPECIFIC, items=2),
}
STRICT = {"periodic", "specific"}
RUN = 1
PARTED = ("movement_costs", "store_balances")
DAYS = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 1, 31)}
SCOPE = {"company": "X", "period": "2026-01", "items": None, **DAYS}
LINES = "SELECT key, day, role, account, store, item, amount FROM lines"
FLOWS = (
    *("opening", "receipt", "gain", "sales_return", "issue", "usage", "purchase_return"),
    *("closing", "transfer_in", "transfer_out"),
)
LAYOUTS = ("day_store", "item_group", "slip")

INSERT = text("""
    INSERT INTO books.stock_movements (id, company, brand, item, store, to_brand, to_store, kind,
           doc_id, doc_line, posting_date, qty_base, value, ref_movement_id, reverses_movement_id)
    SELECT id, 'X', brand, item, store, to_brand, to_store, kind, doc_id, 1, posting_date, qty,
           value, NULL, reverses
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (id bigint, brand text, item text,
           store text, to_brand text, to_store text, kind text, doc_id text, posting_date date,
           qty bigint, value bigint, reverses bigint)""")


@dataclass(frozen=True, slots=True)
class Place:
    """A database of this module's, and the loop that talks to it."""

    runner: asyncio.Runner
    engine: AsyncEngine


@pytest.fixture
def place(database: Database) -> Iterator[Place]:
    """With the tables of run 1, and company X."""
    with asyncio.Runner() as runner:
        engine = open_engine(database.superuser_url, pool_size=1)
        try:
            runner.run(_prepare(engine))
            yield Place(runner, engine)
        finally:
            runner.run(engine.dispose())


async def _prepare(engine: AsyncEngine) -> None:
    async with engine.begin() as conn:
        for statement in (
            *(f"CREATE TABLE books.{t}_all PARTITION OF books.{t} DEFAULT" for t in PARTED),
            "INSERT INTO books.companies (code, name) VALUES ('X', 'X')",
            "INSERT INTO books.brands VALUES ('X', 'B', 'B'), ('X', 'C', 'C')",
            """INSERT INTO books.stores (company, code, brand, name)
               SELECT 'X', 'S' || n, CASE WHEN n % 2 = 1 THEN 'B' ELSE 'C' END, 'S' || n
                 FROM generate_series(1, 6) AS n""",
            """INSERT INTO books.items (company, code, name, base_uom, item_group)
               SELECT 'X', i, i, 'cái', CASE WHEN i <> 'B' THEN 'G' END
                 FROM unnest(ARRAY['A', 'B', 'C']) AS i""",
            """INSERT INTO books.periods (company, period, starts_on, ends_on)
               VALUES ('X', '2025-12', '2025-12-01', '2025-12-31'),
                      ('X', '2026-01', '2026-01-01', '2026-01-31')""",
            """INSERT INTO books.gl_accounts (company, code, name, kind, is_stock)
               VALUES ('X', '1561', 'Goods', 'asset', true), ('X', '331', 'Payables',
                       'liability', false)""",
        ):
            await conn.execute(text(statement))


def _brand(store: str | None) -> str | None:
    return None if store is None else "BC"[(int(store[1:]) + 1) % 2]


def _earlier(item: str, number: int) -> int:
    """References have the same ids in every item; a table has each id once."""
    return number * 10 + "ABC".index(item)


def _movement(item: str, m: Movement) -> dict[str, Any]:
    known = m.reverses if m.reverses is None or m.reverses < EARLIER_RECEIPT else None
    reverses = known if known == m.reverses else _earlier(item, m.reverses or 0)
    return {
        "id": m.id,
        "brand": _brand(m.store),
        "item": item,
        "store": m.store,
        "to_brand": _brand(m.to_store),
        "to_store": m.to_store,
        "kind": m.kind,
        "doc_id": f"{m.kind}-{m.id}",
        "posting_date": f"2026-01-{m.day % 28 + 1:02}",
        "qty": m.qty,
        "value": None if m.kind == Kind.ISSUE else m.value,  # a hint stands in no table
        "reverses": reverses,
    }


def _first(item: str, number: int, stock: ItemStock) -> dict[str, Any]:
    """The movement of December; its receipt was worth less before the freight came."""
    known = stock.references[number]
    value = None if known.kind == Kind.ISSUE else (known.value or 0) * 2 // 3
    row = Movement(number, 1, 1, known.kind, known.store, None, known.qty, value, None, None, None)
    own = {"id": _earlier(item, number), "posting_date": "2025-12-05"}
    return _movement(item, row) | own | {"doc_id": f"FIRST-{item}{number}"}


class Books:
    """What the tables are to hold, and what documents book on stock by item and store."""

    def __init__(self, company: Company, answers: dict[str, ItemCosts]) -> None:
        self.company, self.answers = company, answers
        self.movements: list[dict[str, Any]] = []
        self.booked: Counter[tuple[str, str]] = Counter()
        self.documents: list[dict[str, Any]] = []
        for stock in company.stocks:
            if stock.item in answers:
                self._read(stock, {line.movement_id: line for line in answers[stock.item].lines})

    def _read(self, stock: ItemStock, lines: dict[int, Line]) -> None:
        item, here = stock.item, {m.id for m in stock.movements}
        gone = {m.reverses for m in stock.movements} & here
        gone |= {m.id for m in stock.movements if m.reverses in here}
        firsts = {n: _first(item, n, stock) for n in stock.references}
        self.movements += [*firsts.values(), *(_movement(item, m) for m in stock.movements)]
        for m in stock.movements:
            if m.id not in gone:
                first = firsts.get(m.reverses or 0)
                self._document(item, m, lines[m.id], first)

    def _document(self, item: str, m: Movement, line: Line, first: dict[str, Any] | None) -> None:
        sign = 1 if m.reverses is None else -1
        own = m.value if first is None else first["value"]
        if m.kind in {Kind.RECEIPT, Kind.LANDED_COST, Kind.OPENING}:
            self.booked[item, m.store] += sign * (own or 0)
        elif m.kind == Kind.PURCHASE_RETURN:
            net = line.value + m.id % 5 * 7 if m.id % 3 else None
            self.booked[item, m.store] -= line.value - line.variance if net is None else net
            self._write(item, m, net, first)
        elif m.kind == Kind.TRANSFER and m.id % 4 % 2:
            net = m.id * 11
            self.booked[item, m.store] -= sign * net
            self.booked[item, m.to_store or ""] += sign * net
            self._write(item, m, sign * net, first)

    def _write(self, item: str, m: Movement, net: int | None, first: dict[str, Any] | None) -> None:
        if net is not None:
            number = f"{m.kind}-{m.id}" if first is None else first["doc_id"]
            posted = m.id % 3 == 1 or m.reverses is not None
            self.documents.append(
                {"id": m.id, "kind": m.kind, "no": number, "item": item, "store": m.store,
                 "to": m.to_store, "net": net, "posted": posted}
            )  # fmt: skip

    async def write(self, conn: AsyncConnection) -> None:
        """Everything into the tables; no trigger looks, since many stories are of half a world."""
        await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(INSERT, {"rows": json.dumps(self.movements)})
        for item, costs in self.answers.items():
            await self._results(conn, item, costs)
        for document in self.documents:
            await _post(conn, document)

    async def _results(self, conn: AsyncConnection, item: str, costs: ItemCosts) -> None:
        for brand in "BC":
            await conn.execute(
                text("""INSERT INTO books.active_results
                               (company, brand, period, item, run_id, failed, stale)
                        VALUES ('X', :brand, '2026-01', :item, :run, false, false)"""),
                {"brand": brand, "item": item, "run": RUN},
            )
        stores = {row["id"]: row["brand"] for row in self.movements}
        await _insert(conn, "movement_costs", [
            {"run_id": RUN, "brand": stores[line.movement_id], "item": item, **line._asdict()}
            for line in costs.lines
        ])  # fmt: skip
        await _insert(conn, "store_balances", [_balance(item, store) for store in costs.stores])
        await _insert(conn, "pool_results", [_pool(item, pool) for pool in costs.pools])


def _flows(row: StoreBalance | PoolResult, **names: str) -> dict[str, int]:
    """The flows of a result, by the columns they stand in."""
    flows = {column: getattr(row, name) for column, name in names.items()}
    return {f"{side}_{n}": flow[at] for n, flow in flows.items() for at, side in enumerate("qv")}


def _balance(item: str, s: StoreBalance) -> dict[str, Any]:
    columns = {"in": "incoming", "out": "outgoing"}
    columns |= {name: name for name in ("opening", "transfer_in", "transfer_out", "closing")}
    own = {"run_id": RUN, "brand": _brand(s.store), "item": item, "store": s.store}
    return own | {"pool": f"/{s.pool}", "v_averaging": s.averaging} | _flows(s, **columns)


def _pool(item: str, p: PoolResult) -> dict[str, Any]:
    own = {"run_id": RUN, "brand": "", "item": item, "pool": f"/{p.pool}"}
    beside = {"v_rounding": p.rounding, "v_variance": p.variance, "v_true_up": p.true_up}
    price = {"price_num": 0, "price_den": 0, "pushes": 0, "dipped": p.dipped, "scc_size": 1}
    return own | beside | price | _flows(p, **{name: name for name in FLOWS})


async def _insert(conn: AsyncConnection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        names = list(rows[0])
        places = ", ".join(f":{name}" for name in names)
        statement = f"INSERT INTO books.{table} ({', '.join(names)}) VALUES ({places})"
        await conn.execute(text(statement), rows)


async def _post(conn: AsyncConnection, d: dict[str, Any]) -> None:
    """The document as it would be posted, or a draft that says the same."""
    day = date(2026, 1, 9)
    status = "posted" if d["posted"] else "draft"
    number = await conn.scalar(
        text("""INSERT INTO books.documents (doc_date, posting_date, company, type, doc_no, store,
                       to_store, status, content_hash)
                VALUES (:day, :day, 'X', :kind, :no, :store, :to, :status, '')
                ON CONFLICT (company, type, doc_no) DO UPDATE SET memo = 'x' RETURNING id"""),
        {"day": day, "status": status} | {n: d[n] for n in ("kind", "no", "store", "to")},
    )
    if not d["posted"]:
        await _insert(conn, "document_lines", [
            {"document_id": number, "line_no": 1, "item": d["item"], "net": d["net"]}
        ])  # fmt: skip
        return
    await _insert(conn, "gl_entries", [
        {"id": d["id"], "document_id": number, "entry_no": d["id"], "fence": 1,
         "job_id": "00000000-0000-0000-0000-000000000000", "document_version": d["id"],
         "rule_version": 1, "fiscal_year": 2026, "posting_date": day, "company": "X",
         "series": "NKC", "role": "main", "kind": "normal", "prev_hash": b"", "hash": bytes(32)}
    ])  # fmt: skip
    sides = [(d["store"], -d["net"])] + ([(d["to"], d["net"])] if d["to"] else [])
    await _insert(conn, "gl_lines", [
        {"entry_id": d["id"], "line_no": n, "posting_date": day, "company": "X", "account": "1561",
         "store": store, "item": d["item"], "debit": max(net, 0), "credit": max(-net, 0)}
        for n, (store, net) in enumerate(sides, 1) if net
    ])  # fmt: skip


async def _holds(place: Place, books: Books, by: str) -> None:
    async with place.engine.connect() as conn:
        await books.write(conn)
        binds = SCOPE | {"by": by}
        lines = (await conn.execute(text(f"{WANTED} {LINES}"), binds)).all()
        await conn.rollback()
    ledger = Counter(books.booked)
    roles: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for line in lines:
        documents[line.key] += line.amount
        roles[line.role] += line.amount
        if line.role == "stock":
            ledger[line.item, line.store] += line.amount
    assert not any(documents.values()), "every document adds up to nothing"
    for stock in books.company.stocks:
        for opening in stock.openings if stock.item in books.answers else ():
            ledger[stock.item, opening.store] += opening.value
    closing: Counter[tuple[str, str]] = Counter()
    for item, costs in books.answers.items():
        for store in costs.stores:
            closing[item, store.store] = store.closing.value
    ledger.subtract(closing)
    assert not any(ledger.values()), "I11: the ledger is what is there"
    _totals(books, roles)


def _totals(books: Books, roles: Counter[str]) -> None:
    """The other sides: each kind of movement on its own account, nothing on another's."""
    pools = [pool for costs in books.answers.values() for pool in costs.pools]
    assert roles["rounding"] == sum(pool.rounding for pool in pools)
    assert roles["true_up"] == sum(pool.true_up for pool in pools)
    sold = sum(pool.issue.value - pool.sales_return.value for pool in pools)
    assert roles["cost_of_sales"] == sold
    kinds = {m["id"]: m for m in books.movements}
    lines = [line for costs in books.answers.values() for line in costs.lines]
    made = {Kind.CONSUME: 1, Kind.PRODUCE: -1}
    signs = [(made.get(kinds[line.movement_id]["kind"], 0), line.value) for line in lines]
    assert roles["production"] == sum(sign * value for sign, value in signs)


def _opened(company: Company) -> Company:
    """Some of what was received are goods of the time before the books."""
    return replace(company, stocks=[_with_openings(stock) for stock in company.stocks])


def _with_openings(stock: ItemStock) -> ItemStock:
    chosen = {m.id for m in stock.movements if m.kind == Kind.RECEIPT and m.id % 4 == 0}
    movements = [
        m._replace(kind=Kind.OPENING.value)
        if m.kind == Kind.RECEIPT
        and chosen & {m.id, m.reverses}
        and m.reverses not in stock.references
        else m
        for m in stock.movements
    ]
    kept = {m.id: m.kind for m in movements}
    torn = any(m.reverses in kept and kept[m.reverses] != m.kind for m in movements)
    return stock if torn else replace(stock, movements=in_order(movements))


@pytest.mark.parametrize("name", TASTES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_stores_ledger_is_what_costing_says_it_holds(
    place: Place, name: str, data: st.DataObject
) -> None:
    """Every method, any story: returns, late freight, counts, cover, circles, what is taken back."""
    company = data.draw(companies(TASTES[name]))
    negative = Negative.FORBID if name in STRICT else Negative.PROVISIONAL
    policy = Policy(residue=data.draw(st.sampled_from(ResiduePolicy)), negative=negative)
    company = _opened(company)
    costed = cost_items(company.stocks, company.pool_of, policy)
    answers = {item: a for item, a in costed.items() if isinstance(a, ItemCosts)}
    books = Books(company, answers)
    by = data.draw(st.sampled_from(LAYOUTS))
    place.runner.run(_holds(place, books, by))

"""A storm over the ledger: every kind of job at once, workers killed, and what must hold after it.

The checks are plain SQL of their own: they use no function of the books, and know no handler.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from shared.errors import PlatformError
from shared.jobs.enqueue import Submit, enqueue
from shared.periods import PeriodKey, note_asked, submit_close
from tests.costing_books import FEBRUARY, JANUARY, STORE_BRANDS, Books
from tests.costing_crew import ACTIVE, Crew
from tests.document_books import put
from tests.factories import execute, expire_lease, fetch, scalar
from worker.lease import HeldLease

FIRST = date(2026, 1, 1)
STORES = tuple(STORE_BRANDS)
# What a job may end dead with in a storm: it was refused for what the books were at that moment.
REFUSALS = {
    "ATOMIC_REFUSED",
    "PERIOD_NOT_READY",
    "PERIOD_CLOSED",
    "CLOSE_NOT_ASKED",
}


@dataclass(slots=True, kw_only=True)
class Storm:
    """One company's books, who works on them, and what is thrown at them."""

    books: Books
    crew: Crew
    rng: random.Random
    documents: list[int] = field(default_factory=list)
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    kills: int = 0
    made: int = 0

    async def trade(self, many: int) -> None:
        """So many documents of January with their movements, in order: goods first."""
        for item in "ABC":
            for store in STORES:
                await self._one("purchase", item, store, FIRST, self.rng.randint(500, 900))
        for _ in range(many):
            kind = self.rng.choice(("purchase", "sale", "sale", "transfer"))
            day = FIRST + timedelta(days=self.rng.randrange(20))
            item, store = self.rng.choice("ABC"), self.rng.choice(STORES)
            await self._one(kind, item, store, day, self.rng.randint(1, 15))

    async def _one(self, kind: str, item: str, store: str, day: date, qty: int) -> None:
        self.made += 1
        rng, n = self.rng, self.made
        number = f"{kind[:2].upper()}-{n}"
        net = rng.randint(1, 99_999)
        vat = net // 10 + rng.choice((-1, 0, 1))
        line = {"item": item, "qty": str(qty), "net": str(net), "vat": str(net // 10)}
        document: dict[str, Any] = {
            "type": kind,
            "doc_no": number,
            "doc_date": day.isoformat(),
            "store": store,
            "party": "P1",
            "lines": [line],
        }
        if kind == "transfer":
            document["to_store"] = rng.choice([each for each in STORES if each != store])
            document["lines"] = [{"item": item, "qty": str(qty)}]
            facts = {"to_store": document["to_store"]}
        else:
            document |= {"total": str(net + vat), "vat_total": str(vat)}
            facts = {"value": net} if kind == "purchase" else {}
        moved = {"purchase": "receipt", "sale": "issue", "transfer": "transfer"}[kind]
        (told,) = await put(self.books.app, document)
        assert told.document_id is not None, told
        await self.books.move(moved, qty, item=item, store=store, day=day, doc=number, **facts)
        self.sent[number] = document
        self.documents.append(told.document_id)

    async def edit(self) -> None:
        """Drafts are put again with another note; what is posted refuses it."""
        some = self.rng.sample(list(self.sent.values()), k=min(8, len(self.sent)))
        memo = f"note {self.rng.random()}"
        await put(self.books.app, *({**each, "memo": memo} for each in some))

    async def submit(self, kind: str, brand: str | None = None, **payload: Any) -> None:
        """Submit a job of ACME."""
        job = Submit(kind=kind, company="ACME", brand=brand, payload=payload)
        async with self.books.app.begin() as conn:
            await enqueue(conn, job)

    async def post(self) -> None:
        """Some documents by their ids, or what fits a filter, whatever they are by then."""
        rng = self.rng
        chunk: dict[str, Any] = {"chunk_documents": rng.choice((1, 3, 7, 50))}
        mode = {"mode": rng.choice(("per_document", "per_document", "atomic"))}
        if rng.random() < 0.5:
            some = rng.sample(self.documents, k=min(len(self.documents), rng.randint(1, 25)))
            await self.submit("posting.post", documents=some, **chunk, **mode)
        else:
            brand = rng.choice((None, "RED", "BLUE"))
            since = FIRST + timedelta(days=rng.randrange(10))
            await self.submit("posting.post", brand, date_from=since.isoformat(), **chunk)

    async def unpost(self) -> None:
        """Some documents, with or without the costs that hang on them; or costs alone."""
        rng = self.rng
        costs = await fetch(
            self.books.app, "SELECT document_id FROM books.cost_documents WHERE standing"
        )
        some = rng.sample(self.documents, k=min(len(self.documents), rng.randint(1, 12)))
        if rng.random() < 0.5:
            some += [row.document_id for row in costs]
        payload: dict[str, Any] = {
            "documents": some,
            "reason": "storm",
            "dependants": rng.choice(("reverse", "refuse")),
            "chunk_documents": rng.choice((2, 5, 50)),
        }
        if rng.random() < 0.3:
            payload["reversal_date"] = rng.choice(("2026-01-31", "2026-02-10"))
        elif costs and rng.random() < 0.3:
            payload["documents"] = [row.document_id for row in costs]
            payload["reversal_date"] = "2026-02-10"
        await self.submit("posting.unpost", **payload)

    async def cost(self) -> None:
        """The month is costed (again)."""
        await self.submit("costing.run", period=JANUARY)

    async def post_costs(self) -> None:
        """Costs are posted, by any layout."""
        by = self.rng.choice(("day_store", "item_group", "slip"))
        period = self.rng.choice((JANUARY, JANUARY, FEBRUARY))
        await self.submit(
            "posting.costs", period=period, by=by, chunk_lines=self.rng.choice((1, 5, 1000))
        )

    async def close(self) -> None:
        """A close is asked for; mostly it finds drafts, and is refused."""
        key = PeriodKey(company="ACME", period=JANUARY)
        async with self.books.app.begin() as conn:
            accepted = await submit_close(conn, key, principal="clerk")
            if accepted.created:
                await note_asked(conn, key, accepted, reason="month end", approval=None)

    async def reopen(self) -> None:
        """As an operator would, if it is closed."""
        await execute(
            self.books.app,
            """UPDATE books.periods SET status = 'open', version = version + 1
                WHERE company = 'ACME' AND period = :period AND status = 'closed'""",
            period=JANUARY,
        )

    async def blow(self, rounds: int, workers: int) -> None:
        """Throw jobs at the books while so many workers run them, and die of it."""
        acts: list[Callable[[], Awaitable[None]]] = [
            self.post,
            self.post,
            self.unpost,
            self.edit,
            self.cost,
            self.post_costs,
            self.close,
            self.reopen,
        ]
        over = asyncio.Event()
        crews = [asyncio.create_task(self._worker(f"s{n}", over)) for n in range(workers)]
        for _ in range(rounds):
            act = self.rng.choice(acts)
            with suppress(PlatformError, DBAPIError):
                await act()
            await asyncio.sleep(self.rng.random() * 0.2)
        over.set()
        await asyncio.gather(*crews)

    async def _worker(self, name: str, over: asyncio.Event) -> None:
        while not over.is_set():
            held = await self._claimed(name)
            if held is None:
                await execute(self.books.app, DUE_NOW)
                await asyncio.sleep(0.05)
                continue
            task = asyncio.create_task(self.crew.run(held))
            # A second lost lease makes a job run alone, on a worker of its own.
            if held.lease.fence == 1 and self.rng.random() < 0.5:
                await self._perhaps_die(task, held)
            await asyncio.gather(task, return_exceptions=True)

    async def _claimed(self, name: str) -> HeldLease | None:
        for row in await fetch(self.books.app, ACTIVE):
            held = await self.crew.claim(row.id, name)
            if held is not None:
                return held
        return None

    async def _perhaps_die(self, task: "asyncio.Task[Any]", held: HeldLease) -> None:
        """The worker is gone at any moment, and its lease runs out."""
        done, _ = await asyncio.wait({task}, timeout=self.rng.random() * 0.5)
        if done:
            return
        self.kills += 1
        handling = f"job {held.job.id}"
        inner = [each for each in asyncio.all_tasks() if each.get_name() == handling]
        for each in (task, *inner):
            each.cancel()
        await asyncio.gather(task, *inner, return_exceptions=True)
        await expire_lease(self.books.app, held.job.id)

    async def calm(self) -> None:
        """The wind has gone: what is there is worked off, and the month is brought to its end."""
        await self.reopen()
        await self.crew.work(4)
        await self.reopen()
        await self.edit()
        await execute(self.books.app, REDATE)
        await self.submit("posting.post", types=["purchase", "sale", "transfer"])
        await self.cost()
        await self.crew.work(2)
        await self.submit("posting.costs", period=JANUARY, by="day_store")
        await self.submit("costing.run", period=FEBRUARY)
        await self.crew.work(1)
        await self.submit("posting.costs", period=FEBRUARY, by="day_store")
        await self.crew.work(1)


# What stands until a later day is posted again on that day, as its clerk would be told to date it.
REDATE = """
    UPDATE books.documents d SET posting_date = r.day, version = d.version + 1
      FROM (SELECT document_id, max(posting_date) AS day FROM books.gl_entries
             WHERE kind = 'reversal' GROUP BY document_id) r
     WHERE r.document_id = d.id AND d.status = 'draft' AND d.posting_date < r.day"""
DUE_NOW = "UPDATE chot.jobs SET available_at = clock_timestamp() WHERE state = 'pending'"
UNBALANCED = """
    SELECT e.id FROM books.gl_entries e LEFT JOIN books.gl_lines l ON l.entry_id = e.id
     GROUP BY e.id HAVING count(l.*) < 2 OR sum(l.debit) <> sum(l.credit)
        OR bool_or(l.posting_date <> e.posting_date OR l.company <> e.company)"""
ORPHANS = """
    SELECT l.entry_id FROM books.gl_lines l
     WHERE NOT EXISTS (SELECT FROM books.gl_entries e WHERE e.id = l.entry_id)"""
NUMBERS = """
    SELECT e.series, e.fiscal_year FROM books.gl_entries e
      JOIN books.gl_series s USING (company, series, fiscal_year)
     GROUP BY e.company, e.series, e.fiscal_year, s.last_no
    HAVING count(*) <> max(e.entry_no) OR min(e.entry_no) <> 1
        OR count(DISTINCT e.entry_no) <> count(*) OR s.last_no <> count(*)"""
# Documents with amounts: posted is once more in the ledger than taken back, as its version says.
HALF_POSTED = """
    SELECT d.id, d.status, d.version FROM books.documents d
      LEFT JOIN books.gl_entries e ON e.document_id = d.id AND e.kind = 'normal'
      LEFT JOIN books.gl_entries r ON r.reverses_entry_id = e.id
     WHERE d.type <> 'transfer'
     GROUP BY d.id, d.status, d.version
    HAVING count(e.id) - count(r.id) <> CASE d.status WHEN 'posted' THEN 1 ELSE 0 END
        OR d.status = 'posted'
           AND max(e.document_version) FILTER (WHERE r.id IS NULL) <> d.version"""
# On every day a document stands once, or not at all.
TWICE = """
    SELECT s.document_id, s.posting_date, s.stands FROM (
        SELECT e.document_id, e.posting_date,
               sum(sum(CASE e.kind WHEN 'normal' THEN 1 ELSE -1 END))
                   OVER (PARTITION BY e.document_id ORDER BY e.posting_date) AS stands
          FROM books.gl_entries e GROUP BY e.document_id, e.posting_date) s
     WHERE s.stands NOT IN (0, 1)"""
MIRRORS = """
    SELECT r.id FROM books.gl_entries r JOIN books.gl_entries e ON e.id = r.reverses_entry_id
      LEFT JOIN LATERAL (
           SELECT count(*) AS n FROM books.gl_lines a FULL JOIN books.gl_lines b
               ON b.entry_id = r.id AND b.line_no = a.line_no AND b.debit = a.credit
              AND b.credit = a.debit AND b.account = a.account AND b.store IS NOT DISTINCT FROM a.store
              AND b.item IS NOT DISTINCT FROM a.item AND b.party IS NOT DISTINCT FROM a.party
            WHERE (a.entry_id = e.id OR a.entry_id IS NULL AND b.entry_id = r.id)
              AND (a.entry_id IS NULL OR b.entry_id IS NULL)) x ON true
     WHERE x.n > 0 OR e.document_id <> r.document_id OR r.posting_date < e.posting_date"""
AMOUNTS = """
    SELECT d.id FROM books.documents d
      JOIN books.gl_entries e ON e.document_id = d.id AND e.kind = 'normal'
      JOIN books.gl_lines l ON l.entry_id = e.id
     WHERE d.type IN ('sale', 'purchase') GROUP BY d.id, e.id, d.total, d.type
    HAVING sum(l.debit) <> d.total OR sum(l.debit - l.credit) FILTER (
           WHERE l.account IN ('131', '331')) <> CASE d.type WHEN 'sale' THEN 1 ELSE -1 END * d.total"""
# Until the end of a period: the ledger of stock is what costing says of every store and item.
STOCK = """
    SELECT coalesce(b.store, g.store) AS store, coalesce(b.item, g.item) AS item,
           b.v_closing, g.balance
      FROM (SELECT b.store, b.item, b.v_closing FROM books.active_results a
              JOIN books.store_balances b
                ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
             WHERE a.period = :period) b
      FULL JOIN (SELECT l.store, l.item, sum(l.debit - l.credit) AS balance FROM books.gl_lines l
                  WHERE l.account = '1561' AND l.posting_date <= CAST(CAST(:day AS text) AS date)
                  GROUP BY l.store, l.item) g ON g.store = b.store AND g.item = b.item
     WHERE coalesce(b.v_closing, 0) <> coalesce(g.balance, 0)"""
SOLD = """
    SELECT (SELECT coalesce(sum(l.debit - l.credit), 0) FROM books.gl_lines l
             WHERE l.account = '632' AND l.posting_date <= '2026-01-31') -
           (SELECT coalesce(sum(c.value), 0) FROM books.active_movement_costs c
              JOIN books.stock_movements m ON m.id = c.movement_id
             WHERE c.period = '2026-01' AND m.kind = 'issue')"""
CHAIN = """
    SELECT e.company, e.series, e.fiscal_year, e.entry_no, e.prev_hash, e.hash, e.id
      FROM books.gl_entries e ORDER BY 1, 2, 3, 4"""
STAGED = """
    SELECT (SELECT count(*) FROM books.cost_work) + (SELECT count(*) FROM books.cost_work_lines)
         + (SELECT count(*) FROM books.posting_lines)"""
ENDED = """
    SELECT j.id, j.kind, j.state, o.error FROM chot.jobs j
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id WHERE j.state NOT IN ('succeeded')"""


# What holds at every moment, whatever is half done.
ALWAYS = {
    "unbalanced": UNBALANCED,
    "orphans": ORPHANS,
    "numbers": NUMBERS,
    "half posted": HALF_POSTED,
    "twice": TWICE,
    "mirrors": MIRRORS,
    "amounts": AMOUNTS,
}


async def broken(books: Books) -> dict[str, list[Any]]:
    """Everything that does not hold in these books, by what it is."""
    found: dict[str, list[Any]] = {}
    for name, query in ALWAYS.items():
        if rows := await fetch(books.app, query):
            found[name] = rows
    before: dict[tuple[Any, ...], bytes] = {}
    for row in await fetch(books.app, CHAIN):
        series = (row.company, row.series, row.fiscal_year)
        if row.prev_hash != before.get(series, b""):
            found.setdefault("chain", []).append(row)
        before[series] = row.hash
    for name, period, day in (
        ("January", JANUARY, "2026-01-31"),
        ("February", FEBRUARY, "2026-02-28"),
    ):
        if rows := await fetch(books.app, STOCK, period=period, day=day):
            found[name] = rows
    if off := await scalar(books.app, SOLD):
        found["sold"] = [off]
    if staged := await scalar(books.app, STAGED):
        found["staged"] = [staged]
    jobs = await fetch(books.app, ENDED)
    if strange := [row for row in jobs if (row.error or {}).get("code") not in REFUSALS]:
        found["jobs"] = strange
    return found

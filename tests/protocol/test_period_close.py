"""Closing a period: what it asks for, and what becomes of it when something comes between."""

from collections.abc import Awaitable, Callable
from datetime import date

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.approvals import Approval
from shared.errors import LeaseLost, PermanentError
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from shared.jobs.redrive import Redriven, redrive_job
from shared.types import JobId
from tests.costing_books import FEBRUARY, STORE_BRANDS, Books, open_books
from tests.factories import execute, expire_lease, fetch, scalar
from tests.period_books import (
    Killed,
    after,
    ask,
    attempt,
    claimed,
    clean_up,
    close,
    events,
    over,
    refused,
    status,
)
from worker.handlers import periods
from worker.handlers.periods import close_period
from worker.records.period_checks import MOST_DETAIL_BYTES, finding, fitted

FEBRUARY_DAY = date(2026, 2, 3)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items, two open periods, and goods of items A and B in January."""
    assert company == "ACME"
    opened = await open_books(engine, read_engine)
    for item in "AB":
        await opened.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
        await opened.move("issue", 5, item=item)
    return opened


async def test_a_costed_period_is_closed_and_takes_nothing_any_more(books: Books) -> None:
    """Its result says with what; neither a movement nor a cost run enters it."""
    run = await books.cost(brand=None)
    result = await close(books)
    assert result["outcome"] == "closed"
    assert (result["results"], result["runs"]) == (2, [run["run_id"]])
    assert result["ledger"] == "not checked: the company has no chart of accounts"
    assert await events(books) == ["close_asked", "closing", "closed"]
    told = "SELECT progress_done, progress_total FROM chot.jobs WHERE kind = 'period.close'"
    assert await fetch(books.app, told) == [(2, 2)]
    with pytest.raises(DBAPIError, match="PERIOD_CLOSED"):
        await books.move("receipt", 1, value=5)
    with pytest.raises(PermanentError) as error:
        await books.cost()
    assert error.value.code == "PERIOD_CLOSED"


async def test_a_period_without_movements_is_closed(
    engine: AsyncEngine, read_engine: AsyncEngine, company: str
) -> None:
    """There is nothing to be costed in it."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    assert (await close(books))["results"] == 0


async def test_each_event_names_who_asked_and_who_approved(books: Books) -> None:
    """The job's own events, too: whoever looks at the period sees both names."""
    await books.cost(brand=None)
    given = await scalar(
        books.app,
        """INSERT INTO chot.approvals (action, target, approver, expires_at)
           VALUES ('period.close', 'ACME/2026-01', 'chief', clock_timestamp()) RETURNING id""",
    )
    job_id = await ask(books.app, approval=Approval(id=given, approver="chief"))
    await attempt(books, job_id)
    rows = await fetch(
        books.app,
        "SELECT requester, approver, approval_id, job_id, reason FROM books.period_events",
    )
    assert {tuple(row) for row in rows} == {("sql:chot_app", "chief", given, job_id, "month end")}


async def _uncosted(books: Books) -> None:
    await books.cost()
    await books.move("opening", 5, item="C", store="B1", value=9)


async def _failed(books: Books) -> None:
    await books.move("issue", 50, item="B")
    await books.cost(brand=None)


async def _late(books: Books) -> None:
    await books.cost(brand=None)
    await books.move("receipt", 5, item="B", value=9)


async def _stale(books: Books) -> None:
    await books.cost(brand=None)
    await execute(books.app, "UPDATE books.active_results SET stale = true WHERE item = 'A'")


async def _active(books: Books) -> None:
    await books.cost(brand=None)
    await execute(
        books.app,
        """UPDATE chot.kinds SET locks = '[{"root": "books/{company}", "part": "{brand}",
                  "mode": "exclusive", "period_from": "{payload.period}",
                  "period_to": "{payload.period}"}]' WHERE name = 'costing.run'""",
    )
    await books.submit()


async def _method(books: Books) -> None:
    await books.cost(brand=None)
    decide = """SELECT books.decide_costing_method('ACME', 'A', '2026-01-01', 'fifo', false, 'lots',
                                                   'chief')"""
    await execute(books.app, decide)


async def _pools(books: Books) -> None:
    await books.cost(brand=None)
    insert = "INSERT INTO books.cost_pool_map VALUES ('ACME', 'R2', '2026-01-01', 'outlet')"
    await execute(books.app, insert)


@pytest.mark.parametrize(
    ("prepare", "code", "first"),
    [
        (_uncosted, "NOT_COSTED", ["BLUE/C"]),
        (_failed, "FAILED", ["RED/B"]),
        (_late, "LATE_MOVEMENTS", ["RED/B"]),
        (_stale, "STALE", ["RED/A"]),
        (_active, "ACTIVE_JOBS", None),
        (_method, "METHOD_CHANGED", ["RED/A"]),
        (_pools, "POOLS_CHANGED", ["R2"]),
    ],
)
async def test_a_period_that_is_not_ready_stays_open_and_says_why(
    books: Books,
    prepare: Callable[[Books], Awaitable[None]],
    code: str,
    first: list[str] | None,
) -> None:
    """It was never `closing`: nobody was kept from writing by a close that was bound to fail."""
    await prepare(books)
    found = await refused(books)
    assert list(found) == [code]
    assert found[code]["count"] == 1
    assert first is None or found[code]["first"] == first
    assert await status(books) == "open"
    assert await scalar(books.app, "SELECT max(version) FROM books.periods") == 1
    assert await events(books) == ["close_asked", "refused"]
    (row,) = await fetch(books.app, "SELECT facts FROM books.period_events WHERE event = 'refused'")
    assert row.facts["findings"] == list(found.values())
    await books.move("receipt", 1, value=5)


async def test_an_active_job_is_named_and_another_period_or_company_is_not(books: Books) -> None:
    """A job of February does not keep January from being closed; one of January is named."""
    await _active(books)
    (job,) = await fetch(books.app, "SELECT id FROM chot.jobs WHERE state = 'pending'")
    found = await refused(books)
    assert found["ACTIVE_JOBS"]["first"] == [f"costing.run {job.id} (pending)"]
    await execute(books.app, "UPDATE chot.job_locks SET period_from = '2026-02', period_to = '~'")
    assert (await close(books))["outcome"] == "closed"


async def test_earlier_periods_are_closed_first(books: Books) -> None:
    """And an opening that nobody carried on is no result of February."""
    await books.cost(brand=None)
    found = await refused(books, FEBRUARY)
    assert list(found) == ["EARLIER_PERIOD_OPEN", "NOT_COSTED"]
    assert found["EARLIER_PERIOD_OPEN"]["first"] == ["2026-01"]
    assert found["NOT_COSTED"]["first"] == ["RED/A", "RED/B"]
    await close(books)
    await books.cost(FEBRUARY, brand=None)
    assert (await close(books, FEBRUARY))["results"] == 2


async def test_goods_that_arrive_from_another_brand_are_looked_at_on_both_sides(
    books: Books,
) -> None:
    """A brand that only receives has results, too."""
    await books.move("transfer", 1, to_store="B1")
    await books.cost()
    assert (await refused(books))["NOT_COSTED"]["first"] == ["BLUE/A"]


@pytest.mark.parametrize("pool", ["brand", "store", "company"])
async def test_what_is_carried_on_is_what_was_left_by_every_kind_of_pool(
    books: Books, pool: str
) -> None:
    """Two costed periods close, goods that crossed the brands included; a tampered opening does not."""
    if pool != "brand":
        await books.move("transfer", 1, to_store="B1")
    for store in (
        STORE_BRANDS if pool != "brand" else ()
    ):  # a run's own pools are the map's, or found
        shared = pool == "company"
        await books.pooled(store, "*" if shared else store, shared=shared)
    await books.cost(brand=None, pool=pool)
    await books.move("issue", 1, day=FEBRUARY_DAY)
    await books.cost(FEBRUARY, brand=None, pool=pool)
    await close(books)
    tamper = """UPDATE books.active_results SET opening_digest = sha256('x')
                 WHERE period = '2026-02' AND item = 'A' AND brand = 'RED'"""
    kept = "SELECT opening_digest FROM books.active_results WHERE period = '2026-02' AND item = 'A'"
    (was, *_) = await fetch(books.app, f"{kept} AND brand = 'RED'")
    await execute(books.app, tamper)
    assert (await refused(books, FEBRUARY))["STALE"]["first"] == ["RED/A"]
    back = (
        "UPDATE books.active_results SET opening_digest = :was WHERE brand = 'RED' AND item = 'A'"
    )
    await execute(books.app, f"{back} AND period = '2026-02'", was=was.opening_digest)
    assert (await close(books, FEBRUARY))["outcome"] == "closed"


async def test_a_movement_between_the_look_and_the_gate_refuses_the_close(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The period was `closing`, and is open again; the movement stays."""
    await books.cost(brand=None)

    async def arrive() -> None:
        await books.move("receipt", 1, value=5)

    monkeypatch.setattr(periods, "_look", after(periods._look, arrive))
    assert list(await refused(books)) == ["LATE_MOVEMENTS"]
    assert await events(books) == ["close_asked", "closing", "refused"]
    assert await status(books) == "open"
    await books.move("receipt", 1, value=5)


async def test_a_period_that_is_unknown_or_closed_already_is_refused_for_good(
    books: Books,
) -> None:
    """Without an event: nothing became of it."""
    await books.cost(brand=None)
    async with books.app.begin() as conn:
        submit = Submit(kind="period.close", company="ACME", payload={"period": "2031-12"})
        unknown = (await enqueue(conn, submit)).job_id
    job_id = await ask(books.app)
    await execute(books.app, "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'")
    for each, code in ((unknown, "PERIOD_UNKNOWN"), (job_id, "PERIOD_CLOSED")):
        with pytest.raises(PermanentError) as error:
            await attempt(books, each)
        assert error.value.code == code
    assert await events(books) == ["close_asked"]


async def test_a_close_that_nobody_asked_for_closes_nothing(books: Books) -> None:
    """chot.enqueue() alone is no word of an operator, let alone of two."""
    await books.cost(brand=None)
    async with books.app.begin() as conn:
        submit = Submit(kind="period.close", company="ACME", payload={"period": "2026-01"})
        job_id = (await enqueue(conn, submit)).job_id
    with pytest.raises(PermanentError) as error:
        await attempt(books, job_id)
    assert error.value.code == "CLOSE_NOT_ASKED"
    assert await status(books) == "open"


async def test_a_refused_close_is_not_closed_by_a_redrive(books: Books) -> None:
    """What kept it is put right, but whoever approved has approved one close: it says so again."""
    await _uncosted(books)
    job_id = await ask(books.app)
    with pytest.raises(PermanentError):
        await attempt(books, job_id)
    dead = """UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp(),
                     lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
               WHERE id = :job_id AND state = 'running'"""
    await execute(books.app, dead, job_id=job_id)
    await books.cost(brand=None)
    async with books.app.begin() as conn:
        assert await redrive_job(conn, job_id) == Redriven()
    with pytest.raises(PermanentError) as error:
        await attempt(books, job_id)
    assert error.value.code == "PERIOD_NOT_READY"
    assert await status(books) == "open"
    await over(books, job_id)
    assert (await close(books))["outcome"] == "closed"


async def _killed_at(books: Books, monkeypatch: pytest.MonkeyPatch, step: str) -> JobId:
    """A close whose worker was killed right after this step of its handler, its lease run out."""

    async def die() -> None:
        raise Killed

    job_id = await ask(books.app)
    with monkeypatch.context() as patch:
        patch.setattr(periods, step, after(getattr(periods, step), die))
        with pytest.raises(Killed):
            await attempt(books, job_id)
    await expire_lease(books.app, job_id)
    return job_id


STEPS = ("_standing", "_look", "_begin", "hold_gate", "find_unready", "end_closing")


@pytest.mark.parametrize("step", STEPS)
async def test_whoever_takes_over_finishes_the_close(
    books: Books, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed after each step; the second attempt closes, and the period is closed once."""
    await books.cost(brand=None)
    job_id = await _killed_at(books, monkeypatch, step)
    assert await status(books) == ("open" if step in {"_standing", "_look"} else "closing") or (
        step == "find_unready"  # called twice; it died the first time, in the look
    )
    await attempt(books, job_id)
    assert await status(books) == "closed"
    assert await events(books) == ["close_asked", "closing", "closed"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_close_that_ends_without_closing_is_undone(
    books: Books, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed after each step, then cancelled: cleaned up, the period is open, and takes writers."""
    await books.cost(brand=None)
    job_id = await _killed_at(books, monkeypatch, step)
    was = await status(books)
    await over(books, job_id)
    assert await status(books) == "open"
    assert (
        await events(books)
        == {
            "open": ["close_asked"],
            "closing": ["close_asked", "closing", "interrupted"],
        }[was]
    )
    await books.move("receipt", 1, value=5)
    await books.cost(brand=None)
    assert (await close(books))["outcome"] == "closed"


async def test_a_refusal_whose_worker_was_killed_is_told_by_the_next_one(books: Books) -> None:
    """It is not looked at again: the period is open for others meanwhile."""
    await _stale(books)
    job_id = await ask(books.app)
    with pytest.raises(PermanentError) as first:
        await attempt(books, job_id)  # and its worker dies before the job's end is written
    await expire_lease(books.app, job_id)
    await execute(books.app, "UPDATE books.active_results SET stale = false")
    with pytest.raises(PermanentError) as second:
        await attempt(books, job_id)
    assert first.value.details == second.value.details
    assert await events(books) == ["close_asked", "refused"]


async def test_another_close_takes_over_what_a_dead_one_has_left(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead one's cleanup, however late, opens nothing: neither while it closes nor after."""
    await books.cost(brand=None)
    first = await _killed_at(books, monkeypatch, "_begin")
    async with books.app.begin() as conn:
        assert await cancel_job(conn, first)
    second = await ask(books.app)

    async def clean_up_first() -> None:
        assert await clean_up(books)

    monkeypatch.setattr(periods, "_begin", after(periods._begin, clean_up_first))
    await attempt(books, second)
    assert await status(books) == "closed"
    assert await events(books) == [
        *("close_asked", "closing"),
        *("close_asked", "closing", "closed"),
    ]


async def test_a_zombie_closes_nothing_and_undoes_nothing(books: Books) -> None:
    """Its lease is another's before each of its commits."""
    await books.cost(brand=None)
    job_id = await ask(books.app)
    zombie, payload = await claimed(books, job_id)
    await expire_lease(books.app, job_id)
    owner, _ = await claimed(books, job_id)
    with pytest.raises(LeaseLost):
        await close_period(zombie, payload)
    assert (await status(books), await events(books)) == ("open", ["close_asked"])
    await close_period(owner, payload)
    assert await status(books) == "closed"


async def test_a_period_that_somebody_opens_under_a_close_is_not_closed(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, say: whatever it took in meanwhile would be in no result."""
    await books.cost(brand=None)

    async def open_by_hand() -> None:
        await execute(books.app, "UPDATE books.periods SET status = 'open'")

    monkeypatch.setattr(periods, "_begin", after(periods._begin, open_by_hand))
    job_id = await ask(books.app)
    with pytest.raises(PermanentError) as error:
        await attempt(books, job_id)
    assert error.value.code == "CLOSE_UNDONE"
    assert await status(books) == "open"


def test_findings_with_long_names_still_fit_an_errors_details() -> None:
    """Fewer names, never fewer findings; short ones are all there."""
    codes = ("NOT_COSTED", "LATE_MOVEMENTS", "FAILED", "STALE")
    long = [finding(code, 99, ["\u1ee9" * 40 + "/" + "\u1ee9" * 40] * 5) for code in codes]
    cut = fitted(long)
    assert [each["count"] for each in cut] == [99] * 4
    assert len(str(cut).encode()) <= MOST_DETAIL_BYTES
    short = [finding("FAILED", 9, ["RED/A"] * 5)]
    assert fitted(short) == short


async def test_no_role_changes_or_removes_an_event(books: Books, owner_engine: AsyncEngine) -> None:
    """Append-only, as the audit is."""
    await ask(books.app)
    for change in (
        "UPDATE books.period_events SET requester = 'x'",
        "DELETE FROM books.period_events",
    ):
        for engine, said in ((books.app, "permission denied"), (owner_engine, "append-only")):
            with pytest.raises(DBAPIError, match=said):
                await execute(engine, change)


async def test_neither_a_brand_nor_a_job_of_another_company_matters(
    books: Books, owner_engine: AsyncEngine
) -> None:
    """Another company's open periods, movements and results are its own."""
    for statement in (
        "INSERT INTO books.companies (code, name) VALUES ('OTHER', 'Other')",
        "INSERT INTO books.brands VALUES ('OTHER', 'RED', 'Red')",
        "INSERT INTO books.stores VALUES ('OTHER', 'R1', 'RED', 'R1')",
        "INSERT INTO books.items (company, code, name, base_uom) VALUES ('OTHER', 'A', 'A', 'x')",
        """INSERT INTO books.periods (company, period, starts_on, ends_on)
           VALUES ('OTHER', '2025-12', '2025-12-01', '2025-12-31'),
                  ('OTHER', '2026-01', '2026-01-01', '2026-01-31')""",
        """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
                  posting_date, qty_base, value)
           VALUES ('OTHER', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5)""",
    ):
        await execute(owner_engine, statement)
    await books.cost(brand=None)
    assert (await close(books))["outcome"] == "closed"

"""Which items a run is about, and what a second submit makes of one that waits or runs."""

from datetime import date

import pytest
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PermanentError, Yield
from shared.jobs.enqueue import Accepted, Submit, enqueue
from shared.kinds.costing import COSTING_RUN, CostingRunPayload
from shared.types import JobId
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import expire_lease, fetch, scalar
from worker.context import JobContext
from worker.handlers import costing
from worker.handlers.costing import run_costing
from worker.records.cost_runs import CostRun

FEBRUARY_DAY = date(2026, 2, 3)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def _stock(books: Books, items: str = "ABC") -> None:
    for item in items:
        await books.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
        await books.move("issue", 5, item=item)


async def _listed(books: Books, result: dict[str, object]) -> str:
    query = "SELECT item FROM books.cost_run_items WHERE run_id = :run ORDER BY item"
    return "".join(row.item for row in await fetch(books.app, query, run=result["run_id"]))


async def _speaking(books: Books, period: str = JANUARY) -> dict[str, int]:
    query = "SELECT item, run_id FROM books.active_results WHERE period = :period"
    return {row.item: row.run_id for row in await fetch(books.app, query, period=period)}


async def test_a_run_of_some_items_hides_none_of_the_others(books: Books) -> None:
    await _stock(books)
    first = (await books.cost())["run_id"]
    costs = await books.costs()
    await books.move("receipt", 5, item="B", value=500)
    second = (await books.cost(items=["B"]))["run_id"]
    assert await _speaking(books) == {"A": first, "B": second, "C": first}
    assert costs.items() <= (await books.costs()).items()
    assert await books.closing(item="B") == [("R1", 10, 1000)]
    third = (await books.cost(items=["B", "A"]))["run_id"]
    assert await _speaking(books) == {"A": third, "B": third, "C": first}
    dropped = "SELECT to_regclass('books.movement_costs_r' || CAST(:run AS bigint))"
    await books.cost(items=["A"])
    assert await scalar(books.app, dropped, run=second) is None
    assert await scalar(books.app, dropped, run=first) is not None
    assert len(await books.costs()) == 7


async def test_selectors_choose_what_failed_and_what_is_dirty(books: Books) -> None:
    await _stock(books)
    bad = await books.move("issue", 50, item="B")
    first = await books.cost()
    assert await _listed(books, await books.cost(items=["@failed"])) == "B"
    await books.move("issue", 50, item="B", reverses=bad)
    await books.move("issue", 1, item="C")
    assert await _listed(books, await books.cost(items=["@dirty"])) == "BC"
    assert (await books.cost(items=["@dirty"]))["outcome"] == "nothing_to_do"
    found = await books.cost(items=[f"@errors:{first['run_id']}", "A"])
    assert await _listed(books, found) == "AB"
    nothing = await books.cost(items=["@failed"])
    assert nothing["warnings"] == [{"code": "SCOPE_EMPTY"}]
    assert nothing["run_id"] is None


async def test_dirty_is_also_what_a_costed_period_has_never_heard_of(books: Books) -> None:
    await _stock(books, "A")
    await books.cost()
    await books.cost(FEBRUARY)
    await books.move("opening", 3, item="D", value=30)
    await books.cost(items=["D"])
    assert await _listed(books, await books.cost(FEBRUARY, items=["@dirty"])) == "D"
    assert await books.closing(FEBRUARY, "D") == [("R1", 3, 30)]


async def test_another_method_makes_an_item_dirty(books: Books) -> None:
    await _stock(books)
    await books.cost()
    await books.costed_by("moving_avg", item="B")
    assert await _listed(books, await books.cost(items=["@dirty"])) == "B"


@pytest.mark.parametrize(
    ("items", "code"), [(["A", "Z"], "ITEM_UNKNOWN"), (["@errors:4711"], "RUN_UNKNOWN")]
)
async def test_a_scope_that_names_what_is_not_there_is_refused(
    books: Books, items: list[str], code: str
) -> None:
    await _stock(books, "A")
    with pytest.raises(PermanentError) as refused:
        await books.cost(items=items)
    assert refused.value.code == code
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 0


@pytest.mark.parametrize("items", [[], ["@everything"], [""], ["@errors:x"], ["x" * 41]])
def test_a_scope_that_makes_no_sense_is_refused_at_submit(items: list[str]) -> None:
    with pytest.raises(ValidationError):
        CostingRunPayload(period=JANUARY, items=items)


async def _submit(books: Books, **payload: object) -> Accepted:
    body = {"period": JANUARY} | payload
    job = Submit(kind=COSTING_RUN.name, company="ACME", brand="RED", payload=body)
    async with books.app.begin() as conn:
        return await enqueue(conn, job)


async def _payload(books: Books, job: JobId) -> dict[str, object]:
    query = "SELECT payload FROM chot.job_payloads WHERE job_id = :job"
    found = await scalar(books.app, query, job=job)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("asked", "merged"),
    [
        ([["A"], ["C", "B"]], ["A", "B", "C"]),
        ([["A"], None], None),
        ([None, ["A"]], None),
        ([["A"], None, ["B"]], None),
        ([["@failed"], ["@dirty"], ["@failed"]], ["@dirty", "@failed"]),
    ],
)
async def test_asking_again_widens_the_run_that_waits(
    books: Books, asked: list[list[str] | None], merged: list[str] | None
) -> None:
    """No list of items can narrow "all", and "all" absorbs every list."""
    await _stock(books)
    answers = [await _submit(books, items=each) for each in asked]
    assert {each.job_id for each in answers} == {answers[0].job_id}
    assert [each.duplicate for each in answers[1:]] == ["merged"] * (len(asked) - 1)
    assert (await _payload(books, answers[0].job_id)).get("items") == merged


async def test_lists_that_together_are_too_long_mean_all(books: Books) -> None:
    """Each alone is no more than a payload may be; who asks second is not refused for the first."""
    await _stock(books)
    halves = [[f"{n:040}" for n in range(first, first + 4000)] for first in (0, 4000)]
    first, second = [await _submit(books, items=half) for half in halves]
    assert (second.job_id, second.duplicate) == (first.job_id, "merged")
    assert await _payload(books, first.job_id) == {"period": JANUARY}


async def test_fifty_identical_submits_are_one_run(books: Books) -> None:
    await _stock(books)
    answers = [await _submit(books) for _ in range(50)]
    assert len({each.job_id for each in answers}) == 1
    await books.attempt(answers[0].job_id)
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 1


async def test_asking_while_it_runs_leaves_one_follow_up_that_is_as_wide_as_what_was_asked(
    books: Books,
) -> None:
    await _stock(books)
    first = await _submit(books)
    context, payload = await books.claimed(first.job_id)
    answers = [await _submit(books, items=items) for items in (["A"], ["B"], ["A"])]
    assert [each.duplicate for each in answers] == ["follow_up"] * 3
    await run_costing(context, payload)
    await context.close()
    (follower,) = await fetch(books.app, "SELECT id FROM chot.jobs WHERE state = 'pending'")
    assert (await _payload(books, follower.id))["items"] == ["A", "B"]
    await books.attempt(follower.id)
    assert await _listed(books, await books.result(follower.id)) == "AB"


async def test_a_follow_up_of_all_absorbs_the_lists_before_and_after_it(books: Books) -> None:
    await _stock(books)
    first = await _submit(books, items=["A"])
    await books.claimed(first.job_id)
    for items in (["A"], None, ["B"]):
        await _submit(books, items=items)
    query = "SELECT followup_payload FROM chot.jobs WHERE id = :job"
    assert await scalar(books.app, query, job=first.job_id) == {"period": JANUARY}


async def test_two_runs_of_one_period_take_turns_and_those_of_two_periods_do_not(
    books: Books,
) -> None:
    await _stock(books)
    company = await books.submit(brand=None)
    red, blue = await books.submit(brand="RED"), await books.submit(brand="BLUE")
    february = await books.submit(FEBRUARY, brand=None)
    context, payload = await books.claimed(company)
    await books.claimed(february)
    for brand in (red, blue):
        with pytest.raises(ValueError, match="not enough values"):
            await books.claimed(brand)
    await run_costing(context, payload)
    await books.claimed(red)
    await books.claimed(blue)


async def test_a_new_document_ties_items_while_they_are_costed(books: Books) -> None:
    """The family of a changed item is redone whole, with what it is made of only now."""
    await _stock(books, "AC")
    for item in "AC":
        await books.costed_by("moving_avg", item=item)
    job = await books.submit(chunk_movements=1)
    context, payload = await books.claimed(job, draining=True)
    with pytest.raises(Yield):
        await run_costing(context, payload)
    await context.close()
    await books.move("consume", 2, item="A", doc="P1", day=date(2026, 1, 9))
    made = await books.move("produce", 1, item="C", doc="P1", day=date(2026, 1, 9))
    await expire_lease(books.app, job)
    await books.attempt(job)
    assert (await books.result(job))["recompute_rounds"] == 1
    assert (await books.costs())[made] == 200


async def test_what_is_made_of_a_changed_item_is_redone_with_it(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.move("opening", 10, value=1000, day=date(2026, 1, 1))
    await books.move("consume", 2, doc="P1")
    made = await books.move("produce", 1, item="C", doc="P1")
    settle = costing._settle

    async def arrives_first(context: JobContext, run: CostRun) -> object:
        monkeypatch.setattr(costing, "_settle", settle)
        await books.move("receipt", 10, value=3000)
        return await settle(context, run)

    monkeypatch.setattr(costing, "_settle", arrives_first)
    result = await books.cost()
    assert result["recompute_rounds"] == 1
    assert (await books.costs())[made] == 400

"""posting.costs: cost documents are those of the results that speak, whatever was posted before."""

import asyncio
import re
from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.costs.legs import LEGS, REST
from shared.errors import PermanentError
from tests.cost_books import (
    accounts,
    attempt_costs,
    bought,
    costs_posted,
    documents,
    entries,
    stock,
    submit_costs,
    worth,
)
from tests.costing_books import FEBRUARY, Books
from tests.factories import execute, fetch, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import close, draft, post
from tests.unposting_books import unpost
from worker.records.cost_posting import WORDS


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME with a chart, and goods that were bought."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await bought(opened, "P1", 10, 10_000)
    await bought(opened, "P2", 10, 13_000, store="R2")
    return opened


async def test_what_was_sold_leaves_the_stock_for_cost_of_sales(books: Books) -> None:
    """One pool of two stores: each store's ledger is its goods at the pool's price."""
    await books.move("issue", 4, store="R1", day=date(2026, 1, 8), doc="S1")
    await books.move("issue", 2, store="R2", day=date(2026, 1, 9), doc="S2")
    await books.cost(brand=None)
    result = await costs_posted(books)
    assert result["outcome"] == "succeeded"
    assert result["documents"] == {"standing": 3, "posted": 3, "reversed": 0, "unchanged": 0}
    assert result["amounts"]["cost_of_sales"] == "6900"
    assert await stock(books) == await worth(books) == {("R1", "A"): 6_900, ("R2", "A"): 9_200}
    assert await accounts(books) == {"1561": 16_100, "331": -23_000, "632": 6_900}


async def test_asking_again_posts_nothing(books: Books) -> None:
    """Neither does a costing that comes to the same, though it is another run."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    before = await entries(books)
    again = await costs_posted(books)
    assert again["outcome"] == "nothing_to_do"
    assert again["documents"]["unchanged"] == again["documents"]["standing"] == 2
    await books.cost(brand=None)
    again = await costs_posted(books)
    assert again["outcome"] == "nothing_to_do"
    assert await entries(books) == before


async def test_a_costing_that_changes_reverses_what_it_changes_and_creates_it_anew(
    books: Books,
) -> None:
    """The old entry stays, its reversal names it, and the new document has the new run's number."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await bought(books, "P3", 5, 5_000, item="B")
    await books.move("issue", 1, item="B", day=date(2026, 1, 9), doc="S2")
    await books.cost(brand=None)
    await costs_posted(books)
    first = await documents(books)
    await bought(books, "P4", 20, 30_000)
    await books.cost(brand=None, items=["A"])
    result = await costs_posted(books)
    assert result["documents"]["reversed"] == 2
    assert result["documents"]["unchanged"] == 1, "what B has cost is as it was"
    assert await stock(books) == await worth(books)
    now, void = await documents(books), await documents(books, "void")
    assert set(now) & set(void) == set()
    assert set(void) < set(first)
    pairs = await fetch(
        books.app,
        """SELECT count(*) AS n FROM books.gl_entries r
             JOIN books.gl_entries e ON e.id = r.reverses_entry_id AND e.role = 'cost'
            WHERE r.kind = 'reversal'""",
    )
    assert pairs[0].n == 2


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("day_store", "Costs of 2026-01-08, store R1 (Giá vốn 2026-01-08, cửa hàng R1)"),
        ("item_group", "Costs of 2026-01, group SHOES (Giá vốn 2026-01, nhóm hàng SHOES)"),
        ("slip", "Costs of HD-7_sale-x (Giá vốn chứng từ HD-7_sale-x)"),
    ],
)
async def test_what_a_line_is_of_is_told_in_words(books: Books, by: str, said: str) -> None:
    """An accountant reads the ledger, not the code of a role."""
    await execute(books.app, "UPDATE books.items SET item_group = 'SHOES'")
    await books.move("issue", 4, day=date(2026, 1, 8), doc="HD-7_sale-x")
    await books.cost(brand=None)
    await costs_posted(books, by=by)
    query = """
        SELECT DISTINCT e.memo AS entry, l.account, l.memo FROM books.gl_entries e
          JOIN books.gl_lines l ON l.entry_id = e.id WHERE e.role = 'cost' ORDER BY l.account"""
    assert {tuple(row) for row in await fetch(books.app, query)} >= {
        (said, "1561", "Goods (Hàng tồn kho)"),
        (said, "632", "Cost of sales (Giá vốn hàng bán)"),
    }


def test_every_role_of_a_leg_has_words() -> None:
    legs = re.findall(r"(?:THEN|ELSE|SELECT|,) '([a-z_]+)'", LEGS.split("legs AS (")[1] + REST)
    roles = {each for each in legs if each not in {"opening", "transfer"}}
    assert roles == set(WORDS)


@pytest.mark.parametrize("by", ["item_group", "slip"])
async def test_another_layout_replaces_the_documents_of_the_one_before(
    books: Books, by: str
) -> None:
    """The balances stay what they are."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.move("issue", 1, store="R2", day=date(2026, 1, 8), doc="S2")
    await books.cost(brand=None)
    await costs_posted(books)
    before = await accounts(books)
    result = await costs_posted(books, by=by)
    assert result["documents"]["reversed"] == (3 if by == "item_group" else 2)
    assert await accounts(books) == before
    assert await stock(books) == await worth(books)
    assert (await costs_posted(books, by=by))["outcome"] == "nothing_to_do"
    assert (await costs_posted(books))["documents"]["posted"] == (3 if by == "item_group" else 2)
    assert await accounts(books) == before


async def test_what_an_item_that_fails_has_cost_is_taken_back(books: Books) -> None:
    """It has no result any more: the stock is as its documents say, and the job says so."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    await books.move("issue", 100, day=date(2026, 1, 9), doc="S2")
    await books.cost(brand=None)
    result = await costs_posted(books)
    assert result["warnings"] == [{"code": "ITEMS_FAILED", "items": 1}]
    assert await stock(books) == {("R1", "A"): 10_000, ("R2", "A"): 13_000}


async def test_movements_that_no_result_has_read_are_told(books: Books) -> None:
    """Items that were never costed, and items that moved after their costing; then neither."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    assert (await costs_posted(books))["warnings"] == []
    await books.move("issue", 1, day=date(2026, 1, 9), doc="S2")
    await books.move("receipt", 3, item="B", value=300, day=date(2026, 1, 9), doc="P9")
    assert (await costs_posted(books))["warnings"] == [
        {"code": "NOT_COSTED", "items": 1},
        {"code": "LATE_MOVEMENTS", "items": 1},
    ]
    await books.cost(brand=None)
    assert (await costs_posted(books))["warnings"] == []


async def test_a_transfer_moves_value_and_what_its_document_booked_counts(books: Books) -> None:
    """Whether the document has an amount, and is posted before the costs or after them."""
    await books.pooled("R1", "one")
    await books.pooled("R2", "two")
    for number, net in (("T1", None), ("T2", 1_200)):
        day = date(2026, 1, 7)
        await books.move("transfer", 2, store="R2", to_store="R1", day=day, doc=number)
        line = {"item": "A", "qty": 2} | ({} if net is None else {"net": net})
        facts = {"store": "R2", "to_store": "R1", "day": day}
        await draft(books, "transfer", number, line, **facts)
    await books.cost(brand=None)
    await costs_posted(books)
    posted = await post(books, types=["transfer"])
    assert posted["outcome"] == "succeeded", posted
    assert await stock(books) == await worth(books) == {("R1", "A"): 15_200, ("R2", "A"): 7_800}
    assert (await costs_posted(books))["outcome"] == "nothing_to_do"


async def test_what_a_supplier_credits_is_his_and_the_rest_is_variance(books: Books) -> None:
    """A return at another amount than its goods cost: stock falls by what left the pool."""
    day = date(2026, 1, 9)
    first = await books.move("receipt", 1, value=1_500, item="B", doc="P9")
    await draft(books, "purchase", "P9", {"item": "B", "qty": 1, "net": 1_500}, total=1_500,
                vat_total=0, party="V1")  # fmt: skip
    await books.move("purchase_return", 1, item="B", day=day, doc="PR1", ref=first)
    await draft(books, "purchase_return", "PR1", {"item": "B", "qty": 1, "net": 1_400}, day=day,
                total=1_400, vat_total=0, party="V1")  # fmt: skip
    await books.cost(brand=None)
    await post(books, types=["purchase", "purchase_return"])
    await costs_posted(books)
    assert await stock(books) == await worth(books) == {("R1", "A"): 11_500, ("R2", "A"): 11_500}
    assert (await accounts(books))["632"] == 100


async def test_costs_go_on_from_period_to_period_when_a_store_changes_its_pool(
    books: Books,
) -> None:
    """Each store's ledger is its closing, so a pool opens with what its stores bring."""
    await books.move("issue", 5, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    await books.pooled("R2", "alone", since="2026-02-01")
    await books.move("issue", 3, store="R2", day=date(2026, 2, 8), doc="S2")
    await books.cost(FEBRUARY, brand=None)
    result = await costs_posted(books, FEBRUARY)
    assert result["documents"]["reversed"] == 0
    assert await stock(books) == await worth(books, FEBRUARY)


@pytest.mark.parametrize(
    ("period", "code"), [("2026-01", "PERIOD_CLOSED"), ("2027-01", "PERIOD_UNKNOWN")]
)
async def test_a_period_that_is_not_open_takes_no_costs(
    books: Books, period: str, code: str
) -> None:
    await close(books)
    with pytest.raises(PermanentError, match=code):
        await costs_posted(books, period)
    assert await entries(books) == []


async def test_a_period_that_closes_before_the_claim_takes_no_costs(books: Books) -> None:
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    job_id = await submit_costs(books)
    await close(books)
    with pytest.raises(PermanentError, match="PERIOD_CLOSED"):
        await attempt_costs(books, job_id)
    assert await entries(books) == []


async def test_costs_are_of_the_whole_company(books: Books) -> None:
    with pytest.raises(PermanentError, match="COMPANY_WIDE"):
        await costs_posted(books, brand="RED")


async def test_an_account_that_is_no_longer_postable_is_named(books: Books) -> None:
    """Nothing of the document is there, nor of those in its transaction."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await execute(books.app, "UPDATE books.gl_accounts SET postable = false WHERE code = '632'")
    with pytest.raises(PermanentError, match="ACCOUNT_NOT_POSTABLE") as refused:
        await costs_posted(books)
    assert refused.value.code == "COSTS_REFUSED"
    assert await entries(books) == []
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_documents") == 0


async def test_a_preview_has_production_as_cost_documents_book_it(books: Books) -> None:
    """What is still in the making stands on 154; nothing of it is lost stock, or owed."""
    day = date(2026, 1, 10)
    await books.move("consume", 4, day=day, doc="M1")
    await books.move("produce", 2, item="B", day=day, doc="M1")
    await books.move("consume", 2, day=day, doc="M2")
    result = await books.cost(brand=None, kind="costing.preview")
    after = {each["account"]: int(each["after"]) for each in result["differences"]}
    assert after == {"1561": 20_700, "154": 2_300, "331": -23_000}
    await books.cost(brand=None)
    await costs_posted(books)
    assert await accounts(books) == after


async def test_goods_made_pass_through_production(books: Books) -> None:
    """What is consumed is debited there, what is made of it credited: together nothing."""
    day = date(2026, 1, 10)
    await books.move("consume", 4, day=day, doc="M1")
    await books.move("produce", 2, item="B", day=day, doc="M1")
    await books.cost(brand=None)
    result = await costs_posted(books, by="slip")
    assert "154" not in await accounts(books)
    sides = await fetch(
        books.app, "SELECT debit, credit FROM books.gl_lines WHERE account = '154' ORDER BY debit"
    )
    assert [tuple(side) for side in sides] == [(0, 4_600), (4_600, 0)]
    assert result["amounts"]["production"] == "0"
    assert await stock(books) == await worth(books)


@pytest.mark.parametrize("by", ["day_store", "slip"])
async def test_what_a_later_period_takes_back_is_the_opposite(books: Books, by: str) -> None:
    """A sale at what it had cost and a write-off, whether their costs were unposted, too, or not."""
    day, back = date(2026, 1, 8), date(2026, 2, 3)
    sale = await draft(books, "sale", "S1", {"item": "A", "qty": 4, "net": 9_000}, total=9_000,
                       vat_total=0, party="C1", day=day)  # fmt: skip
    sold = await books.move("issue", 4, day=day, doc="S1")
    lost = await books.move("adjust_out", 1, day=day, doc="K1")
    await post(books, documents=[sale])
    await books.cost(brand=None)
    await costs_posted(books, by=by)
    if by == "slip":
        dependants = {"reversal_date": "2026-02-03", "dependants": "reverse"}
        result = await unpost(books, documents=[sale], **dependants)
        assert result["outcome"] == "succeeded", result
    await books.move("issue", 4, day=back, doc="S1", reverses=sold)
    await books.move("adjust_out", 1, day=back, doc="K1", reverses=lost)
    await books.cost(FEBRUARY, brand=None)
    met = await asyncio.gather(costs_posted(books, FEBRUARY, by=by), return_exceptions=True)
    assert isinstance(met[0], dict), met
    left = await accounts(books)
    assert (left.get("632", 0), left.get("1381", 0)) == (0, 0)
    assert await stock(books) == await worth(books, FEBRUARY)
    assert (await costs_posted(books, FEBRUARY, by=by))["outcome"] == "nothing_to_do"


async def test_another_layout_that_is_asked_for_is_not_lost(books: Books) -> None:
    """A job that waits for its turn posts by the layout that was asked for last."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    first = await submit_costs(books, by="day_store")
    assert await submit_costs(books, by="slip") == first
    await attempt_costs(books, first)
    assert (await books.result(first))["by"] == "slip"


async def test_costs_unposted_into_another_period_are_there_once_in_each(books: Books) -> None:
    """The closed period keeps its entry; made anew when it is open again, it is not there twice."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    january = await accounts(books)
    made = await fetch(books.app, "SELECT document_id FROM books.cost_documents WHERE standing")
    await close(books)
    ids = [row.document_id for row in made]
    result = await unpost(books, documents=ids, reversal_date="2026-02-03")
    assert set(result["outcomes"]) == {"REVERSED"}
    await books.cost(FEBRUARY, brand=None)
    await costs_posted(books, FEBRUARY)
    await close(books, to="open")
    await costs_posted(books)
    for day in ("2026-01-31", "2026-02-28"):
        balances = await fetch(
            books.app,
            """SELECT account, sum(debit - credit) AS balance FROM books.gl_lines
                WHERE posting_date <= CAST(CAST(:day AS text) AS date)
                GROUP BY account HAVING sum(debit - credit) <> 0""",
            day=day,
        )
        assert {row.account: int(row.balance) for row in balances} == january
    assert (await costs_posted(books))["outcome"] == "nothing_to_do"
    assert (await costs_posted(books, FEBRUARY))["outcome"] == "nothing_to_do"


async def test_a_return_to_a_supplier_that_a_later_period_takes_back(books: Books) -> None:
    """His note was another than the goods had cost: neither is left."""
    day, back = date(2026, 1, 8), date(2026, 2, 3)
    first = await books.move("receipt", 2, value=3_000, item="B", doc="P9")
    line = {"item": "B", "qty": 2, "net": 3_000}
    await draft(books, "purchase", "P9", line, total=3_000, vat_total=0, party="V1")
    gone = await books.move("purchase_return", 1, item="B", day=day, doc="PR1", ref=first)
    line = {"item": "B", "qty": 1, "net": 1_400}
    note = await draft(books, "purchase_return", "PR1", line, day=day, total=1_400, vat_total=0,
                       party="V1")  # fmt: skip
    await post(books, types=["purchase", "purchase_return"])
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    assert (await accounts(books))["632"] == 100
    await unpost(books, documents=[note], reversal_date="2026-02-03", dependants="reverse")
    await books.move("purchase_return", 1, item="B", day=back, doc="PR1", reverses=gone)
    await books.cost(FEBRUARY, brand=None)
    await costs_posted(books, FEBRUARY, by="slip")
    assert await stock(books) == await worth(books, FEBRUARY)
    assert "632" not in await accounts(books)


async def test_goods_of_the_time_before_are_there_once(books: Books) -> None:
    """Their document has put them on stock; a result counts them in what it opens with."""
    await books.move("opening", 5, value=6_000, item="C", day=date(2026, 1, 1), doc="O1")
    legs = [
        {"account": "1561", "side": "debit", "net": 6_000, "item": "C", "store": "R1"},
        {"account": "41111", "side": "credit", "net": 6_000},
    ]
    await draft(books, "opening", "O1", *legs, day=date(2026, 1, 1))
    assert (await post(books, types=["opening"]))["outcome"] == "succeeded"
    await books.move("issue", 1, item="C", day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    met = await asyncio.gather(costs_posted(books), return_exceptions=True)
    assert isinstance(met[0], dict), met
    assert await stock(books) == await worth(books)
    assert (await worth(books))["R1", "C"] == 4_800

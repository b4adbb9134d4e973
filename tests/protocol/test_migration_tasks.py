"""The tasks that come with the books: pools, movements of documents, another chart of accounts."""

from datetime import date
from typing import Any

import pytest

from tests.costing_books import Books
from tests.document_books import put, sale, stock_books
from tests.factories import execute, fetch, scalar
from tests.ledger_books import open_ledger
from tests.migrating import Migrating
from tests.posting_books import manual, post
from tests.protocol.test_migration_waits import checksums

JANUARY = {"date_from": "2026-01-01", "date_to": "2026-01-31"}


@pytest.fixture
async def books(migrating: Migrating) -> Books:
    """ACME with a chart by TT200, two open periods, items A to D, SUA, LY and HAT."""
    opened = await open_ledger(migrating.app, migrating.read)
    await stock_books(migrating.owner)
    return opened


async def pools(migrating: Migrating) -> set[tuple[Any, ...]]:
    """Every row of the pool map."""
    query = "SELECT store, valid_from, pool, shared FROM books.cost_pool_map"
    return {tuple(row) for row in await fetch(migrating.app, query)}


async def test_stores_are_put_into_pools_from_a_day_on(migrating: Migrating, books: Books) -> None:
    """By kind, then by name; what lies there already is left alone, and the same again is none."""
    assert books is not None
    first, second = date(2026, 1, 1), date(2026, 2, 1)
    result = await migrating.succeed(
        "pools.assign", params={"valid_from": "2026-01-01", "by": "store"}
    )
    assert result["counts"] == {"assigned": 3, "unchanged": 0}
    assert await pools(migrating) == {(store, first, store, False) for store in ("B1", "R1", "R2")}
    named = {"valid_from": "2026-02-01", "pools": {"R1": "north", "R2": "north"}, "shared": True}
    result = await migrating.succeed("pools.assign", params=named)
    assert result["counts"] == {"assigned": 2, "unchanged": 0}
    assert await pools(migrating) >= {(store, second, "north", True) for store in ("R1", "R2")}
    result = await migrating.succeed("pools.assign", params=named | {"pools": {"R1": "north"}})
    assert result["counts"] == {"assigned": 0, "unchanged": 1}
    back = await migrating.succeed(
        "pools.assign", params={"valid_from": "2026-03-01", "by": "brand"}
    )
    assert back["counts"] == {"assigned": 3, "unchanged": 0}


async def test_what_was_said_of_a_day_is_not_changed(migrating: Migrating, books: Books) -> None:
    """It is told with the pool that stands there; a name that is no store is a problem."""
    assert books is not None
    day = {"valid_from": "2026-01-01"}
    await migrating.succeed("pools.assign", params=day | {"pools": {"R1": "north"}})
    job_id = await migrating.submit(
        "pools.assign",
        params=day | {"pools": {"R1": "south", "R9": "south"}},
        max_reject_percent=100,
    )
    assert (await migrating.finish(job_id)).state == "succeeded"
    (reject,) = await migrating.rejects(job_id)
    assert (reject.key, reject.code, reject.value) == (["R1"], "ALREADY_ASSIGNED", "south")
    assert "lies in pool north" in reject.rule
    result = await migrating.result(job_id)
    assert result["outcome"] == "completed_with_errors"
    assert result["check_after"]["problems"] == ["'R9' is no store of company ACME"]


def documents() -> list[dict[str, Any]]:
    """A purchase, its freight, a sale, both returns, a transfer, and a service without goods."""
    goods = {"item": "LY", "qty": "10", "net": "1000", "vat": "100"}
    bought = {"party": "NCC", "total": "1100", "vat_total": "100"}
    return [
        sale("M1", type="purchase", lines=[goods], **bought),
        sale(
            "M2",
            type="purchase",
            ref_doc_no="M1",
            lines=[{"item": "LY", "net": "50", "ref_line": 1}],
            party="NCC",
            total="50",
            vat_total="0",
        ),
        sale("B1"),
        sale(
            "T1",
            type="sale_return",
            ref_doc_no="B1",
            lines=[{"item": "LY", "qty": "2", "net": "30000", "vat": "3000", "ref_line": 1}],
            total="33000",
            vat_total="3000",
        ),
        sale(
            "T2",
            type="purchase_return",
            ref_doc_no="M1",
            lines=[{"item": "LY", "qty": "1", "net": "100", "vat": "10", "ref_line": 1}],
            party="NCC",
            total="110",
            vat_total="10",
        ),
        {
            "type": "transfer",
            "doc_no": "C1",
            "doc_date": "2026-01-06",
            "store": "R1",
            "to_store": "B1",
            "lines": [{"item": "LY", "qty": "3"}],
        },
        sale("S1", lines=[{"net": "150000", "vat": "15000", "vat_rate": "10"}]),
    ]


MOVEMENTS = """
    SELECT m.doc_id, m.doc_line, m.kind, m.qty_base, m.value, m.to_store, r.doc_id AS ref
      FROM books.stock_movements m
      LEFT JOIN books.stock_movements r ON r.id = m.ref_movement_id ORDER BY m.doc_id"""
POSTED = "UPDATE books.documents SET status = 'posted'"


async def test_documents_become_movements_once(migrating: Migrating, books: Books) -> None:
    """Each by its type, returns with what they bring back; the same again writes nothing."""
    assert books is not None
    put_there = await put(migrating.app, *documents())
    assert [each.outcome for each in put_there] == ["created"] * 7, put_there
    await execute(migrating.owner, POSTED)
    result = await migrating.succeed("movements.backfill", params=JANUARY, batch_size=2)
    assert result["counts"] == {"movements_written": 6, "lines_standing": 6}
    assert result["check_before"]["facts"] == {"documents": 7, "with_movements": 0}
    assert result["check_after"]["facts"] == {"documents": 7, "with_movements": 6}
    assert [tuple(row) for row in await fetch(migrating.app, MOVEMENTS)] == [
        ("B1", 1, "issue", 10, None, None, None),
        ("C1", 1, "transfer", 3, None, "B1", None),
        ("M1", 1, "receipt", 10, 1000, None, None),
        ("M2", 1, "landed_cost", 0, 50, None, "M1"),
        ("T1", 1, "sales_return", 2, None, None, "B1"),
        ("T2", 1, "purchase_return", 1, None, None, "M1"),
    ]
    again = await migrating.succeed("movements.backfill", params=JANUARY)
    assert again["counts"] == {"movements_written": 0, "lines_standing": 6}


async def test_goods_of_a_closed_period_are_set_aside_line_by_line(
    migrating: Migrating, books: Books
) -> None:
    """A document with two such lines is one row; the others are written, drafts left alone."""
    assert books is not None
    two = [{"item": "LY", "qty": "1", "net": "100", "vat": "0"}] * 2
    first = sale("B1", lines=two, total="200", vat_total="0")
    second, drafted = sale("B2", posting_date="2026-02-03"), sale("B3", posting_date="2026-02-03")
    await put(migrating.app, first, second, drafted)
    await execute(migrating.owner, f"{POSTED} WHERE doc_no <> 'B3'")
    shut = "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'"
    await execute(migrating.owner, shut)
    days = {"date_from": "2026-01-01", "date_to": "2026-02-28"}
    job_id = await migrating.submit("movements.backfill", params=days, max_reject_percent=50)
    assert (await migrating.finish(job_id)).state == "succeeded"
    rejects = await migrating.rejects(job_id)
    assert [(each.code, each.line) for each in rejects] == [
        ("PERIOD_CLOSED", 1),
        ("PERIOD_CLOSED", 2),
    ]
    assert rejects[0].rule == "sale B1, line 1: the period of 2026-01-05 is not open"
    result = await migrating.result(job_id)
    assert (result["rows_done"], result["rows_failed"]) == (2, 1)
    assert result["counts"] == {"movements_written": 1, "lines_standing": 1}


REMAP = {"accounts": {"1111": "1119", "6411": "6419"}, "as_of": "2026-01-31", "template": "TT99"}
LINES = """
    SELECT d.doc_no, l.side, l.account, l.net FROM books.documents d
      JOIN books.document_lines l ON l.document_id = d.id
     WHERE d.status = 'draft' ORDER BY d.doc_no, l.line_no"""


async def test_an_account_is_remapped_in_drafts_roles_and_balances(
    migrating: Migrating, books: Books
) -> None:
    """Never on what is posted; what moves the balances is a draft that somebody posts."""
    await manual(books, "P1", ("1111", 500), ("5111", -500))
    await post(books, types=["manual"])
    await manual(books, "D1", ("6411", 70), ("1111", -70))
    posted = await fetch(migrating.app, "SELECT account, debit FROM books.gl_lines ORDER BY 1")
    result = await migrating.succeed("accounts.remap", params=REMAP)
    assert result["counts"] == {"drafts": 1}
    assert result["check_before"]["facts"]["drafts"] == 1
    after = result["check_after"]["facts"]
    assert (after["drafts"], after["roles"], after["new_accounts"]) == (0, 0, 2)
    assert [tuple(row) for row in await fetch(migrating.app, LINES)] == [
        ("D1", "debit", "6419", 70),
        ("D1", "credit", "1119", 70),
        ("REMAP-2026-01-31-1", "credit", "1111", 500),
        ("REMAP-2026-01-31-1", "debit", "1119", 500),
    ]
    draft = "SELECT version FROM books.documents WHERE doc_no = 'D1'"
    assert await scalar(migrating.app, draft) == 2
    assert await scalar(migrating.app, "SELECT books.role_account('ACME', 'cash')") == "1119"
    closed = "SELECT active_to FROM books.gl_accounts WHERE code = '1111'"
    assert await scalar(migrating.app, closed) == date(2026, 1, 31)
    query = "SELECT account, debit FROM books.gl_lines ORDER BY 1"
    assert await fetch(migrating.app, query) == posted
    await post(books, types=["manual"])
    balance = "SELECT sum(debit - credit) FROM books.gl_lines WHERE account = :a"
    assert await scalar(migrating.app, balance, a="1111") == 0
    assert await scalar(migrating.app, balance, a="1119") == 430
    again = await migrating.succeed("accounts.remap", params=REMAP)
    assert again["counts"] == {}


async def drafted(migrating: Migrating, accounts: dict[str, str]) -> dict[str, int]:
    """Remap these, and what the drafts of all remaps then move, by account (debit above 0)."""
    await migrating.succeed("accounts.remap", params=REMAP | {"accounts": accounts, "close": False})
    moved = """SELECT l.account, sum(CASE l.side WHEN 'debit' THEN l.net ELSE -l.net END)::bigint AS net
                 FROM books.documents d JOIN books.document_lines l ON l.document_id = d.id
                WHERE d.status = 'draft' AND d.source = 'remap' GROUP BY l.account"""
    return {row.account: row.net for row in await fetch(migrating.app, moved)}


async def test_remaps_of_one_day_move_each_balance_once(migrating: Migrating, books: Books) -> None:
    """Another map's drafts stay, an overlapping one moves what is left, a rest is moved on."""
    await manual(books, "P1", ("1111", 500), ("1121", 300), ("5111", -800))
    await post(books, types=["manual"])
    one = {"1111": -500, "1119": 500}
    both = one | {"1121": -300, "1129": 300}
    assert await drafted(migrating, {"1111": "1119"}) == one
    assert await drafted(migrating, {"1121": "1129"}) == both
    assert await drafted(migrating, {"1111": "1119", "1121": "1129"}) == both
    await post(books, types=["manual"])
    await manual(books, "P2", ("1111", 70), ("5111", -70))
    await post(books, types=["manual"])
    assert await drafted(migrating, {"1111": "1119"}) == {"1111": -70, "1119": 70}
    await post(books, types=["manual"])
    balance = "SELECT account, sum(debit - credit)::bigint FROM books.gl_lines GROUP BY 1"
    assert {tuple(row) for row in await fetch(migrating.app, balance)} == {
        ("1111", 0), ("1119", 570), ("1121", 0), ("1129", 300), ("5111", -870),
    }  # fmt: skip


async def test_a_dry_remap_writes_nothing(migrating: Migrating, books: Books) -> None:
    """Neither accounts nor roles nor drafts; it counts what it would change."""
    await manual(books, "D1", ("6411", 70), ("1111", -70))
    before = await checksums(migrating)
    result = await migrating.succeed("accounts.remap", params=REMAP, dry_run=True)
    assert result["counts"] == {"drafts": 1}
    assert await checksums(migrating) == before


async def test_an_account_that_is_not_there_is_refused_by_name(
    migrating: Migrating, books: Books
) -> None:
    """Before anything is written."""
    assert books is not None
    job_id = await migrating.submit(
        "accounts.remap", params={"accounts": {"9999": "1111"}, "as_of": "2026-01-31"}
    )
    assert (await migrating.finish(job_id)).state == "dead"
    error = await migrating.error(job_id)
    assert (error["code"], "9999" in error["message"]) == ("ACCOUNT_UNKNOWN", True)

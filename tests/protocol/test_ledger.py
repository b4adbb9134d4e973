"""The ledger: numbers without gaps, one chain a series, and nets that no writer slips through."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import Books
from tests.factories import execute, expire_lease, fetch, scalar
from tests.ledger_books import (
    DAY,
    Entry,
    Line,
    append,
    cash_sale,
    document,
    entry,
    open_ledger,
    post,
    poster,
    write_lines,
)

REFUSED, STALE, BROKEN, APPEND_ONLY, KEPT = "CH131", "CH132", "CH133", "CH007", "CH134"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with a chart and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def refusal(doing: Awaitable[Any]) -> tuple[str | None, str]:
    """Which error the database raised: its state, and what it said."""
    with pytest.raises(DBAPIError) as caught:
        await doing
    return sqlstate_of(caught.value), str(caught.value.orig)


async def test_numbers_follow_days_and_documents(books: Books) -> None:
    """Whatever the order in which they are handed in; the next call goes on."""
    held = await poster(books)
    later = await entry(books, cash_sale(), day=date(2026, 1, 9))
    first, second = await entry(books, cash_sale()), await entry(books, cash_sale())
    numbers = await post(books, held, later, second, first)
    assert numbers == {first.entry_id: 1, second.entry_id: 2, later.entry_id: 3}
    more = await entry(books, cash_sale())
    assert await post(books, held, more) == {more.entry_id: 4}

"""A movement's quantity and value against its document: units and currencies, as an ERP writes."""

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import Books, open_books
from tests.factories import execute, fetch

# A carton has 24 pieces, three of which weigh a kilogram; salt is weighed to the gram.
SEED = (
    """INSERT INTO books.items (company, code, name, base_uom, qty_scale)
       VALUES ('ACME', 'SALT', 'Muối', 'kg', 3)""",
    """INSERT INTO books.item_units (company, item, unit, num, den)
       VALUES ('ACME', 'A', 'thùng', 24, 1), ('ACME', 'A', 'gói ba', 1, 3),
              ('ACME', 'SALT', 'tấn', 1000, 1), ('ACME', 'SALT', 'lạng', 1, 10)""",
    """INSERT INTO books.companies (code, name, currency, minor_digits)
       VALUES ('EURO', 'Euro', 'EUR', 2)""",
    """INSERT INTO books.brands (company, code, name) VALUES ('EURO', 'X', 'X')""",
    """INSERT INTO books.stores (company, code, brand, name) VALUES ('EURO', 'X1', 'X', 'X1')""",
    """INSERT INTO books.items (company, code, name, base_uom) VALUES ('EURO', 'A', 'A', 'pc')""",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ('EURO', '2026-01', '2026-01-01', '2026-01-31')""",
)

INSERT = text("""
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value, uom, qty_doc, currency, fc_amount, fc_rate)
    VALUES (:company, :brand, :item, :store, :kind, 'T', 1, '2026-01-05', :qty, :value,
            :uom, :qty_doc, :currency, :fc_amount, :fc_rate) RETURNING id""")
ABSENT = dict.fromkeys(("value", "uom", "qty_doc", "currency", "fc_amount", "fc_rate"))
AT_HOME = {"company": "ACME", "brand": "RED", "store": "R1", "item": "A", "kind": "receipt"}
IN_EUROPE = {"company": "EURO", "brand": "X", "store": "X1"}


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME in VND with units for A and SALT, company EURO in EUR and cents."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    for statement in SEED:
        await execute(books.app, statement)
    return books


async def _post(books: Books, qty: int, **columns: Any) -> int:
    given = {
        name: Decimal(value) if isinstance(value, str) and name in {"qty_doc", "fc_rate"} else value
        for name, value in columns.items()
    }
    if isinstance(given.get("fc_amount"), str):
        given["fc_amount"] = Decimal(given["fc_amount"])
    async with books.app.begin() as conn:
        binds = ABSENT | AT_HOME | {"qty": qty} | given
        return int((await conn.execute(INSERT, binds)).scalar_one())


@pytest.mark.parametrize(
    ("qty", "columns"),
    [
        (48, {"uom": "thùng", "qty_doc": "2"}),
        (36, {"uom": "thùng", "qty_doc": "1.5"}),
        (7, {"uom": "gói ba", "qty_doc": "21"}),
        (5, {"uom": "cái", "qty_doc": "5.000"}),
        (1_250_000, {"item": "SALT", "uom": "tấn", "qty_doc": "1.25"}),
        (50, {"item": "SALT", "uom": "lạng", "qty_doc": "0.5"}),
        (3_475, {"item": "SALT", "uom": "kg", "qty_doc": "3.475"}),
    ],
)
async def test_a_quantity_that_is_exactly_the_documents_is_taken(
    books: Books, qty: int, columns: dict[str, Any]
) -> None:
    await _post(books, qty, value=5, **columns)


@pytest.mark.parametrize(
    ("qty", "columns", "code"),
    [
        (47, {"uom": "thùng", "qty_doc": "2"}, "UOM_NOT_EXACT"),
        (7, {"uom": "gói ba", "qty_doc": "20"}, "UOM_NOT_EXACT"),
        (3_475, {"item": "SALT", "uom": "kg", "qty_doc": "3.4751"}, "UOM_NOT_EXACT"),
        (1, {"uom": "cái", "qty_doc": "NaN"}, "UOM_NOT_EXACT"),
        (1, {"uom": "cái", "qty_doc": "Infinity"}, "UOM_NOT_EXACT"),
        (1, {"uom": "lọ", "qty_doc": "1"}, "UOM_UNKNOWN"),
        (1, {"uom": "tấn", "qty_doc": "1"}, "UOM_UNKNOWN"),
        (1, {"uom": "cái", "qty_doc": None}, "stock_movements_uom_check"),
        (1, {"uom": "lọ", "qty_doc": "1", "item": "GONE"}, "ITEM_UNKNOWN"),
    ],
)
async def test_a_quantity_that_does_not_fit_is_refused_not_rounded(
    books: Books, qty: int, columns: dict[str, Any], code: str
) -> None:
    with pytest.raises(DBAPIError, match=code):
        await _post(books, qty, value=5, **columns)


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (254_500, {"currency": "USD", "fc_amount": "10", "fc_rate": "25450"}),
        # 12 345.5 dong: a half goes up, of a reduction too.
        (12_346, {"currency": "USD", "fc_amount": "0.5", "fc_rate": "24691"}),
        (
            -12_345,
            {"currency": "USD", "fc_amount": "-0.5", "fc_rate": "24691", "kind": "landed_cost"},
        ),
        (99, {"currency": "VND", "fc_amount": "99"}),
        (1_235, IN_EUROPE | {"currency": "USD", "fc_amount": "13.5", "fc_rate": "0.915"}),
        (1_350, IN_EUROPE | {"currency": "EUR", "fc_amount": "13.5"}),
    ],
)
async def test_a_value_at_the_documents_rate_is_taken(
    books: Books, value: int, columns: dict[str, Any]
) -> None:
    qty = 0 if columns.get("kind") == "landed_cost" else 1
    refusal = ""
    try:
        await _post(books, qty, value=value, **columns)
    except DBAPIError as error:
        refusal = str(error)
    assert not refusal


@pytest.mark.parametrize(
    ("value", "columns", "code"),
    [
        (254_501, {"currency": "USD", "fc_amount": "10", "fc_rate": "25450"}, "RATE_MISMATCH"),
        (12_345, {"currency": "USD", "fc_amount": "0.5", "fc_rate": "24691"}, "RATE_MISMATCH"),
        (None, {"currency": "USD", "fc_amount": "10", "fc_rate": "25450"}, "RATE_MISMATCH"),
        (1, {"currency": "USD", "fc_amount": "NaN", "fc_rate": "1"}, "RATE_MISMATCH"),
        (10, {"currency": "USD", "fc_amount": "10"}, "RATE_MISSING"),
        (10, {"currency": "USD", "fc_rate": "1"}, "stock_movements_currency_check"),
        (0, {"currency": "USD", "fc_amount": "10", "fc_rate": "0"}, "currency_check"),
        (10, {"currency": "usd", "fc_amount": "10", "fc_rate": "1"}, "currency_check"),
        (10, {"fc_rate": "1"}, "currency_check"),
    ],
)
async def test_a_value_that_is_not_the_documents_is_refused(
    books: Books, value: int | None, columns: dict[str, Any], code: str
) -> None:
    with pytest.raises(DBAPIError, match=code):
        await _post(books, 1, value=value, **columns)


async def test_the_refusal_names_the_movement_and_has_a_code(books: Books) -> None:
    with pytest.raises(DBAPIError, match=r"movement \d+: 2 thùng of item 'A'") as refused:
        await _post(books, 47, uom="thùng", qty_doc="2", value=5)
    assert sqlstate_of(refused.value) == "CH107"


async def test_a_unit_and_a_value_once_used_stay_as_they_are(books: Books) -> None:
    """Units are added and never changed; another rate of today changes no movement."""
    await _post(books, 24, value=254_500, uom="thùng", qty_doc="1")
    for statement in (
        "UPDATE books.item_units SET num = 20",
        "DELETE FROM books.item_units",
        "UPDATE books.stock_movements SET fc_rate = 1",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            await execute(books.app, statement)
    rows = await fetch(books.app, "SELECT qty_base, value, qty_doc FROM books.stock_movements")
    assert [tuple(row) for row in rows] == [(24, 254_500, 1)]

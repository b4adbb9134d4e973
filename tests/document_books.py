"""Books that documents are put into, and documents to put: dictionaries as the wire has them."""

import json
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.documents.put import Put, put_documents
from tests.factories import execute

GOODS = """
    INSERT INTO books.items (company, code, name, base_uom, qty_scale)
    VALUES ('ACME', 'SUA', 'Sữa', 'l', 3), ('ACME', 'LY', 'Ly', 'cái', 0),
           ('ACME', 'HAT', 'Hạt', 'kg', 3)"""
UNITS = """
    INSERT INTO books.item_units (company, item, unit, num, den)
    VALUES ('ACME', 'SUA', 'thùng', 12, 1), ('ACME', 'SUA', 'phần ba', 1, 3)"""


async def stock_books(engine: AsyncEngine) -> None:
    """Items SUA (l, 3 decimals; thùng = 12 l), LY (whole) and HAT (kg, 3 decimals) of ACME."""
    await execute(engine, GOODS)
    await execute(engine, UNITS)


def sale(number: str, **more: Any) -> dict[str, Any]:
    """A sale of 10 LY of store R1: 150,000 and 15,000 VAT."""
    line = {"item": "LY", "qty": "10", "net": "150000", "vat": "15000", "vat_rate": "10"}
    return {
        "type": "sale",
        "doc_no": number,
        "doc_date": "2026-01-05",
        "store": "R1",
        "party": "KH1",
        "total": "165000",
        "vat_total": "15000",
        "lines": [line],
    } | more


async def put(
    engine: AsyncEngine, *documents: Any, brands: list[str] | None = None, company: str = "ACME"
) -> list[Put]:
    """Put the documents in a transaction of their own."""
    async with engine.begin() as conn:
        return await put_documents(
            conn,
            company,
            json.dumps(documents),
            principal="tester",
            source="test",
            brands=brands,
        )


async def one(engine: AsyncEngine, document: Any, *, brands: list[str] | None = None) -> Put:
    """Put one document."""
    (outcome,) = await put(engine, document, brands=brands)
    return outcome


def codes(outcome: Put) -> list[tuple[str, str]]:
    """What it was refused for, as (field, code)."""
    return [(each.field, each.code) for each in outcome.faults]


async def mark_posted(owner_engine: AsyncEngine, document_id: int | None) -> None:
    """As posting leaves a document, without an entry."""
    async with owner_engine.begin() as conn:
        await conn.execute(
            text("UPDATE books.documents SET status = 'posted' WHERE id = :id"),
            {"id": document_id},
        )

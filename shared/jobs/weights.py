"""Weights: how many messages of a round a brand may send in a queue, where not one.

They stand in the queue's row, by company and brand (of the whole company: no brand). A key without
a company, as older code wrote it, is that brand's in every company.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted
from shared.json_text import to_json

# Between company and brand, as in the names of the relay's lanes.
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A brand's weight, 0.01 to 100; `brand` None: the company's jobs without one."""

    company: str | None
    brand: str | None
    weight: Decimal | float

    @property
    def key(self) -> str:
        """How it is named in the queue's row."""
        return f"{self.company}{SEPARATOR}{self.brand or ''}"


# Weights that stay what they were are no act. What is too much for a row of the audit is counted.
SET_WEIGHTS = text(f"""
    WITH weighed AS (
        UPDATE chot.queues SET weights = CAST(:weights AS jsonb)
         WHERE name = :queue AND weights <> CAST(:weights AS jsonb) RETURNING name, weights),
    {
    noted(
        Action.QUEUE_WEIGH,
        "weighed",
        target="weighed.name",
        facts='''jsonb_build_object('weights', CASE
                   WHEN octet_length(weighed.weights::text) < 3000 THEN weighed.weights
                   ELSE to_jsonb((SELECT count(*) FROM jsonb_object_keys(weighed.weights))) END)''',
    )
}
    SELECT name FROM chot.queues WHERE name = :queue""")
UNKNOWN_BOOKS = text("""
    SELECT w.n - 1 AS place, EXISTS (
               SELECT FROM books.companies c WHERE c.code = w.company) AS has_company
      FROM unnest(CAST(:companies AS text[]), CAST(:brands AS text[]))
           WITH ORDINALITY AS w (company, brand, n)
     WHERE NOT EXISTS (SELECT FROM books.companies c WHERE c.code = w.company)
        OR (w.brand IS NOT NULL AND NOT EXISTS (
               SELECT FROM books.brands b WHERE b.company = w.company AND b.code = w.brand))
     ORDER BY w.n LIMIT 1""")


async def unknown_of(conn: AsyncConnection, weights: Sequence[Weight]) -> tuple[int, str] | None:
    """The first whose books are not there: its place in the list, and `company` or `brand`."""
    binds = {
        "companies": [each.company for each in weights],
        "brands": [each.brand for each in weights],
    }
    row = (await conn.execute(UNKNOWN_BOOKS, binds)).one_or_none()
    return None if row is None else (row.place, "brand" if row.has_company else "company")


async def set_weights(conn: AsyncConnection, queue: str, weights: Sequence[Weight]) -> bool:
    """Let these weights, and no others, hold in the queue; False means no such queue.

    They hold from the relay's next take on.
    """
    said = to_json({each.key: each.weight for each in weights})
    binds = {"queue": queue, "weights": said}
    return (await conn.execute(SET_WEIGHTS, binds)).one_or_none() is not None


def read_weights(stored: dict[str, Any]) -> list[Weight]:
    """The weights of a queue's row, by company and brand."""
    found = []
    for key in sorted(stored):
        company, separated, brand = key.rpartition(SEPARATOR)
        whose = company if separated else None
        found.append(Weight(company=whose, brand=brand or None, weight=stored[key]))
    return found

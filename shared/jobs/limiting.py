"""Limiting: an operator sets, lists and removes running limits; how they hold: shared/jobs/limits.

A limit holds for every claim that begins once it is committed; what runs already goes on.
"""

from dataclasses import dataclass

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, Scope
from shared.audit import Action, noted
from shared.jobs.limits import places_taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What a limit holds for: jobs of this kind, of this company, of this brand of it.

    What is None may be any; kind or company must be given, and a brand needs its company.
    """

    kind: str | None = None
    company: str | None = None
    brand: str | None = None

    def binds(self) -> dict[str, str | None]:
        """What the statements here are bound to."""
        return {"kind": self.kind, "company": self.company, "brand": self.brand}


@dataclass(frozen=True, slots=True)
class Unknown:
    """The limit names something that is not there: `kind`, `company` or `brand`."""

    field: str


# A limit that stays what it was is no act, and leaves no row.
SET_LIMIT = text(f"""
    WITH known AS (
        SELECT CAST(:kind AS text) IS NULL OR EXISTS (
                   SELECT FROM chot.kinds k WHERE k.name = :kind) AS kind,
               CAST(:company AS text) IS NULL OR EXISTS (
                   SELECT FROM books.companies c WHERE c.code = :company) AS company,
               CAST(:brand AS text) IS NULL OR EXISTS (
                   SELECT FROM books.brands b
                    WHERE b.company = :company AND b.code = :brand) AS brand),
    made AS (
        INSERT INTO chot.running_limits AS l (kind, company, brand, max_running, principal)
        SELECT CAST(:kind AS text), CAST(:company AS text), CAST(:brand AS text),
               CAST(:max_running AS integer), a.principal
          FROM known k CROSS JOIN chot.actor() AS a WHERE k.kind AND k.company AND k.brand
        ON CONFLICT (kind, company, brand) DO UPDATE
           SET max_running = excluded.max_running, principal = excluded.principal,
               set_at = excluded.set_at
         WHERE l.max_running <> excluded.max_running
        RETURNING *),
    {
    noted(
        Action.LIMIT_SET,
        "made",
        target="made.kind",
        company="made.company",
        brand="made.brand",
        facts="jsonb_build_object('max_running', made.max_running)",
    )
}
    SELECT kind, company, brand FROM known""")


async def set_limit(conn: AsyncConnection, limited: Limited, max_running: int) -> Unknown | None:
    """Set the maximum of what it names, new or in the place of the old one; Unknown: nothing set.

    Raises IntegrityError for a maximum below one.
    """
    binds = limited.binds() | {"max_running": max_running}
    known = (await conn.execute(SET_LIMIT, binds)).one()
    return next((Unknown(name) for name in known._fields if not getattr(known, name)), None)


REMOVE_LIMIT = text(f"""
    WITH gone AS (
        DELETE FROM chot.running_limits l
         WHERE l.kind IS NOT DISTINCT FROM CAST(:kind AS text)
           AND l.company IS NOT DISTINCT FROM CAST(:company AS text)
           AND l.brand IS NOT DISTINCT FROM CAST(:brand AS text)
        RETURNING *),
    {
    noted(
        Action.LIMIT_REMOVE,
        "gone",
        target="gone.kind",
        company="gone.company",
        brand="gone.brand",
        facts="jsonb_build_object('max_running', gone.max_running)",
    )
}
    SELECT count(*) FROM gone""")


async def remove_limit(conn: AsyncConnection, limited: Limited) -> bool:
    """Take the limit of exactly this away; False where there was none."""
    return bool(await conn.scalar(REMOVE_LIMIT, limited.binds()))


# What runs outside a scope is not counted for it; and a limit of others is not shown.
LIST_LIMITS = text(f"""
    SELECT l.kind, l.company, l.brand, l.max_running, l.principal, l.set_at,
           CASE WHEN CAST(:scope_company AS text) IS NULL
                THEN {places_taken("l")} END AS running
      FROM chot.running_limits l
     WHERE (CAST(:scope_company AS text) IS NULL OR l.company IS NULL
            OR l.company = CAST(:scope_company AS text))
       AND (CAST(:scope_brands AS text[]) IS NULL OR l.brand IS NULL
            OR l.brand = ANY(CAST(:scope_brands AS text[])))
     ORDER BY l.kind NULLS FIRST, l.company NULLS FIRST, l.brand NULLS FIRST""")


async def list_limits(conn: AsyncConnection, *, scope: Scope = EVERYTHING) -> list[RowMapping]:
    """The limits that hold for some job of this scope; `running` only for a scope of everything."""
    return list((await conn.execute(LIST_LIMITS, scope.binds())).mappings().all())

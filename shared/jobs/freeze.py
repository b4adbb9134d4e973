"""Freeze and thaw: whether jobs that write the books of a company, or of one brand, are claimable.

A frozen brand stops its own jobs and those of the whole company, since these write its books too; a
frozen company stops all of its jobs. What runs goes on. Messages are staged as by a resume.
"""

from dataclasses import dataclass

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, Scope
from shared.audit import Action, noted
from shared.database import find_by_index
from shared.jobs.staging import staged_due


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Whose books: of one brand, or of the whole company (None)."""

    company: str
    brand: str | None = None

    def binds(self) -> dict[str, str | None]:
        """What the statements here are bound to."""
        return {"company": self.company, "brand": self.brand}


_KNOWN = """known AS (
        SELECT c.code AS company, CAST(:brand AS text) AS brand FROM books.companies c
         WHERE c.code = :company AND (CAST(:brand AS text) IS NULL OR EXISTS (
                   SELECT FROM books.brands b
                    WHERE b.company = c.code AND b.code = CAST(:brand AS text))))"""
# A freeze of what is frozen is no act, and keeps the first one's reason.
FREEZE_BOOKS = text(f"""
    WITH {_KNOWN},
    frozen AS (
        INSERT INTO chot.freezes (company, brand, reason, principal)
        SELECT k.company, k.brand, CAST(:reason AS text), a.principal
          FROM known k CROSS JOIN chot.actor() AS a
        ON CONFLICT (company, brand) DO NOTHING RETURNING *),
    {
    noted(
        Action.BOOKS_FREEZE,
        "frozen",
        company="frozen.company",
        brand="frozen.brand",
        facts="jsonb_strip_nulls(jsonb_build_object('reason', frozen.reason))",
    )
}
    SELECT company FROM known""")
# Over `r`, a job that runs: whether a freeze of these books would have stopped it.
RUNNING_ON_BOOKS = text("""
    SELECT count(*) FROM chot.jobs r
     WHERE r.state = 'running' AND r.company = :company
       AND (CAST(:brand AS text) IS NULL OR r.brand IS NULL OR r.brand = CAST(:brand AS text))""")


async def freeze_books(conn: AsyncConnection, books: Books, *, reason: str | None = None) -> bool:
    """Stop claims of every job that would write these books; False means no such books."""
    binds = books.binds() | {"reason": reason}
    return (await conn.execute(FREEZE_BOOKS, binds)).one_or_none() is not None


async def running_on_books(conn: AsyncConnection, books: Books) -> int:
    """How many jobs go on writing these books. Ask it once the freeze has committed."""
    return int(await conn.scalar(RUNNING_ON_BOOKS, books.binds()) or 0)


# Kind by kind, since that is how pending jobs are found by company: not among all that have ended.
THAW_BOOKS = text(f"""
    WITH {_KNOWN},
    thawed AS (
        DELETE FROM chot.freezes f USING known k
         WHERE f.company = k.company AND f.brand IS NOT DISTINCT FROM k.brand
        RETURNING f.*),
    {noted(Action.BOOKS_THAW, "thawed", company="thawed.company", brand="thawed.brand")},
    {
    staged_due('''thawed CROSS JOIN chot.kinds k
          JOIN chot.jobs j ON j.kind = k.name AND j.company = thawed.company
           AND (thawed.brand IS NULL OR j.brand IS NULL OR j.brand = thawed.brand)''')
}
    SELECT (SELECT count(*) FROM staged) AS staged FROM known""")


async def thaw_books(conn: AsyncConnection, books: Books) -> int | None:
    """Let the jobs be claimed again, as resume_queue() does; None means no such books.

    Only the freeze of these very books goes: that of a brand stays when its company is thawed.
    """
    await find_by_index(conn)
    row = (await conn.execute(THAW_BOOKS, books.binds())).one_or_none()
    return None if row is None else int(row.staged)


# What a scope of brands may see: freezes of its brands, and that of its company.
LIST_FREEZES = text("""
    SELECT f.company, f.brand, f.reason, f.principal, f.frozen_at FROM chot.freezes f
     WHERE (CAST(:scope_company AS text) IS NULL OR f.company = CAST(:scope_company AS text))
       AND (CAST(:scope_brands AS text[]) IS NULL OR f.brand IS NULL
            OR f.brand = ANY(CAST(:scope_brands AS text[])))
     ORDER BY f.company, f.brand NULLS FIRST""")


async def list_freezes(conn: AsyncConnection, *, scope: Scope = EVERYTHING) -> list[RowMapping]:
    """Every freeze that stands, of this scope's books."""
    return list((await conn.execute(LIST_FREEZES, scope.binds())).mappings().all())

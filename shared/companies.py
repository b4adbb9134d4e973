"""Companies whose books there are, as far as an account sees them."""

from collections.abc import Sequence

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope

MOST = 200
LIST_COMPANIES = text(f"""
    SELECT c.code, c.name, c.currency, c.minor_digits FROM books.companies c
     WHERE CAST(:scope_company AS text) IS NULL OR c.code = CAST(:scope_company AS text)
     ORDER BY c.code LIMIT {MOST}""")


async def list_companies(conn: AsyncConnection, scope: Scope) -> Sequence[RowMapping]:
    """Companies in the scope, by code; the first MOST of them."""
    binds = {"scope_company": scope.company}
    return (await conn.execute(LIST_COMPANIES, binds)).mappings().all()

"""What the ledger has against closing a period: drafts, and goods that it values otherwise."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.control import Controlled, compare, has_chart, unposted
from worker.records.periods import Close

AGREES = "agrees with the value of the goods"
NO_CHART = "not checked: the company has no chart of accounts"


async def find_unposted(conn: AsyncConnection, close: Close, most: int) -> list[tuple[str, Any]]:
    """Codes with what was found; nothing of a company that keeps its ledger elsewhere."""
    if not await has_chart(conn, close.company):
        return []
    controlled = _controlled(close)
    drafts = await unposted(conn, controlled, most)
    goods = await compare(conn, controlled, most)
    return [
        ("UNPOSTED_DOCUMENTS", (drafts.n, drafts.first or ())),
        ("LEDGER_DIFFERS", (goods.differing, goods.first or ())),
    ]


async def say_ledger(conn: AsyncConnection, close: Close) -> str:
    """What the result of a close says, which has found nothing."""
    return AGREES if await has_chart(conn, close.company) else NO_CHART


def _controlled(close: Close) -> Controlled:
    return Controlled(
        company=close.company,
        period=close.period,
        starts_on=close.starts_on,
        ends_on=close.ends_on,
    )

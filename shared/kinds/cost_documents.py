"""Kind `posting.costs`: what the goods of a period cost is posted, as documents of their own."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from shared.kinds import Kind, Lock, Payload, RetryPolicy
from shared.kinds.costing import PERIOD

# Lines of the ledger in one transaction, always of whole documents.
CHUNK_LINES = 10_000


class PostingCostsPayload(Payload):
    """Which period, and what one cost document holds.

    `day_store`: a store's day. `item_group`: a group of items, all of the period. `slip`: what the
    movements of one document have cost. Documents of another layout are reversed. `chunk_lines`
    bounds how much one transaction posts; what is posted does not depend on it.
    """

    period: Annotated[
        str,
        Field(pattern=PERIOD, description="accounting period, YYYY-MM", examples=["2026-01"]),
    ]
    by: Literal["day_store", "item_group", "slip"] = "day_store"
    chunk_lines: Annotated[int, Field(ge=1, le=1_000_000)] = CHUNK_LINES


# One job at a time makes the cost documents of a period. Other posters go on beside it, and so do
# costings: a run that becomes active meanwhile is followed. What asks for another layout changes
# the job that waits; joined to it, it would be lost.
POSTING_COSTS = Kind(
    name="posting.costs",
    payload=PostingCostsPayload,
    queue="posting",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("period",),
    on_duplicate="merge",
    locks=(
        Lock(
            root="ledger/{company}",
            mode="shared",
            period_from="{payload.period}",
            period_to="{payload.period}",
        ),
        Lock(
            root="cost-documents/{company}",
            period_from="{payload.period}",
            period_to="{payload.period}",
        ),
    ),
)

KINDS = (POSTING_COSTS,)

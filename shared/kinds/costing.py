"""Kind `costing.run`: what one period's stock movements cost, for a company or a brand of it."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from shared.kinds import Kind, Payload, RetryPolicy

PERIOD = r"^[12][0-9]{3}-(0[1-9]|1[0-2])$"  # a calendar knows no year 0
# Movements in one transaction: small enough to lose little at a kill, large enough to be quick.
CHUNK_MOVEMENTS = 10_000


class CostingRunPayload(Payload):
    """What to cost and how.

    `pool` overrides the company's pool map: one pool a brand, or one a store. `residue` says where
    the last units of rounding go. `chunk_movements` bounds how many movements one transaction
    costs (always whole items); results do not depend on it.
    """

    period: Annotated[
        str,
        Field(pattern=PERIOD, description="accounting period, YYYY-MM", examples=["2026-01"]),
    ]
    pool: Literal["brand", "store"] | None = None
    residue: Literal["cumulative", "last_issue", "separate_line"] = "cumulative"
    chunk_movements: Annotated[int, Field(ge=1, le=1_000_000)] = CHUNK_MOVEMENTS


COSTING_RUN = Kind(
    name="costing.run",
    payload=CostingRunPayload,
    queue="costing",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("period",),
)

KINDS = (COSTING_RUN,)

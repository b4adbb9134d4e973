"""Kinds `costing.run` and `costing.preview`: what one period's stock movements cost."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.kinds import Kind, Lock, Payload, RetryPolicy

PERIOD = r"^[12][0-9]{3}-(0[1-9]|1[0-2])$"  # a calendar knows no year 0
# An item's code, or a selector: @failed, @dirty, @errors:RUN.
ITEM = r"^([^@].{0,39}|@failed|@dirty|@errors:[1-9][0-9]{0,17})$"
# Movements in one transaction: small enough to lose little at a kill, large enough to be quick.
CHUNK_MOVEMENTS = 10_000


class CostingRunPayload(Payload):
    """What to cost and how.

    `items` are item codes and selectors: `@failed` (the period's result is a failure), `@dirty`
    (movements have come since, or an earlier period has changed), `@errors:RUN` (what failed in
    that run); absent: all. What is made of each other is costed together. `pool` overrides the
    company's pool map: one pool a brand, a store, or for the whole company. `method` asserts that
    every item in scope is costed by it. `negative` says what becomes of goods that go out before
    any came in, `residue` where the last units of rounding go. `chunk_movements` bounds how many
    movements one transaction costs (always whole items), `parts` how many jobs share the work (1:
    the job alone; absent: as many as it is large); results depend on neither.
    """

    period: Annotated[
        str,
        Field(pattern=PERIOD, description="accounting period, YYYY-MM", examples=["2026-01"]),
    ]
    items: (
        Annotated[list[Annotated[str, StringConstraints(pattern=ITEM)]], Field(min_length=1)] | None
    ) = None
    pool: Literal["map", "brand", "store", "company"] | None = None
    method: Literal["periodic_avg", "moving_avg", "fifo", "specific"] | None = None
    negative: Literal["forbid", "provisional"] = "forbid"
    residue: Literal["cumulative", "last_issue", "separate_line"] = "cumulative"
    chunk_movements: Annotated[int, Field(ge=1, le=1_000_000)] = CHUNK_MOVEMENTS
    parts: Annotated[int, Field(ge=1, le=64)] | None = None


# A second submit widens the one that waits; one that runs has read its input, and is followed.
COSTING_RUN = Kind(
    name="costing.run",
    payload=CostingRunPayload,
    queue="costing",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("period",),
    on_duplicate="merge",
    widest_when_absent=("items",),
    locks=(
        Lock(
            root="books/{company}",
            part="{brand}",
            period_from="{payload.period}",
            period_to="{payload.period}",
        ),
    ),
)
# It publishes nothing, so it stands in nobody's way.
COSTING_PREVIEW = Kind(
    name="costing.preview",
    payload=CostingRunPayload,
    queue="costing",
    timeout=COSTING_RUN.timeout,
    retry=COSTING_RUN.retry,
    fingerprint_fields=COSTING_RUN.fingerprint_fields,
    on_duplicate="merge",
    widest_when_absent=COSTING_RUN.widest_when_absent,
)

KINDS = (COSTING_RUN, COSTING_PREVIEW)

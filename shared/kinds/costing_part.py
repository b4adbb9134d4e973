"""Kind `costing.part`: some families of a costing run; made by a run that is large."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from shared.kinds import Kind, Payload, RetryPolicy
from shared.kinds.costing import CHUNK_MOVEMENTS

# More jobs than this share no run: each would be little work, and its end has to be counted.
MOST_PARTS = 64


class CostingPartPayload(Payload):
    """Which part of which run; `chunk_movements` as in the run's payload."""

    run_id: Annotated[int, Field(ge=1)]
    part: Annotated[int, Field(ge=0, lt=MOST_PARTS)]
    chunk_movements: Annotated[int, Field(ge=1, le=1_000_000)] = CHUNK_MOVEMENTS


# It locks nothing: it writes into its own run alone, which nobody reads before it is active.
COSTING_PART = Kind(
    name="costing.part",
    payload=CostingPartPayload,
    queue="costing",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("run_id", "part"),
    internal=True,
    made_by="costing.run",
)

KINDS = (COSTING_PART,)

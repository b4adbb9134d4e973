"""Kind `period.close`: an accounting period of a company is closed, or it is told what is missing.

It is asked for by POST /v1/periods/{period}/close: a job that nobody has asked for there closes
nothing.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from shared.kinds import Kind, Lock, Payload, RetryPolicy
from shared.kinds.costing import PERIOD


class PeriodClosePayload(Payload):
    """Which period; whose is the job's company."""

    period: Annotated[
        str,
        Field(pattern=PERIOD, description="accounting period, YYYY-MM", examples=["2026-01"]),
    ]


PERIOD_CLOSE = Kind(
    name="period.close",
    payload=PeriodClosePayload,
    timeout=timedelta(hours=1),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=1)),
    fingerprint_fields=("period",),
    # Whatever writes books of the company in this period has ended before, or waits until after.
    locks=(
        Lock(
            root="books/{company}",
            period_from="{payload.period}",
            period_to="{payload.period}",
        ),
        # And so has whoever posts in it.
        Lock(
            root="ledger/{company}",
            period_from="{payload.period}",
            period_to="{payload.period}",
        ),
    ),
    internal=True,
    made_by="POST /v1/periods/{period}/close",
)

KINDS = (PERIOD_CLOSE,)

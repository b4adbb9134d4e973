"""Kind `ledger.export`: a report on the ledger as a file. POST /v1/ledger/exports submits it."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from shared.kinds import Kind, Payload, RetryPolicy
from shared.kinds.exporting import FORMATS

REPORTS = ("trial_balance", "general_ledger", "journal")
DAY = r"^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
Day = Annotated[str, Field(pattern=DAY)]


class LedgerExportPayload(Payload):
    """Which report over which days, both included, and how it is written.

    `account` is that of a general ledger, with those below it; `level` how deep a trial balance
    goes. `asked` is of this request alone: books change, and so no two exports are the same work.
    """

    report: Annotated[str, Field(pattern=f"^({'|'.join(REPORTS)})$")]
    format: Annotated[str, Field(pattern=f"^({'|'.join(FORMATS)})$")]
    date_from: Day
    date_to: Day
    account: Annotated[str, Field(pattern=r"^[0-9A-Za-z.]{1,20}$")] | None = None
    level: Annotated[int, Field(ge=1, le=10)] | None = None
    bom: bool
    asked: Annotated[str, Field(min_length=1, max_length=64)]


# In the queue of the costings, as the exports of their results are.
LEDGER_EXPORT = Kind(
    name="ledger.export",
    payload=LedgerExportPayload,
    queue="costing",
    timeout=timedelta(hours=1),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=1)),
    fingerprint_fields=("asked",),
    max_pending=50,
    internal=True,
    made_by="POST /v1/ledger/exports",
)

KINDS = (LEDGER_EXPORT,)

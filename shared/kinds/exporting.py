"""Kind `costing.export`: a table of a cost run as a file. The route of exports submits it."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from shared.kinds import Kind, Payload, RetryPolicy

TABLES = ("results", "stores", "movements", "errors", "differences")
FORMATS = ("csv", "xlsx")
KEEP_FILES = timedelta(days=7)


class CostingExportPayload(Payload):
    """Which table of which run, and how it is written.

    `digits` are those of unit prices. `bom` begins a CSV file with a byte order mark, by which
    Excel knows that it is UTF-8.
    """

    run_id: Annotated[int, Field(ge=1)]
    table: Annotated[str, Field(pattern=f"^({'|'.join(TABLES)})$")]
    format: Annotated[str, Field(pattern=f"^({'|'.join(FORMATS)})$")]
    digits: Annotated[int, Field(ge=2, le=6)]
    bom: bool


# In the queue of the costings: an export keeps a processor busy as they do, and they share slots.
COSTING_EXPORT = Kind(
    name="costing.export",
    payload=CostingExportPayload,
    queue="costing",
    timeout=timedelta(hours=1),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=1)),
    fingerprint_fields=("run_id", "table", "format", "digits", "bom"),
    max_pending=50,
    internal=True,
    made_by="POST /v1/cost-runs/{run_id}/exports",
)

KINDS = (COSTING_EXPORT,)

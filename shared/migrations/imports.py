"""The tasks that import a file: what is asked for, without the worker's code."""

from collections.abc import Sequence
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from shared.kinds import Payload
from shared.migrations import TaskSpec


class ImportParams(Payload):
    """Which file, and how it is written where it does not say so itself.

    `decimal`: what stands before decimals; absent, each number shows it, and one that does not
    (1.234) is refused. `date_order` is that of dates such as 31/01/2026. `encoding` and `delimiter`
    are of CSV without byte order mark, `sheet` of XLSX (absent: the first one). `head_line`: the
    first line that may be the one with the heads. `other_columns`: what is done with columns that
    the import does not know.
    """

    file: Annotated[UUID, Field(strict=False, description="id of a file sent to POST /v1/files")]
    delimiter: Literal[",", ";", "\t", "|"] | None = None
    decimal: Literal[".", ","] | None = None
    date_order: Literal["dmy", "mdy"] = "dmy"
    sheet: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    encoding: Literal["utf-8", "utf-16", "windows-1258", "windows-1252"] | None = None
    head_line: Annotated[int, Field(ge=1, le=1_000)] = 1
    other_columns: Literal["refuse", "ignore"] = "refuse"


IMPORT_MOVEMENTS = TaskSpec(
    name="import.movements",
    description="Stock movements of a CSV or XLSX file, each once, known by document and line.",
    params=ImportParams,
    per_brand=True,
    operates=False,
)
IMPORT_OPENINGS = TaskSpec(
    name="import.openings",
    description="Opening stock of a file, known by day, store, item and lot.",
    params=ImportParams,
    per_brand=True,
    operates=False,
)
IMPORT_ITEMS = TaskSpec(
    name="import.items",
    description="Items and their units of a file: new ones are added, names and groups follow.",
    params=ImportParams,
    operates=False,
)
IMPORT_DOCUMENTS = TaskSpec(
    name="import.documents",
    description="Documents of a file, one line each of their lines, known by type and number.",
    params=ImportParams,
    per_brand=True,
    operates=False,
)

TASKS: Sequence[TaskSpec] = (IMPORT_MOVEMENTS, IMPORT_DOCUMENTS, IMPORT_ITEMS, IMPORT_OPENINGS)

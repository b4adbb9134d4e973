"""Kind `posting.post`: documents are posted to the ledger (ghi sổ), each whole or all or none."""

from datetime import date, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from shared.kinds import Kind, Lock, Payload, RetryPolicy

DAY = r"^[12][0-9]{3}-[01][0-9]-[0-3][0-9]$"
# Documents in one transaction: small enough to lose little at a kill, and to be quick.
CHUNK_DOCUMENTS = 500
# As many ids as a payload of 256 KiB holds, whatever they are.
MOST_DOCUMENTS = 12_000
FILTERS = ("types", "date_from", "date_to", "stores")

Day = Annotated[
    str, StringConstraints(pattern=DAY), Field(description="YYYY-MM-DD", examples=["2026-01-31"])
]


class Selection(Payload):
    """Which documents: these by their ids, or all that fit every filter given.

    Days are posting dates, both included. `stores` are those of the documents, not of their lines.
    """

    documents: (
        Annotated[
            list[Annotated[int, Field(ge=1, le=2**63 - 1)]],
            Field(min_length=1, max_length=MOST_DOCUMENTS),
        ]
        | None
    ) = None
    types: (
        Annotated[
            list[
                Literal[
                    "sale",
                    "sale_return",
                    "purchase",
                    "purchase_return",
                    "transfer",
                    "cash_in",
                    "cash_out",
                    "manual",
                    "opening",
                ]
            ],
            Field(min_length=1),
        ]
        | None
    ) = None
    date_from: Day | None = None
    date_to: Day | None = None
    stores: (
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=40)]],
            Field(min_length=1, max_length=1_000),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _selects(self) -> Self:
        filters = [name for name in FILTERS if getattr(self, name) is not None]
        if self.documents is not None and filters:
            raise ValueError(f"documents are named by their ids: leave out {', '.join(filters)}")
        if self.documents is None and not filters:
            raise ValueError(
                "nothing is selected: name documents, or at least one of " + ", ".join(FILTERS)
            )
        days = {
            name: parse_day(name, getattr(self, name)) for name in FILTERS[1:3] if name in filters
        }
        if len(days) == 2 and days["date_from"] > days["date_to"]:
            raise ValueError(f"date_from={self.date_from} is after date_to={self.date_to}")
        return self


def parse_day(name: str, value: str) -> date:
    """The day of that member; ValueError names it where there is no such day."""
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"{name}={value} is no day: {error}") from None


class PostingPayload(Selection):
    """Which documents to post, and whether each is for itself or all are posted or none.

    `per_document`: every document ends with an outcome of its own. `atomic`: all are posted in one
    transaction, or none of them. `chunk_documents` bounds how many one transaction looks at; what
    is posted does not depend on it.
    """

    mode: Literal["per_document", "atomic"] = "per_document"
    chunk_documents: Annotated[int, Field(ge=1, le=5_000)] = CHUNK_DOCUMENTS


# Posters do not keep each other out, but a close of the period keeps out all of them. A list that
# is being worked on was made when the job began: what asks for the same again follows it.
POSTING_POST = Kind(
    name="posting.post",
    payload=PostingPayload,
    queue="posting",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("*",),
    on_duplicate="follow_up",
    locks=(
        Lock(
            root="ledger/{company}",
            part="{brand}",
            mode="shared",
            period_from="{payload.date_from}",
            period_to="{payload.date_to}",
        ),
    ),
)

KINDS = (POSTING_POST,)

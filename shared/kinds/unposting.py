"""Kind `posting.unpost`: posted documents are taken off the ledger (bỏ ghi sổ), by reversals."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from shared.audit import Action
from shared.kinds import Kind, Lock, RetryPolicy
from shared.kinds.posting import CHUNK_DOCUMENTS, DAY, Selection, parse_day

ORIGINAL_IF_OPEN = "original_if_open"


class UnpostingPayload(Selection):
    """Which documents to unpost, on which day, and what becomes of the costs that hang on them.

    `reversal_date`: the day of the reversing entries; `original_if_open`: that of each entry, whose
    period must be open. `dependants`: what a cost document of that slip alone has booked is
    reversed with it, or the document is refused. `reason` is the memo of the reversing entries, and
    in the audit.
    """

    reversal_date: Annotated[
        str,
        StringConstraints(pattern=rf"^original_if_open$|{DAY}"),
        Field(examples=["original_if_open", "2026-02-01"]),
    ] = ORIGINAL_IF_OPEN
    dependants: Literal["reverse", "refuse"] = "refuse"
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00]+$")]
    chunk_documents: Annotated[int, Field(ge=1, le=5_000)] = CHUNK_DOCUMENTS

    @model_validator(mode="after")
    def _is_a_day(self) -> Self:
        if self.reversal_date != ORIGINAL_IF_OPEN:
            parse_day("reversal_date", self.reversal_date)
        return self


# As posters do, they keep nobody out of the ledger but a close. It is not known beforehand which
# periods the entries are of, so they are of all. While they run the costs stay as they are.
POSTING_UNPOST = Kind(
    name="posting.unpost",
    payload=UnpostingPayload,
    queue="posting",
    timeout=timedelta(hours=2),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("*",),
    locks=(
        Lock(root="ledger/{company}", part="{brand}", mode="shared"),
        Lock(root="cost-documents/{company}", part="{brand}", mode="shared"),
    ),
    approval=Action.POSTING_UNPOST.value,
)

KINDS = (POSTING_UNPOST,)

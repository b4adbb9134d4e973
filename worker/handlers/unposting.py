"""Unposting (bỏ ghi sổ): a selection of posted documents is taken off the ledger, chunk by chunk.

As posting does it: the selection is made once, and a chunk is one transaction of reversing entries,
the documents' next version as drafts, their outcomes, the checkpoint and the fence. The latest
documents come first: a return is off before the sale that it refers to.
"""

from collections.abc import Sequence
from datetime import date

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.kinds.unposting import ORIGINAL_IF_OPEN, POSTING_UNPOST, UnpostingPayload
from worker.context import JobContext
from worker.handlers import Handler
from worker.handlers.posting import begin, clean_up_posting, finish, poster_of, work_through
from worker.records.posting_list import Listed, Outcome
from worker.records.unposting import Unposter, unpost_documents


async def run_unposting(context: JobContext, payload: UnpostingPayload) -> None:
    """Unpost the selection and complete the job with what became of each document."""
    if context.checkpoint is None:
        await begin(context, payload, status="posted", newest_first=True)
    original = payload.reversal_date == ORIGINAL_IF_OPEN
    unposter = Unposter(
        poster=poster_of(context),
        day=None if original else date.fromisoformat(payload.reversal_date),
        costs=payload.dependants == "reverse",
        reason=payload.reason,
    )

    async def act(conn: AsyncConnection, listed: Sequence[Listed]) -> tuple[Sequence[Outcome], int]:
        return await unpost_documents(conn, unposter, listed)

    await work_through(context, payload.chunk_documents, act)
    await finish(context, "unposted")


HANDLERS = (Handler(kind=POSTING_UNPOST.name, run=run_unposting, cleanup=clean_up_posting),)

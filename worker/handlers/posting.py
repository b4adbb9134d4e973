"""Posting (ghi sổ): a selection of documents is written into the ledger, chunk by chunk.

The selection is made once, into books.posting_items, when the job begins; every attempt goes on
from that list. A chunk is one transaction: entries, the documents' status, their outcomes, the
checkpoint and the fence. So whatever is done again after a kill is what had not been committed.
A document that somebody else holds is left out and tried again in a later pass.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.kinds.posting import POSTING_POST, PostingPayload, Selection
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler
from worker.handlers.posting_atomic import post_atomically
from worker.records.posting import (
    GATE_REFUSALS,
    Poster,
    lock_documents,
    look_up_by_keys,
    post_documents,
)
from worker.records.posting_list import (
    FORGET_STAGED,
    Listed,
    Outcome,
    give_up,
    list_documents,
    next_documents,
    note_outcomes,
    summarize,
)

# How often documents that others hold are tried again, and how long after the pass before.
MOST_PASSES = 6
FIRST_WAIT = timedelta(seconds=1)
# How often a chunk is begun again because a period was closed just then.
MOST_CLOSES = 5
BUSY_DETAIL = "another transaction held it each time; ask for it again"
# What is done with a chunk of the list in its transaction: outcomes, and how many were busy.
Act = Callable[[AsyncConnection, Sequence[Listed]], Awaitable[tuple[Sequence[Outcome], int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How far a posting is: what its checkpoint says."""

    total: int
    done: int
    pass_no: int = 1
    after: int = 0
    busy: int = 0


async def run_posting(context: JobContext, payload: PostingPayload) -> None:
    """Post the selection and complete the job with what became of it; see the module.

    `atomic`: PermanentError ATOMIC_REFUSED when any document cannot be posted; then none is.
    """
    if context.checkpoint is None:
        await begin(context, payload, status="draft")
    if payload.mode == "atomic":
        await post_atomically(context, payload, poster_of(context))
        return

    async def act(conn: AsyncConnection, listed: Sequence[Listed]) -> tuple[Sequence[Outcome], int]:
        free, busy = await lock_documents(conn, listed)
        return await post_documents(conn, poster_of(context), free), len(busy)

    await work_through(context, payload.chunk_documents, act)
    await finish(context, "posted")


async def begin(
    context: JobContext, selection: Selection, *, status: str, newest_first: bool = False
) -> None:
    """Make the job's list, once: its documents that are `status` now."""
    context.progress(0, unit="documents", message="selecting")
    async with context.transaction() as tx:
        total, done = await list_documents(
            tx.connection, context.job, selection, status=status, newest_first=newest_first
        )
        tx.checkpoint = asdict(Course(total=total, done=done))
        tx.progress(done, total, unit="documents", message="selected")


async def finish(context: JobContext, said: str) -> None:
    """Complete the job with what became of its list; what is left of it was busy to the end.

    `said`: what those are that ended well. Its progress says how many did not.
    """
    async with context.completion() as tx:
        await give_up(tx.connection, context.job.id, "BUSY", BUSY_DETAIL)
        tx.result = await summarize(tx.connection, context.job)
        total, failed = tx.result["documents"], tx.result["failures_total"]
        told = f"{total - failed:,} {said}, {failed:,} not" if failed else said
        tx.progress(total, total, unit="documents", message=told)


async def work_through(context: JobContext, most: int, act: Act) -> None:
    """Pass after pass over what is left of the list; what is busy at the last one is left."""
    while True:
        assert context.checkpoint is not None, "the list has been made"
        course = Course(**context.checkpoint)
        while (later := await _chunk(context, course, most, act)) is not None:
            course = later
            context.yield_if_asked()
        if course.busy == 0 or course.pass_no == MOST_PASSES:
            return
        async with context.transaction() as tx:
            again = replace(course, pass_no=course.pass_no + 1, after=0, busy=0)
            tx.checkpoint = asdict(again)
        context.snooze(
            f"{course.busy} documents are held by other transactions; pass {again.pass_no} of "
            f"{MOST_PASSES} tries them again",
            after=FIRST_WAIT * 2 ** (course.pass_no - 1),
        )


async def _chunk(context: JobContext, course: Course, most: int, act: Act) -> Course | None:
    """The next documents of the pass; None at its end."""
    for again in range(MOST_CLOSES + 1):
        try:
            async with context.transaction() as tx:
                await look_up_by_keys(tx.connection)
                job_id = context.job.id
                listed = await next_documents(tx.connection, job_id, after=course.after, most=most)
                if not listed:
                    return None
                outcomes, busy = await act(tx.connection, listed)
                await note_outcomes(tx.connection, job_id, outcomes)
                later = replace(
                    course,
                    after=listed[-1].seq,
                    done=course.done + len(outcomes),
                    busy=course.busy + busy,
                )
                tx.checkpoint = asdict(later)
                told = f"{later.busy} busy" if later.busy else ""
                tx.progress(later.done, later.total, unit="documents", message=told)
        except DBAPIError as error:
            if sqlstate_of(error) not in GATE_REFUSALS or again == MOST_CLOSES:
                raise
        else:
            return later
    raise AssertionError("the last try has returned or raised")


def poster_of(context: JobContext) -> Poster:
    """Who posts: the job, under this claim."""
    return Poster(
        job_id=context.job.id,
        fence=context.lease.fence,
        company=context.job.company,
        brand=context.job.brand,
    )


async def clean_up_posting(context: CleanupContext) -> None:
    """Remove what was staged, and end the list: what is posted stays posted, the rest never was."""
    await context.connection.execute(FORGET_STAGED, {"job_id": context.job.id})
    detail = "the job ended before"
    await give_up(context.connection, context.job.id, "NOT_REACHED", detail)


HANDLERS = (Handler(kind=POSTING_POST.name, run=run_posting, cleanup=clean_up_posting),)

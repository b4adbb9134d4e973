"""Atomic posting: every document of the selection is posted, or none of them.

All are judged first, and their lines staged, chunk by chunk: what takes long holds nobody up, and a
kill loses one chunk of it. Then one transaction locks them all, looks whether anything has changed
since, and publishes. What has changed is staged again; what is wrong with any refuses them all.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.errors import PermanentError
from shared.exact_json import dump_exact
from shared.jobs.outcomes import SUCCESSES
from shared.kinds.posting import PostingPayload
from worker.context import JobContext
from worker.records.posting import GATE_REFUSALS, Poster, look_up_by_keys
from worker.records.posting_list import give_up, read_failures, summarize
from worker.records.posting_stage import (
    ANY_CHANGED,
    COUNT_REFUSED,
    END_LIST,
    GIVE_UP_CHANGED,
    GIVE_UP_HELD,
    LOCK_LISTED,
    PASS_ALL_GATES,
    UNSTAGE_ALL,
    UNSTAGE_CHANGED,
    next_unstaged,
    publish,
    read_grounds,
    stage_documents,
)

# How often it is tried to publish, while documents are held by others or change.
MOST_TRIES = 8
FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=30)
MOST_DETAIL_BYTES = 3_200
# In place of the grounds of all: some of the documents were judged by others.
MIXED = "mixed"
HELD_BACK = "not posted, because another document of the selection cannot be"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """How far an atomic posting is: what its checkpoint says.

    `grounds`: by which rules, roles and accounts it is staged; empty before the first chunk.
    """

    total: int
    done: int = 0
    after: int = 0
    tries: int = 0
    refused: bool = False
    grounds: str = ""


class _NotNowError(Exception):
    """Something stands against the publication, which is rolled back; what, in words."""


class _RefusedError(_NotNowError):
    """Some of the documents cannot be posted."""


class _HeldError(_NotNowError):
    """Other transactions hold documents."""


class _ChangedError(_NotNowError):
    """Documents, periods or accounts are not as they were when they were staged."""


async def post_atomically(context: JobContext, payload: PostingPayload, poster: Poster) -> None:
    """Stage, publish and complete the job; see the module.

    PermanentError ATOMIC_REFUSED when any document cannot be posted; its outcomes say which.
    """
    while True:
        staging = await _stage(context, payload.chunk_documents, poster)
        try:
            await _publish(context, poster, staging)
        except _RefusedError:
            await _refuse(context, staging)
        except _HeldError as held:
            await _try_later(context, staging, str(held))
        except _ChangedError as changed:
            await _stage_again(context, poster, staging, str(changed))
        else:
            return


def _staging(context: JobContext) -> Staging:
    assert context.checkpoint is not None, "the list has been made"
    names = Staging.__dataclass_fields__
    return Staging(**{name: value for name, value in context.checkpoint.items() if name in names})


async def _stage(context: JobContext, most: int, poster: Poster) -> Staging:
    staging = _staging(context)
    while not staging.refused:
        async with context.transaction() as tx:
            await look_up_by_keys(tx.connection)
            listed = await next_unstaged(
                tx.connection, context.job.id, after=staging.after, most=most
            )
            if not listed:
                break
            grounds = await stage_documents(tx.connection, poster, listed)
            if staging.grounds not in {"", grounds}:
                grounds = MIXED
            done = min(staging.done + len(listed), staging.total)
            staging = replace(staging, after=listed[-1].seq, done=done, grounds=grounds)
            tx.checkpoint = asdict(staging)
            tx.progress(done, staging.total, unit="documents", message="checked")
        context.yield_if_asked()
    return staging


async def _publish(context: JobContext, poster: Poster, staging: Staging) -> None:
    total = staging.total
    context.progress(total, total, unit="documents", message="all are checked; publishing them")
    job = {"job_id": context.job.id}
    ours = job | {"company": context.job.company}
    try:
        async with context.completion() as tx:
            judged = job | {"successes": list(SUCCESSES)}
            if staging.refused or await tx.connection.scalar(COUNT_REFUSED, judged):
                raise _RefusedError
            busy = await tx.connection.scalar(LOCK_LISTED, job)
            if busy:
                raise _HeldError(f"{busy} documents are held by other transactions")
            await tx.connection.execute(PASS_ALL_GATES, ours)
            # A new statement: what waited would still see everything as it was before.
            if await tx.connection.scalar(ANY_CHANGED, ours):
                raise _ChangedError("documents have changed since they were checked")
            if await _is_elsewhere(tx.connection, poster, staging):
                raise _ChangedError("rules, roles or accounts have changed since they were checked")
            await publish(tx.connection, poster)
            tx.progress(total, total, unit="documents", message="posted")
            tx.result = await summarize(tx.connection, context.job)
    except DBAPIError as error:
        if sqlstate_of(error) in GATE_REFUSALS:
            raise _ChangedError("a period was closed since they were checked") from error
        raise


async def _is_elsewhere(conn: AsyncConnection, poster: Poster, staging: Staging) -> bool:
    """Whether rules, roles or the chart are others than those that it was staged by."""
    return bool(staging.grounds) and (await read_grounds(conn, poster.company) != staging.grounds)


async def _try_later(context: JobContext, staging: Staging, why: str) -> None:
    """Come back in a while; after the last try say which are held, and refuse."""
    tries = staging.tries + 1
    async with context.transaction() as tx:
        if tries >= MOST_TRIES:
            given_up = {"job_id": context.job.id, "detail": f"{why}, {tries} times"}
            await tx.connection.execute(GIVE_UP_HELD, given_up)
        tx.checkpoint = asdict(replace(staging, tries=tries))
    if tries < MOST_TRIES:
        wait = min(FIRST_WAIT * 2**staging.tries, LONGEST_WAIT)
        context.snooze(f"{why}; try {tries + 1} of {MOST_TRIES} follows", after=wait)


async def _stage_again(context: JobContext, poster: Poster, staging: Staging, why: str) -> None:
    """Judge anew what has changed; what changes at every try is given up."""
    tries = staging.tries + 1
    async with context.transaction() as tx:
        binds = {"job_id": context.job.id, "company": poster.company}
        if await _is_elsewhere(tx.connection, poster, staging):
            staging = replace(staging, grounds="")
            await tx.connection.execute(UNSTAGE_ALL, {"job_id": context.job.id})
        else:
            await tx.connection.execute(UNSTAGE_CHANGED, binds)
        if tries >= MOST_TRIES:
            given_up = {"job_id": context.job.id, "detail": f"{why}, {tries} times"}
            await tx.connection.execute(GIVE_UP_CHANGED, given_up)
        tx.checkpoint = asdict(replace(staging, after=0, tries=tries))


async def _refuse(context: JobContext, staging: Staging) -> NoReturn:
    async with context.transaction() as tx:
        await tx.connection.execute(END_LIST, {"job_id": context.job.id})
        await give_up(tx.connection, context.job.id, "NOT_POSTED", HELD_BACK)
        summary = await summarize(tx.connection, context.job)
        failures = await read_failures(
            tx.connection, context.job, most=20, passing_over=("NOT_POSTED",)
        )
        tx.checkpoint = asdict(replace(staging, refused=True))
    outcomes = summary["outcomes"]
    wrong = {name: n for name, n in outcomes.items() if name not in {*SUCCESSES, "NOT_POSTED"}}
    told = ", ".join(f"{name} ({n})" for name, n in sorted(wrong.items()))
    raise PermanentError(
        f"ATOMIC_REFUSED: none of {summary['documents']} documents is posted: {told}; put them "
        "right and post them again",
        code="ATOMIC_REFUSED",
        details={"outcomes": outcomes, "failures": _fitted(failures)},
    )


def _fitted(failures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as an error's details hold; all of them are in the job's outcomes."""
    kept: list[dict[str, Any]] = []
    for failure in failures:
        if len(dump_exact([*kept, failure]).encode()) > MOST_DETAIL_BYTES:
            break
        kept.append(failure)
    return kept

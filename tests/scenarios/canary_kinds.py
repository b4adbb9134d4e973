"""A kind whose handler fails in every way with its payload in its hands, and its words full of it."""

import asyncio
import logging
import warnings
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from shared.errors import PermanentError, Snooze, Yield
from shared.kinds import Kind, Payload, RetryPolicy
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler


class Canary(Payload):
    """Something that no log may hold."""

    number: int
    secret: str
    how: str
    notes: dict[str, Any]


async def sing(context: JobContext, payload: Canary) -> Any:
    """Fail with the secret in the error's words, in a local variable, and in SQL."""
    secret = payload.secret
    context.progress(1, 2, unit="notes", message=f"at {secret}")
    match payload.how:
        case "raise":
            raise ValueError(f"{secret} is not wanted")
        case "permanent":
            raise PermanentError(f"{secret} is wrong", code="WRONG", details={"secret": secret})
        case "snooze":
            raise Snooze(f"waits for {secret}", after=timedelta(hours=1))
        case "yield":
            if context.job.attempt == 1:
                raise Yield(f"lets {secret} go first")
            return {"secret": secret}
        case "unique" | "data":
            await _refused_by_the_server(context, payload)
        case "assert":
            assert secret == payload.how, f"{secret} is not {payload.how}"
        case "group":
            _noise(secret)
    return {"secret": secret}


async def _refused_by_the_server(context: JobContext, payload: Canary) -> None:
    async with context.transaction() as tx:
        binds = {"secret": payload.secret}
        if payload.how == "data":
            await tx.connection.execute(text("SELECT CAST(:secret AS text)::integer"), binds)
        await tx.connection.execute(text("CREATE TEMP TABLE notes (note text UNIQUE)"))
        insert = text("INSERT INTO notes VALUES (:secret), (:secret)")
        await tx.connection.execute(insert, binds)


def _noise(secret: str) -> None:
    """What libraries do: a log line, a warning, a task whose error nobody looks at."""
    logging.getLogger("a.library").debug("it is %s", secret)
    warnings.warn("something is old", DeprecationWarning, stacklevel=1)

    async def forgotten() -> None:
        raise ValueError(secret)

    asyncio.ensure_future(forgotten())  # noqa: RUF006 - that is the point


async def clean_up(context: CleanupContext) -> None:
    """Fail, too; of those that are redriven, do not."""
    if context.job.payload["how"] in {"unique", "data", "assert"}:
        raise RuntimeError(f"cannot remove {context.job.payload}")


KINDS = (
    Kind(
        name="probe.canary",
        payload=Canary,
        timeout=timedelta(seconds=30),
        retry=RetryPolicy(
            max_attempts=2, base=timedelta(milliseconds=50), cap=timedelta(milliseconds=50)
        ),
        fingerprint_fields=("number",),
    ),
)
HANDLERS = (Handler(kind="probe.canary", run=sing, cleanup=clean_up),)

"""What is told of an attempt: every line about it names it, its end is one line, and a span."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from structlog.contextvars import bound_contextvars

from shared.exact_json import load_exact
from shared.logs import log
from shared.tracing import Span, spans, trace_id_of, tracing
from worker.lease import HeldLease
from worker.outcome import Failed, Lost, Outcome, Released, error_json

Tell = Callable[[Outcome], None]
# Reasons of ours; a handler's own words may hold data of the payload.
OURS = frozenset({"the worker drains", "the attempt was cancelled"})


@contextmanager
def telling(held: HeldLease) -> Iterator[Tell]:
    """Within the block every line is of this attempt; what it gives is called once, at its end.

    It is called after the outcome is stored: before, the line would be a guess.
    """
    job, began = held.job, monotonic()
    trace_id = trace_id_of(job.trace)
    facts: dict[str, Any] = {
        "job_id": str(job.id),
        "kind": job.kind,
        "attempt": job.attempt,
        "fence": held.lease.fence,
    }
    of_trace = {} if trace_id is None else {"trace_id": trace_id}
    message = {} if held.delivery is None else {"message_id": held.delivery.message_id}
    with (
        tracing(job.trace),
        bound_contextvars(**facts, **of_trace),
        spans().process(job.queue, job.trace, facts | message) as span,
    ):
        yield lambda outcome: _ended(held, outcome, monotonic() - began, span)


def _ended(held: HeldLease, outcome: Outcome, seconds: float, span: Span) -> None:
    name = type(outcome).__name__.lower()
    told = _told(outcome)
    say = log.warning if isinstance(outcome, Failed | Lost) else log.info
    waited = held.queue_seconds
    say(
        "attempt.ended",
        outcome=name,
        queue_seconds=None if waited is None else round(waited, 3),
        run_seconds=round(seconds, 3),
        taken_over=held.taken_over,
        **told,
    )
    span.set(outcome=name, reason=told.get("reason"))
    if isinstance(outcome, Failed | Lost):
        span.failed(str(told.get("error") or name))


def _told(outcome: Outcome) -> dict[str, Any]:
    """Why it ended so. The error's own words may hold data of the payload: they stand in the
    database, its type and place stand here.
    """
    match outcome:
        case Failed():
            error = load_exact(error_json(outcome.error, outcome.code))
            return {"error": error["type"], "code": error["code"], "where": error.get("where")}
        case Released():
            return {"reason": outcome.reason if outcome.reason in OURS else outcome.type.lower()}
        case Lost():
            return {"reason": outcome.reason}
    return {}


def kind_of_end(outcome: Failed | Released) -> str:
    """What the job died of, without the error's words: its type and code."""
    if isinstance(outcome, Released):
        return outcome.type
    error = load_exact(error_json(outcome.error, outcome.code))
    return f"{error['type']} ({error['code']})"

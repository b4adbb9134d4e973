"""The access log: one JSON line a request, after its response; never a payload or a header."""

from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from api.gate import FACTS, RequestFacts
from api.signals import note_request
from shared.logs import log
from shared.tracing import Span, read_trace, spans, trace_id_of, tracing

METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
)
OTHER_METHOD = "_OTHER"  # OpenTelemetry's word for it


class AccessLog:
    """Outermost ASGI middleware: gives each request its facts and logs them at its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; status 0 in the log means that nobody waited for the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts = scope[FACTS] = RequestFacts()
        with (
            spans().request(_method_of(scope), _trace_of(scope)) as span,
            tracing(span.trace),
        ):
            told = bind_contextvars(request_id=facts.request_id, **_trace_id(span))
            try:
                await self._serve(scope, receive, send, facts, span)
            finally:
                reset_contextvars(**told)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, facts: RequestFacts, span: Span
    ) -> None:
        began, status = perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            # Answered outside of us, by the framework's outermost layer.
            status, facts.problem = status or 500, "internal-error"
            raise
        finally:
            seconds = perf_counter() - began
            note_request(status, seconds)
            _tell_span(span, scope, facts, status)
            _tell(scope, facts, status, seconds * 1000)


def _method_of(scope: Scope) -> str:
    """The method, if it is one: a client may send any word of up to 64 KiB, and needs no key."""
    method: str = scope["method"]
    return method if method in METHODS else OTHER_METHOD


def _trace_of(scope: Scope) -> str | None:
    """The trace that the client's headers say; a header is bytes, and may be any."""
    parents = [value for name, value in scope["headers"] if name == b"traceparent"]
    if not parents:
        return None
    states = [value for name, value in scope["headers"] if name == b"tracestate"]
    return read_trace(*([each.decode("latin-1") for each in found] for found in (parents, states)))


def _trace_id(span: Span) -> dict[str, Any]:
    trace_id = trace_id_of(span.trace)
    return {} if trace_id is None else {"trace_id": trace_id}


def _tell_span(span: Span, scope: Scope, facts: RequestFacts, status: int) -> None:
    span.set(
        method=_method_of(scope),
        route=getattr(scope.get("route"), "path", None),
        status=status or None,
        request_id=facts.request_id,
        job_id=facts.job_id,
    )
    if status >= 500:
        span.failed(facts.problem or str(status))


def _tell(scope: Scope, facts: RequestFacts, status: int, milliseconds: float) -> None:
    caller = facts.caller
    known = {
        "principal": caller and caller.principal,
        "key": caller and caller.key_id,
        "job_id": facts.job_id,
        "problem": facts.problem,
    }
    log.info(
        "http.request",
        method=_method_of(scope),
        route=getattr(scope.get("route"), "path", None),
        status=status,
        ms=round(milliseconds, 2),
        request_id=facts.request_id,
        **{name: value for name, value in known.items() if value is not None},
    )

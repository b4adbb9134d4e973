"""The access log: one JSON line a request, after its response; never a payload or a header."""

import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.gate import FACTS, RequestFacts
from shared.logs import log


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
            _tell(scope, facts, status, (perf_counter() - began) * 1000)


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
        method=scope["method"],
        route=getattr(scope.get("route"), "path", None),
        status=status,
        ms=round(milliseconds, 2),
        request_id=facts.request_id,
        **{name: value for name, value in known.items() if value is not None},
    )


class ToStructlog(logging.Handler):
    """Turns what libraries log into lines of the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a traceback goes with it."""
        log.log(
            record.levelno,
            record.name,
            message=record.getMessage(),
            exc_info=record.exc_info or None,
        )


def route_library_logs() -> None:
    """Send warnings and errors of uvicorn and the others through our log, and nothing else."""
    logging.basicConfig(handlers=[ToStructlog()], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """An unhandled error has been logged already, under the id of its request."""
    return not (record.exc_info and "ASGI application" in record.getMessage())

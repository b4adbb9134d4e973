"""What libraries log, and what nobody catches, as lines of the same form as ours."""

import logging
import sys
import threading
from types import TracebackType

from shared.logs import log


class ToStructlog(logging.Handler):
    """Turns what libraries log into lines of the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; where an error goes with it, its type and place are told."""
        # asyncio's further lines show the values that a task has held.
        message = record.getMessage().partition("\n")[0]
        log.log(record.levelno, record.name, message=message, exc_info=record.exc_info or None)


def route_library_logs() -> None:
    """Send warnings and errors of libraries through our log, and nothing else."""
    logging.basicConfig(handlers=[ToStructlog()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """An unhandled error has been logged already, under the id of its request."""
    return not (record.exc_info and "ASGI application" in record.getMessage())


def tell_uncaught() -> None:
    """Log what ends the process, or a thread of it, where Python would print its words."""
    sys.excepthook = _tell
    threading.excepthook = _tell_of_thread


def _tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    log.critical("process.uncaught", exc_info=error)


def _tell_of_thread(args: threading.ExceptHookArgs) -> None:
    name = None if args.thread is None else args.thread.name
    log.critical("thread.uncaught", thread=name, exc_info=args.exc_value)

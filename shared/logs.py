"""Logs: one JSON line an event, readable on a terminal; and the alert, a log line that calls."""

import importlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TextIO

import structlog

from shared.errors import ConfigRefused
from shared.telling import scrubbed, shown

log: structlog.stdlib.BoundLogger = structlog.get_logger("chot")

AlertHook = Callable[[str, Mapping[str, Any]], None]
_hooks: list[AlertHook] = []


def configure_logs(style: str = "auto", *, level: int = logging.INFO) -> None:
    """Write to stderr as JSON lines, or as text when it is a terminal (or `style` says so)."""
    as_text = style == "text" or (style == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=_as_text)
        if as_text
        else structlog.processors.JSONRenderer(serializer=_as_json)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _scrub,
            _tracebacks if not as_text else _as_is,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


# An error's words and a traceback's local variables would put payloads and tokens into the log.
_tracebacks = structlog.processors.ExceptionRenderer(lambda found: shown(found[1]))


def _as_text(out: TextIO, found: Any) -> None:
    """The same on a terminal."""
    for each in shown(found[1]):
        lines = [f"  {frame}" for frame in each["frames"]]
        said = f": {each['said']}" if "said" in each else ""
        out.write("\n".join([*lines, f"{each['type']}{said}", ""]))


def _scrub(_logger: Any, _name: str, event: Any) -> Any:
    """No line holds a password of a URL, whoever wrote it."""
    for name, value in event.items():
        if isinstance(value, str) and ("://" in value or "\n" in value):
            event[name] = scrubbed(value)
    return event


@cache
def _encoder(default: Callable[[Any], Any]) -> json.JSONEncoder:
    """One for all lines: json.dumps() would make one for each."""
    return json.JSONEncoder(default=default)


def _as_json(event: Any, *, default: Callable[[Any], Any]) -> str:
    return _encoder(default).encode(event)


def _as_is(_logger: Any, _name: str, event: Any) -> Any:
    return event


def add_alert_hook(setting: str) -> None:
    """Register `module:function` (CHOT_ALERT_HOOK), called with (event, fields) on each alert."""
    module, _, name = setting.partition(":")
    try:
        hook = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigRefused(
            f"CHOT_ALERT_HOOK={setting!r} is no module:function: {error}"
        ) from error
    _hooks.append(hook)


def alert(event: str, **fields: Any) -> None:
    """Tell a human: a log line at level error with `alert: true`, and every hook.

    A hook that fails is logged and changes nothing else.
    """
    log.error(event, alert=True, **fields)
    for hook in _hooks:
        try:
            hook(event, fields)
        except Exception:  # noqa: BLE001 - whatever a stranger's hook raises, the job goes on
            log.warning("alert_hook.failed", hook=getattr(hook, "__qualname__", str(hook)))

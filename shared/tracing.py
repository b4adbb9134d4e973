"""Traces: the W3C trace context of a request, kept with its jobs and told in every line about them.

What a client sends as `traceparent` and `tracestate` is kept in one text, `traceparent tracestate`,
in jobs.trace: it goes with the job's message, its attempts, what it spawns and its follow-ups.
Malformed headers are ignored, as the recommendation wants it: a trace is nobody's data.

Spans are made only where OTEL_* variables ask for them and the extra `chot[otel]` is installed
(shared/spans.py); without, nothing of it is imported.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self

from shared.logs import log

LONGEST = 512  # bytes, as the column and a message hold
MOST_STATES = 32
PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
# One member of tracestate: a key, perhaps of a tenant, and a value of printable ASCII.
STATE = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}")

# The trace of whatever runs now: a request, or an attempt; "" where it has none.
CURRENT: ContextVar[str] = ContextVar("chot_trace", default="")


def read_trace(parents: Sequence[str], states: Sequence[str]) -> str | None:
    """What the two headers say, as it is kept; None where there is none or it is malformed.

    More than one traceparent is malformed. A tracestate that breaks a rule is left out whole; of
    one that is too long the last members are, which are the oldest.
    """
    if len(parents) != 1:
        return None
    parent = _parent(parents[0].strip())
    if parent is None:
        return None
    members = _members(",".join(states))
    while members and len(parent) + 1 + len(",".join(members)) > LONGEST:
        members.pop()
    return f"{parent} {','.join(members)}" if members else parent


def _parent(said: str) -> str | None:
    """The header in the version that we write, 00; a later one begins with the same fields."""
    found = PARENT.fullmatch(said) if len(said) <= LONGEST else None
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not (trace.strip("0") and span.strip("0")):
        return None
    return f"00-{trace}-{span}-{flags if version == '00' else f'{int(flags, 16) & 1:02x}'}"


def _members(said: str) -> list[str]:
    members = [member.strip(" \t") for member in said.split(",")]
    members = [member for member in members if member]
    keys = [member.partition("=")[0] for member in members]
    sound = all(STATE.fullmatch(member) for member in members)
    if not sound or len(members) > MOST_STATES or len(set(keys)) < len(keys):
        return []
    return members


def headers_of(trace: str | None) -> dict[str, str]:
    """The headers that pass a kept trace on; empty where there is none that is sound."""
    if trace is None or trace_id_of(trace) is None:
        return {}
    parent, _, state = trace.partition(" ")
    return {"traceparent": parent} | ({"tracestate": state} if state else {})


def trace_id_of(trace: str | None) -> str | None:
    """The trace's id; None of a text that is no trace, such as a caller in SQL may have given."""
    parent = None if trace is None else _parent(trace.partition(" ")[0])
    return None if parent is None else parent.split("-")[1]


def current_trace() -> str | None:
    """What the request or the attempt that runs now hands to the jobs it makes."""
    return CURRENT.get() or None


class _Traced:
    """What tracing() opens; no generator, since every request does."""

    __slots__ = ("_reset", "_trace")

    def __init__(self, trace: str | None) -> None:
        self._trace = trace or ""

    def __enter__(self) -> None:
        self._reset = CURRENT.set(self._trace)

    def __exit__(self, *_error: object) -> None:
        CURRENT.reset(self._reset)


def tracing(trace: str | None) -> AbstractContextManager[None]:
    """Within the block jobs are made under this trace."""
    return _Traced(trace)


class Span(Protocol):
    """A span that is open: what shared/spans.py gives, or nothing at all."""

    trace: str | None  # what jobs made within it are given

    def set(self, **facts: Any) -> None:
        """Attributes, by their names with _ for a dot's place in `NAMES` of spans.py."""

    def failed(self, kind: str) -> None:
        """It ended badly; `kind` is a word of ours or an error's type, never its text."""


@dataclass(slots=True)
class NoSpan:
    """What is there when nobody wants spans."""

    trace: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """It has opened nothing."""

    def set(self, **facts: Any) -> None:
        """Nothing."""

    def failed(self, kind: str) -> None:
        """Nothing."""


class Spans(Protocol):
    """What makes spans; each is a context manager that is open while its work goes on."""

    def request(self, method: str, trace: str | None) -> AbstractContextManager[Span]:
        """A request that is served, as a child of the client's span."""

    def create(self, queue: str) -> AbstractContextManager[Span]:
        """A job that is made; its trace is what the attempts link to."""

    def send(self, queue: str, traces: Sequence[str | None]) -> AbstractContextManager[Span]:
        """A batch of messages that is sent, linked to where each was made."""

    def process(
        self, queue: str, trace: str | None, facts: Mapping[str, Any]
    ) -> AbstractContextManager[Span]:
        """An attempt: a trace of its own, linked to where its job was made."""

    def close(self) -> None:
        """Send what has not been sent, in a few seconds or not at all."""


class NoSpans:
    """Nobody wants spans: nothing is made, and a request's trace is the client's own."""

    def request(self, _method: str, trace: str | None) -> AbstractContextManager[Span]:
        """No span."""
        return NoSpan(trace)

    def create(self, _queue: str) -> AbstractContextManager[Span]:
        """No span."""
        return NoSpan(current_trace())

    def send(self, _queue: str, _traces: Sequence[str | None]) -> AbstractContextManager[Span]:
        """No span."""
        return NoSpan()

    def process(
        self, _queue: str, trace: str | None, _facts: Mapping[str, Any]
    ) -> AbstractContextManager[Span]:
        """No span."""
        return NoSpan(trace)

    def close(self) -> None:
        """Nothing to send."""


_spans: list[Spans] = [NoSpans()]


def spans() -> Spans:
    """What makes this process's spans."""
    return _spans[0]


def use_spans(made: Spans) -> None:
    """Make spans by these from now on."""
    _spans[0] = made


ASKED_FOR = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


def spans_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether OTEL_* variables say where spans go."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environ.get(name, "").strip() for name in ASKED_FOR)


def start_spans(service: str) -> None:
    """Make spans where OTEL_* variables ask for them; without the extra, say so once.

    `service` is the name unless OTEL_SERVICE_NAME gives another.
    """
    if not spans_wanted():
        return
    opener: Callable[[str], Spans]
    try:
        from shared.spans import open_spans as opener  # noqa: PLC0415 - nothing without the extra
    except ImportError as error:
        log.warning("tracing.not_installed", missing=error.name, extra="chot[otel]")
        return
    use_spans(opener(service))
    log.info("tracing.started", service=service)

"""Spans by OpenTelemetry, from POST to attempt; imported only where they are asked for.

As the semantic conventions for messaging have it: a request's span is the server's, a job is made
in a producer's, messages are sent in a client's that links to those, and an attempt is a consumer's
that links to where its job was made. A link and no parent: between POST and attempt may lie days,
there may be several attempts, and a trace that goes on for ever is read by nobody.

Attributes are ids, kinds, queues and words of ours: never a payload, never an error's text.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.errors import ConfigRefused
from shared.tracing import LONGEST, Span, Spans, current_trace, headers_of, tracing

CLOSE_MILLISECONDS = 3000
SYSTEM = {"messaging.system": "aws_sqs"}
PROPAGATOR = TraceContextTextMapPropagator()
# Facts by our names, and what the conventions call them; all others are `chot.NAME`.
NAMES = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "queue": "messaging.destination.name",
    "message_id": "messaging.message.id",
    "messages": "messaging.batch.message_count",
}


@dataclass(slots=True)
class OpenSpan:
    """One open span."""

    span: otel.Span
    trace: str | None

    def set(self, **facts: Any) -> None:
        """Set attributes; None is left out. A request's route gives its span its name."""
        for name, value in facts.items():
            if value is not None:
                self.span.set_attribute(NAMES.get(name, f"chot.{name}"), value)
        if facts.get("route") is not None:
            self.span.update_name(f"{facts.get('method')} {facts['route']}")

    def failed(self, kind: str) -> None:
        """Mark it as failed, by the kind of error alone."""
        self.span.set_attribute("error.type", kind)
        self.span.set_status(Status(StatusCode.ERROR))


class OtelSpans:
    """Makes spans with one tracer."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("chot")

    @contextmanager
    def request(self, method: str, trace: str | None) -> Iterator[Span]:
        """A server's span, child of the client's."""
        parent = PROPAGATOR.extract(headers_of(trace))
        with self._open(method, SpanKind.SERVER, {"method": method}, context=parent) as opened:
            yield opened

    @contextmanager
    def create(self, queue: str) -> Iterator[Span]:
        """A producer's span within the request's; what is made in it carries it."""
        facts = {"queue": queue, "operation": "create"}
        with self._open(f"create {queue}", SpanKind.PRODUCER, facts) as opened:
            yield opened

    @contextmanager
    def send(self, queue: str, traces: Sequence[str | None]) -> Iterator[Span]:
        """A client's span with a link for each message that has a trace."""
        facts = {"queue": queue, "operation": "send", "messages": len(traces)}
        links = _links(*traces)
        with self._open(f"send {queue}", SpanKind.CLIENT, facts, links=links) as opened:
            yield opened

    @contextmanager
    def process(self, queue: str, trace: str | None, facts: Mapping[str, Any]) -> Iterator[Span]:
        """A consumer's span, the root of its own trace. Its jobs are made under the job's trace."""
        facts = {"queue": queue, "operation": "process", **facts}
        links = _links(trace)
        with self._open(f"process {queue}", SpanKind.CONSUMER, facts, links=links) as opened:
            opened.trace = trace
            yield opened

    def close(self) -> None:
        """Send what is left."""
        self._provider.force_flush(CLOSE_MILLISECONDS)
        self._provider.shutdown()

    @contextmanager
    def _open(
        self,
        name: str,
        kind: SpanKind,
        facts: Mapping[str, Any],
        *,
        links: Sequence[Link] = (),
        context: Any = None,
    ) -> Iterator[OpenSpan]:
        attributes: dict[str, Any] = {}
        facts = dict(facts)
        if (operation := facts.pop("operation", None)) is not None:
            attributes = SYSTEM | {
                "messaging.operation.name": operation,
                "messaging.operation.type": operation,
            }
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=kind,
            links=links,
            attributes=attributes,
            record_exception=False,  # its text may quote a payload
            set_status_on_exception=False,
        ) as span:
            carried: dict[str, str] = {}
            PROPAGATOR.inject(carried)
            opened = OpenSpan(span, _kept(carried) or current_trace())
            opened.set(**facts)
            try:
                with tracing(opened.trace) if kind is SpanKind.PRODUCER else _as_it_is():
                    yield opened
            except BaseException as error:
                opened.failed(type(error).__name__)
                raise


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _kept(carried: Mapping[str, str]) -> str | None:
    whole = f"{carried.get('traceparent', '')} {carried.get('tracestate', '')}".strip()
    return (whole if len(whole) <= LONGEST else carried["traceparent"]) or None


def _links(*traces: str | None) -> list[Link]:
    found = []
    for trace in traces:
        context = otel.get_current_span(PROPAGATOR.extract(headers_of(trace))).get_span_context()
        if context.is_valid and headers_of(trace):
            found.append(Link(context))
    return found


def open_spans(service: str) -> Spans:
    """Spans that go where OTEL_* variables say; ConfigRefused for an exporter that we have not."""
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {} if named or os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(own))
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    return OtelSpans(provider)


def _exporter() -> SpanExporter:
    wanted = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() or "otlp"
    if wanted == "console":
        return ConsoleSpanExporter()
    if wanted != "otlp":
        raise ConfigRefused(f"OTEL_TRACES_EXPORTER={wanted}: otlp, console or none")
    return OTLPSpanExporter()

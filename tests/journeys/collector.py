"""Where spans go in tests: an OTLP collector that keeps them in memory, for any process to send to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One span as it was sent."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    facts: dict[str, Any] = field(hash=False)
    failed: bool
    raw: str


KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


@dataclass(slots=True)
class Collector:
    """All that has been sent so far."""

    url: str
    spans: list[Seen] = field(default_factory=list)

    def named(self, name: str) -> list[Seen]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process send here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def _read(body: bytes) -> Iterator[Seen]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(group.resource.attributes).get("service.name", "")
        for span in (span for scope in group.scope_spans for span in scope.spans):
            yield Seen(
                service=service,
                name=span.name,
                kind=KINDS[span.kind],
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex(),
                links=tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
                facts=_values(span.attributes),
                failed=span.status.code == 2,
                raw=str(span),
            )


@contextmanager
def open_collector() -> Iterator[Collector]:
    """A collector on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                raise AssertionError("nobody has asked for that")
            collector.spans.extend(_read(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

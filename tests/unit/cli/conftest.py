"""A peer that answers as told: what an api may do to its client when the day is bad."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass(slots=True)
class Peer:
    """Answers `script` in order, the last one for ever; None closes the connection unanswered."""

    script: list[tuple[int, dict[str, Any], dict[str, str]] | None] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def say(self, status: int, body: dict[str, Any], **headers: str) -> None:
        self.script.append((status, body, headers))

    def hang_up(self) -> None:
        self.script.append(None)


def _handler(peer: Peer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(method=self.command, path=self.path, headers=headers, body=body)
            peer.asked.append(asked)
            answer = peer.script.pop(0) if len(peer.script) > 1 else peer.script[0]
            if answer is not None:
                self._send(*answer)
            self.close_connection = True

        def _send(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of http.server

    return Handler


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """A peer at CHOT_API_URL."""
    told = Peer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(told))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("CHOT_API_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("CHOT_TOKEN", "secret-token")
    yield told
    server.shutdown()
    server.server_close()
    thread.join()


def job(state: str = "running", **more: Any) -> dict[str, Any]:
    """A job as the api shows it."""
    return {
        "id": "0190-job",
        "kind": "costing.run",
        "company": "ACME",
        "brand": None,
        "state": state,
        "attempt": 1,
        "max_attempts": 5,
        "fence": 1,
        "progress": {"done": 10, "total": 40, "unit": "items", "message": ""},
        "attempts": [],
        **more,
    }

"""A webhook's receiver on this machine: keeps what it was sent, and behaves as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """`status` is what it answers; `posts` what it has taken, as (headers, raw body)."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.refused = 0
        self.silent = threading.Event()
        self.closing = threading.Event()

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Every alert of every POST that was taken, in order."""
        return [one for _, body in self.posts for one in json.loads(body)["alerts"]]

    def told(self) -> list[tuple[str, str]]:
        """(rule, status) of each."""
        return [(one["rule"], one["status"]) for one in self.alerts]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve on a thread until the end of the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.silent.is_set():
                receiver.closing.wait()
                return
            if 200 <= receiver.status < 300:
                receiver.posts.append((dict(self.headers.items()), body))
            else:
                receiver.refused += 1
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()

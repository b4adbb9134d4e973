"""A stand-in of the container credential endpoint: keys that expire, a token that is replaced.

`AWS_CONTAINER_CREDENTIALS_FULL_URI` points at it. Keys are really good for `lifetime` seconds; their
stated expiry lies so far off that botocore asks for new ones after half of that (it begins 15
minutes before the stated end). It runs on threads of its own; every knob is a plain attribute.
"""

import json
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, Literal

BOTOCORE_ASKS_EARLY = timedelta(minutes=15)
KEY = re.compile(r"Credential=([^/]+)/")

How = Literal["works", "error", "silent", "no key", "no json", "expired", "no date"]


class Credentials:
    """What the endpoint hands out, and which keys SQS still takes."""

    def __init__(self, url: str, token_file: Path) -> None:
        self.url = url
        self.token_file = token_file
        self.how: How = "works"
        self.lifetime = 4.0
        # Keys that are stated to end this soon are asked for anew by every single call.
        self.stated: timedelta | None = None
        self.asked = 0
        self.strangers = 0
        self.issued: dict[str, float] = {}
        self.refused: set[str] = set()
        self.closing = threading.Event()
        self._tokens: list[str] = []
        self.replace_token()

    def environment(self) -> dict[str, str]:
        """What a container is given in place of keys."""
        return {
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.url,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(self.token_file),
        }

    def replace_token(self, *, ending: str = "") -> None:
        """Put a new token in the place of the file; the two before it are good a little longer."""
        token = secrets.token_hex(8)
        self._tokens = [*self._tokens[-2:], token]
        fresh = self.token_file.with_suffix(".new")
        fresh.write_text(token + ending)
        fresh.replace(self.token_file)

    def refuses(self, authorization: str) -> bool:
        """Whether SQS knows the key of this signature no longer."""
        found = KEY.search(authorization)
        key = found.group(1) if found else ""
        old = key not in self.issued or monotonic() > self.issued[key] + self.lifetime
        if old:
            self.refused.add(key)
        return old

    def answer(self, token: str | None) -> tuple[int, Any]:
        """Status and body for one request."""
        self.asked += 1
        if token not in self._tokens:
            self.strangers += 1
            return 403, {"code": "AccessDenied", "message": "no such token"}
        match self.how:
            case "error":
                return 500, {"code": "InternalServerError", "message": "told to"}
            case "silent":
                self.closing.wait(30)
                return 500, {}
            case "no json":
                return 200, "<html>"
        return 200, self._key()

    def _key(self) -> dict[str, Any]:
        key = f"ASIA{secrets.token_hex(8).upper()}"
        self.issued[key] = monotonic()
        ends = self.stated or BOTOCORE_ASKS_EARLY + timedelta(seconds=self.lifetime / 2)
        body = {
            "AccessKeyId": key,
            "SecretAccessKey": "secret",
            "Token": "session",
            "Expiration": _stated(timedelta(minutes=-1) if self.how == "expired" else ends),
        }
        if self.how == "no key":
            del body["AccessKeyId"]
        if self.how == "no date":
            body["Expiration"] = "soon"
        return body


def _stated(ahead: timedelta) -> str:
    return (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_GET(self) -> None:
        status, body = self.server.credentials.answer(self.headers.get("Authorization"))
        written = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        with suppress(OSError):  # the client has given up
            self.send_response(status)
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    credentials: Credentials


@contextmanager
def open_credentials(token_file: Path) -> Iterator[Credentials]:
    """Serve on a port of this machine while the block runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}/v1/credentials"
    server.credentials = Credentials(url, token_file)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="credentials")
    thread.start()
    try:
        yield server.credentials
    finally:
        server.credentials.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()

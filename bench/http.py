"""The bench's own requests to an api, one at a time and blocking: not for loads."""

import json
from http.client import HTTPConnection
from typing import Any

from bench.place import BRAND, COMPANY
from bench.running import BenchFailed

LONGEST_SECONDS = 60.0


class Client:
    """One kept connection, with the platform's key."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=LONGEST_SECONDS)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def ask(
        self, method: str, path: str, body: bytes | None = None, key: str | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer; `key` is an Idempotency-Key."""
        more = {} if key is None else {"Idempotency-Key": key}
        self._connection.request(method, path, body, self._headers | more)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def require(
        self, status: int, method: str, path: str, body: bytes | None = None, key: str | None = None
    ) -> bytes:
        """The body of an answer with that status; BenchFailed for any other."""
        got, said = self.ask(method, path, body, key)
        if got != status:
            raise BenchFailed(f"{method} {path} is answered {got}: {said[:500].decode()}")
        return said

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()


def job(kind: str, **payload: Any) -> dict[str, Any]:
    """The body of a submit."""
    return {"kind": kind, "company": COMPANY, "brand": BRAND, "payload": payload}


def written(body: Any) -> bytes:
    """As it is sent."""
    return json.dumps(body).encode()

"""A stand-in of the ECS agent's endpoint: task protection and task metadata, on this machine.

It answers as the agent does: the success and the failure shape both come with HTTP 200, errors of
the request and of the call to ECS with their own code, and ECS that does not answer as 504 after
four seconds. It runs on threads of its own; every knob is a plain attribute.
Its `minute` may be shorter than one: what is asked for in minutes then expires in seconds.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, time
from typing import Any, Literal

AGENT_GIVES_UP_SECONDS = 4.0
LONGEST_MINUTES = 2880
TASK_ARN = "arn:aws:ecs:ap-southeast-1:123456789012:task/erp/0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PATHS = {"/api/c1/task-protection/v1/state", "/v4/c1/task"}

How = Literal[
    "works",
    "not a service",
    "deployment blocked",
    "no role",
    "unknown task",
    "throttled",
    "slow",
    "no json",
    "no object",
    "empty",
    "other way",
    "black hole",
]
Answer = tuple[int, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """One request that was understood: when it came and what it asked for."""

    at: float
    enabled: bool
    minutes: int | None


def _error(code: str, words: str) -> dict[str, Any]:
    return {"error": {"Arn": TASK_ARN, "Code": code, "Message": words}}


def _failure(reason: str) -> dict[str, Any]:
    return {"failure": {"Arn": TASK_ARN, "Reason": reason, "Detail": "told to"}}


REFUSALS: dict[str, Answer] = {
    "not a service": (200, _failure("TASK_NOT_VALID")),
    "deployment blocked": (200, _failure("DEPLOYMENT_BLOCKED")),
    "no role": (403, _error("AccessDeniedException", "no task IAM role credentials available")),
    "unknown task": (404, _error("ResourceNotFoundException", "Failed to find a task")),
    "throttled": (400, {"requestID": "r1"} | _error("ThrottlingException", "Rate exceeded")),
    "slow": (504, _error("RequestCanceled", "Timed out calling ECS Task Protection API")),
    "black hole": (500, None),
    "no json": (200, b"<html>"),
    "no object": (200, []),
    "empty": (200, {}),
}


class Agent:
    """What the agent knows of the task, and how it behaves at the moment."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.how: How = "works"
        self.puts: list[Put] = []
        self.malformed: list[str] = []
        self.closing = threading.Event()
        # Of the machine's clock, which a database beside it reads, too: the success was sent then.
        self.protected_at: list[float] = []
        self.answer_delay = 0.0
        self.minute = 60.0
        self._enabled = False
        self._expires_at = 0.0

    @property
    def agent_uri(self) -> str:
        """What ECS puts into ECS_AGENT_URI."""
        return f"{self.url}/api/c1"

    @property
    def metadata_uri(self) -> str:
        """What ECS puts into ECS_CONTAINER_METADATA_URI_V4."""
        return f"{self.url}/v4/c1"

    @property
    def protected(self) -> bool:
        """Whether ECS would spare the task now."""
        return self._enabled and monotonic() < self._expires_at

    def put(self, body: bytes) -> Answer:
        """Answer one PUT: check it as the agent does, then behave as told."""
        try:
            asked = json.loads(body)
            unknown = set(asked) - {"ProtectionEnabled", "ExpiresInMinutes"}
        except (ValueError, TypeError):
            return self._malformed("failed to decode request")
        if unknown:
            return self._malformed("failed to decode request")
        enabled, minutes = asked.get("ProtectionEnabled"), asked.get("ExpiresInMinutes")
        if not isinstance(enabled, bool):
            return self._malformed("does not contain 'ProtectionEnabled' field")
        if minutes is not None and not (
            isinstance(minutes, int) and 1 <= minutes <= LONGEST_MINUTES
        ):
            return self._malformed("expiresInMinutes must be between 1 and 2880")
        self.puts.append(Put(at=monotonic(), enabled=enabled, minutes=minutes))
        return self._behave(enabled=enabled, minutes=120 if minutes is None else minutes)

    def _malformed(self, why: str) -> Answer:
        self.malformed.append(why)
        return 400, _error("InvalidParameterException", why)

    def _behave(self, *, enabled: bool, minutes: int) -> Answer:
        if self.how in {"slow", "black hole"}:
            self.closing.wait(AGENT_GIVES_UP_SECONDS if self.how == "slow" else None)
        if self.how == "other way":
            return 200, {"protection": {"ProtectionEnabled": not enabled}}
        if self.how != "works":
            return REFUSALS[self.how]
        self.closing.wait(self.answer_delay)
        self._enabled, self._expires_at = enabled, monotonic() + minutes * self.minute
        if enabled:
            self.protected_at.append(time())
        protection = {"ProtectionEnabled": enabled, "TaskArn": TASK_ARN}
        if enabled:
            protection["ExpirationDate"] = "2026-01-01T00:00:00Z"
        return 200, {"protection": protection}

    def get(self, path: str) -> Answer:
        """Answer one GET: the protection as it stands, or the task's metadata."""
        if path.endswith("/state"):
            return 200, {"protection": {"ProtectionEnabled": self.protected, "TaskArn": TASK_ARN}}
        if self.how == "black hole":
            self.closing.wait()
        if self.how == "unknown task":
            return 404, b"not found"
        return 200, {"TaskARN": TASK_ARN, "Family": "worker", "AvailabilityZone": "a"}


class _Handler(BaseHTTPRequestHandler):
    agent: Agent

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(self.agent.put(body) if self.path in PATHS else (404, b"not found"))

    def do_GET(self) -> None:
        self._answer(self.agent.get(self.path) if self.path in PATHS else (404, b"not found"))

    def _answer(self, answer: Answer) -> None:
        status, body = answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # whoever asked has given up
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextmanager
def open_agent() -> Iterator[Agent]:
    """The stand-in on a port of its own; whoever still waits for it is let go at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    agent = Agent(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"agent": agent})
    thread = threading.Thread(target=server.serve_forever, name="ecs agent", daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        agent.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()

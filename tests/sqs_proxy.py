"""An HTTP proxy in front of SQS that misbehaves on command: what AWS does and emulators do not.

It understands just enough of the AWS JSON protocol. It runs on threads of its own, so that a test
that waits for a process does not hold it up. Every knob is a plain attribute; `heal()` resets them.
"""

import hashlib
import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

Body = dict[str, Any]
# What becomes of one entry of a SendMessageBatch: "omit" leaves it out of both lists.
EntryFault = Literal["receiver", "sender", "omit"]
SendFaults = Callable[[int, list[Body]], dict[str, EntryFault]]
CONTENT_TYPE = "application/x-amz-json-1.0"
HANDLE_ACTIONS = ("ChangeMessageVisibilityBatch", "DeleteMessageBatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Answer with this instead of asking SQS; every `every`-th request only."""

    status: int = 503
    code: str = "ServiceUnavailable"
    every: int = 1


class SqsProxy:
    """One listening port in front of the emulator. Counts are by action name."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._received_at: dict[str, float] = {}
        self._numbers: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        # Action and body of each request that a black hole has swallowed so far.
        self.held: list[tuple[str, Body]] = []
        self.accepted_entries = 0
        self.delivered = 0
        self.duplicated = 0
        self.refused_handles = 0
        self.lost_sends = 0
        self.swallowed = 0
        self.heal()

    @property
    def handles(self) -> list[str]:
        """Every receipt handle that was handed out, in order."""
        return list(self._received_at)

    def heal(self) -> None:
        """Behave again; requests that a black hole held are dropped with their connections."""
        self.black_holed: frozenset[str] | None = frozenset()
        self.refusals: dict[str, Refusal] = {}
        self.resetting = False
        self.send_faults: SendFaults | None = None
        self.duplicate_every = 0
        self.stale_handles_succeed = False
        self.visibility_cap: float | None = None
        self.longest_visibility: int | None = None
        # Every so many-th entry is answered as sent and is not; or comes that much later.
        self.lose_every = 0
        self.late_every = 0
        self.late_seconds = 2
        # Every so many-th receive counts at SQS, and its answer never arrives.
        self.swallow_every = 0
        # Messages of one answer come in reverse, and each answer takes that long.
        self.reversing = False
        self.answer_delay = 0.0
        # Of a request's Authorization header: whether its key has expired.
        self.key_expired: Callable[[str], bool] | None = None
        self._open.set()
        self._open = threading.Event()

    def black_hole(self, *actions: str) -> None:
        """Swallow requests (of these actions, or all) without a word until `heal`."""
        self.black_holed = frozenset(actions) or None

    def refuse(self, *actions: str, status: int = 503, code: str = "", every: int = 1) -> None:
        """Answer these actions (or all: no name) with an error."""
        refusal = Refusal(status=status, code=code or "ServiceUnavailable", every=every)
        self.refusals |= dict.fromkeys(actions or ("*",), refusal)

    def number(self, what: str) -> int:
        """Count from 1, over all threads."""
        with self._lock:
            self._numbers[what] += 1
            return self._numbers[what]

    def answer(self, action: str, headers: Body, body: Body) -> tuple[int, Body] | None:
        """What to say to a request; None drops its connection."""
        with self._lock:
            self.asked[action] += 1
        if self.resetting:
            return None
        if self.black_holed is None or action in self.black_holed:
            opened = self._open
            self.held.append((action, body))
            opened.wait()
            return None
        refusal = self.refusals.get(action) or self.refusals.get("*")
        if refusal is not None and self.number(f"refuse {action}") % refusal.every == 0:
            return refusal.status, _error(refusal.code)
        if self.key_expired is not None and self.key_expired(headers.get("authorization", "")):
            return http.client.FORBIDDEN, _error("ExpiredToken")
        if self.answer_delay:
            sleep(self.answer_delay)  # the network's time, on this request's own thread
        if action == "SendMessageBatch":
            return self._send(headers, body)
        if action == "ReceiveMessage":
            return self._receive(headers, body)
        if action in HANDLE_ACTIONS:
            return self._handles(action, headers, body)
        return self._pass_on(action, headers, body)

    def _send(self, headers: Body, body: Body) -> tuple[int, Body]:
        faults: dict[str, EntryFault] = {}
        if self.send_faults is not None:
            faults = self.send_faults(self.number("batches"), body["Entries"])
        failed = [_failed(i, fault) for i, fault in faults.items() if fault != "omit"]
        entries = [each for each in body["Entries"] if each["Id"] not in faults]
        lost = [each for each in entries if self._every("lost", self.lose_every)]
        kept = [self._delayed(each) for each in entries if each not in lost]
        answer: Body = {"Successful": [], "Failed": []}
        if kept:
            status, answer = self._pass_on("SendMessageBatch", headers, body | {"Entries": kept})
            if status != http.client.OK:
                return status, answer
        with self._lock:
            self.accepted_entries += len(answer.get("Successful", []))
            self.lost_sends += len(lost)
        claimed = [_sent(each) for each in lost]
        return http.client.OK, {
            "Successful": [*answer.get("Successful", []), *claimed],
            "Failed": [*answer.get("Failed", []), *failed],
        }

    def _every(self, what: str, every: int) -> bool:
        return every > 0 and self.number(what) % every == 0

    def _delayed(self, entry: Body) -> Body:
        late = self._every("late", self.late_every)
        return entry | {"DelaySeconds": self.late_seconds} if late else entry

    def _receive(self, headers: Body, body: Body) -> tuple[int, Body]:
        status, answer = self._pass_on("ReceiveMessage", headers, body)
        for message in answer.get("Messages", []) if status == http.client.OK else []:
            with self._lock:
                self.delivered += 1
                self._received_at[message["ReceiptHandle"]] = monotonic()
                again = self.duplicate_every and self.delivered % self.duplicate_every == 0
            if again:
                self.duplicated += 1
                twin = {"QueueUrl": body["QueueUrl"], "MessageBody": message["Body"]}
                self._pass_on("SendMessage", headers, twin)
        if status == http.client.OK and answer.get("Messages"):
            if self._every("swallowed", self.swallow_every):
                self.swallowed += len(answer["Messages"])
                return status, {}
            if self.reversing:
                answer["Messages"].reverse()
        return status, answer

    def _handles(self, action: str, headers: Body, body: Body) -> tuple[int, Body]:
        entries = [self._shortened(each) for each in body["Entries"]]
        over = [each for each in entries if self._over_the_cap(each)]
        kept = [each for each in entries if each not in over]
        answer: Body = {"Successful": [], "Failed": []}
        if kept:
            status, answer = self._pass_on(action, headers, body | {"Entries": kept})
            if status != http.client.OK:
                return status, answer
        failed = list(answer.get("Failed", []))
        successful = list(answer.get("Successful", []))
        if self.stale_handles_succeed:
            successful, failed = [*successful, *({"Id": each["Id"]} for each in failed)], []
        failed += [_failed(each["Id"], "sender", "InvalidParameterValue") for each in over]
        self.refused_handles += len(failed)
        return http.client.OK, answer | {"Successful": successful, "Failed": failed}

    def _shortened(self, entry: Body) -> Body:
        if self.longest_visibility is None or "VisibilityTimeout" not in entry:
            return entry
        return entry | {
            "VisibilityTimeout": min(entry["VisibilityTimeout"], self.longest_visibility)
        }

    def _over_the_cap(self, entry: Body) -> bool:
        received = self._received_at.get(entry["ReceiptHandle"])
        if self.visibility_cap is None or received is None or "VisibilityTimeout" not in entry:
            return False
        hidden_until = monotonic() + float(entry["VisibilityTimeout"])
        return hidden_until > received + self.visibility_cap

    def _pass_on(self, action: str, headers: Body, body: Body) -> tuple[int, Body]:
        assert self._upstream.hostname is not None, "the upstream is a URL"
        upstream = http.client.HTTPConnection(
            self._upstream.hostname, self._upstream.port, timeout=60
        )
        try:
            sent = {name: value for name, value in headers.items() if name.startswith("x-amz")}
            sent |= {"authorization": headers.get("authorization", "")}
            sent |= {"content-type": CONTENT_TYPE, "x-amz-target": f"AmazonSQS.{action}"}
            upstream.request("POST", "/", json.dumps(body), sent)
            answer = upstream.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException):
            return http.client.BAD_GATEWAY, _error("ServiceUnavailable")
        finally:
            upstream.close()


def _error(code: str) -> Body:
    return {"__type": f"com.amazonaws.sqs#{code}", "message": f"the proxy says {code}"}


def _sent(entry: Body) -> Body:
    digest = hashlib.md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()
    return {"Id": entry["Id"], "MessageId": str(uuid4()), "MD5OfMessageBody": digest}


def _failed(entry_id: str, fault: EntryFault, code: str = "InternalError") -> Body:
    if fault == "sender" and code == "InternalError":
        code = "AccessDenied"
    return {"Id": entry_id, "Code": code, "Message": "told to", "SenderFault": fault == "sender"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        raw = self.rfile.read(int(headers.get("content-length", 0)))
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        found = self.server.proxy.answer(action, headers, json.loads(raw or b"{}"))
        if found is None:
            self.close_connection = True
            self.connection.close()
            return
        status, body = found
        written = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", CONTENT_TYPE)
        self.send_header("content-length", str(len(written)))
        if status >= http.client.BAD_REQUEST:
            self.send_header("x-amzn-query-error", f"{body['__type'].rpartition('#')[2]};Receiver")
        self.end_headers()
        self.wfile.write(written)

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client has gone, or we have closed on it
            super().handle()

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: SqsProxy


@contextmanager
def open_sqs_proxy(upstream: str) -> Iterator[tuple[SqsProxy, str]]:
    """A proxy in front of `upstream`, and its own URL for AWS_ENDPOINT_URL_SQS."""
    proxy = SqsProxy(upstream)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = proxy
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="sqs proxy")
    thread.start()
    try:
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        proxy.resetting = True
        proxy.heal()
        server.shutdown()
        thread.join()
        server.server_close()

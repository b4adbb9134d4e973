"""The api over HTTP: one client, patient where a repeat is safe, exact about what went wrong."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

from shared.cli.exits import Exit, Failure
from shared.cli.problems import sentence_of
from shared.cli.settings import ClientSettings, settings_of
from shared.client.patience import NEVER_SENT, Outcome, Patience
from shared.client.wanted import is_replay

RETRY_SECONDS = 30.0
TIMEOUT_SECONDS = 15.0
PART_BYTES = 1 << 16
FILE_SECONDS = 60.0  # between some bytes of a file, and for the answer behind its last one
NOT_OURS = "is CHOT_API_URL the address of a Chốt api?"
CODES = {404: Exit.NOT_FOUND, 409: Exit.CONFLICT}


class Body(dict[str, Any]):
    """An object of an answer; a member that it has to have and has not is a Failure."""

    def __missing__(self, name: str) -> Any:
        """Say so: what answers is no api, or not of this version."""
        raise Failure(
            f"the api's answer has no `{name}`; {NOT_OURS}",
            code=Exit.UNAVAILABLE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the api said to one request; `tries` is how often it was asked."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]
    tries: int

    @property
    def replayed(self) -> bool:
        """Whether it is the stored answer to an earlier request under the same key."""
        return is_replay(self.headers)


class Api:
    """The api at CHOT_API_URL as the bearer of CHOT_TOKEN.

    Every request is one that may be repeated: reads, conditional transitions, and submits under
    an idempotency key. What may pass (shared/client/patience.py) is repeated for `retry_for`
    seconds, then ends in a Failure; any other refusal does at once. One try ends after `timeout`
    seconds, or what is left of `retry_for` where that is more, however the answer comes.
    """

    def __init__(
        self, retry_for: float = RETRY_SECONDS, *, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        settings = settings_of(ClientSettings)
        headers = {"User-Agent": "chot-cli", "Accept": "application/json"}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        self.url = settings.api_url
        self._retry_for = retry_for
        self._timeout = timeout
        try:
            self._client = httpx.Client(base_url=settings.api_url, headers=headers, timeout=timeout)
        except (OSError, ValueError) as error:  # of HTTP_PROXY, SSL_CERT_FILE and the like
            said = f"the environment makes no HTTP client: {error}"
            raise Failure(said, code=Exit.CONFIG) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, within: float | None = None
    ) -> Answer:
        """Read, in `within` seconds with all tries; parameters that are None are left out."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return self._ask(self._client.build_request("GET", path, params=given), within)

    def post(
        self, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Write; `body` is JSON text, sent as it is."""
        kept = dict(headers or {})
        if body is not None:
            kept["Content-Type"] = "application/json"
        content = None if body is None else body.encode()
        return self._ask(self._client.build_request("POST", path, content=content, headers=kept))

    def put(self, path: str, body: str) -> Answer:
        """Write what is to be there; `body` is JSON text."""
        kept = {"Content-Type": "application/json"}
        content = body.encode()
        return self._ask(self._client.build_request("PUT", path, content=content, headers=kept))

    def delete(self, path: str, params: Mapping[str, Any]) -> Answer:
        """Take away; parameters that are None are left out."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._ask(self._client.build_request("DELETE", path, params=given))

    def download(self, path: str, target: BinaryIO) -> None:
        """The whole content of a file into `target`, from its beginning at each try.

        One that breaks off is asked for again for `retry_for` seconds after its last bytes.
        """
        patience = Patience(self._retry_for)
        while True:
            target.seek(0)
            target.truncate()
            outcome: Outcome
            try:
                with self._client.stream("GET", path) as answer:
                    if answer.is_success:
                        for part in answer.iter_bytes():
                            target.write(part)
                            patience = Patience(self._retry_for)
                        return
                    answer.read()
                    outcome = answer
            except httpx.TransportError as error:
                outcome = error
            wait = patience.wait_after(outcome)
            if wait is None:
                self._settle(outcome, patience.tries)
                return
            time.sleep(wait)

    def upload(self, path: str, params: Mapping[str, Any], source: BinaryIO, size: int) -> Answer:
        """Send a file of `size` bytes, from its beginning at each try: the api knows it again."""
        given = {name: value for name, value in params.items() if value is not None}
        kept = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        patience = Patience(self._retry_for)
        while True:
            source.seek(0)
            parts = iter(lambda: source.read(PART_BYTES), b"")
            outcome = self._send(
                self._client.build_request(
                    "POST", path, params=given, content=parts, headers=kept, timeout=FILE_SECONDS
                )
            )
            wait = patience.wait_after(outcome)
            if wait is None:
                return self._settle(outcome, patience.tries)
            time.sleep(wait)

    def _ask(self, request: httpx.Request, within: float | None = None) -> Answer:
        patience = Patience(self._retry_for if within is None else min(self._retry_for, within))
        while True:
            most = max(patience.left, self._timeout)
            outcome = self._try(request, most if within is None else min(most, within))
            wait = patience.wait_after(outcome)
            if wait is None:
                return self._settle(outcome, patience.tries)
            time.sleep(wait)

    def _try(self, request: httpx.Request, most: float) -> Outcome:
        """One try, beside this thread: httpx bounds each wait for some bytes, not their sum."""
        found: SimpleQueue[Outcome] = SimpleQueue()
        Thread(target=lambda: found.put(self._send(request)), daemon=True).start()
        try:
            return found.get(timeout=most)
        except Empty:
            return httpx.ReadTimeout(f"no whole answer in {most:.1f} s")

    def _send(self, request: httpx.Request) -> Outcome:
        try:
            return self._client.send(request)
        except httpx.TransportError as error:
            return error
        except (httpx.HTTPError, httpx.StreamError) as error:
            return httpx.RemoteProtocolError(str(error))

    def _settle(self, outcome: Outcome, tries: int) -> Answer:
        asked = "once" if tries == 1 else f"{tries} times"
        if isinstance(outcome, NEVER_SENT):
            raise Failure(f"no request can be made for {self.url}: {outcome}", code=Exit.CONFIG)
        if isinstance(outcome, httpx.TransportError):
            reason = str(outcome) or type(outcome).__name__
            raise Failure(
                f"no answer from the api at {self.url}: {reason} (asked {asked})\n"
                "Is it running there? CHOT_API_URL says where to look; `chot dev` starts one.",
                code=Exit.UNAVAILABLE,
            )
        body = _json_of(outcome)
        if outcome.is_success and body is not None:
            return Answer(
                status=outcome.status_code, body=body, headers=outcome.headers, tries=tries
            )
        if body is None:
            raise Failure(
                f"{self.url} answered {outcome.status_code} with something that is not JSON; "
                f"{NOT_OURS}",
                code=Exit.UNAVAILABLE,
            )
        code = CODES.get(outcome.status_code, Exit.REFUSED)
        if outcome.is_server_error:
            code = Exit.UNAVAILABLE
        raise Failure(sentence_of(outcome.status_code, body), code=code, problem=body)


def seen(api: Api, path: str) -> dict[str, Any] | None:
    """What a command may say more by; None for a key that may not look."""
    try:
        return api.get(path).body
    except Failure as failure:
        if failure.code != Exit.REFUSED:
            raise
        return None


def job_of(answer: Answer) -> dict[str, Any]:
    """The job that was asked for; a Failure for an answer that is none."""
    for name in ("id", "kind", "state"):
        if not isinstance(answer.body[name], str):
            raise Failure(f"the api's answer is no job; {NOT_OURS}", code=Exit.UNAVAILABLE)
    return answer.body


def page_of(answer: Answer, *names: str, sent: str | None) -> str | None:
    """The cursor after this page of lists `names`; None at the end.

    A Failure for a page that names itself as the next one: it would not end.
    """
    following: str | None = answer.body.get("next_cursor")
    if any(not isinstance(answer.body[name], list) for name in names):
        raise Failure(f"the api's answer is no list; {NOT_OURS}", code=Exit.UNAVAILABLE)
    if following is not None and following == sent:
        said = "the api names the page that it was asked for as the next one: no end"
        raise Failure(said, code=Exit.UNAVAILABLE)
    return following


def job_path(job_id: str, *more: str) -> str:
    """Path of a job's route; whatever was typed as an id stays one path segment."""
    return "/".join(["/v1/jobs", quote(job_id, safe=""), *more])


def queue_path(queue: str, *more: str) -> str:
    """Path of a queue's route."""
    return "/".join(["/v1/queues", quote(queue, safe=""), *more])


def kind_path(kind: str, *more: str) -> str:
    """Path of a kind's route."""
    return "/".join(["/v1/kinds", quote(kind, safe=""), *more])


def _json_of(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = response.json(object_hook=Body)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None

"""The api over HTTP: one client, patient where a repeat is safe, exact about what went wrong."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from shared.cli.exits import Exit, Failure
from shared.cli.problems import sentence_of
from shared.cli.settings import ClientSettings, settings_of
from shared.client.patience import NEVER_SENT, Outcome, Patience
from shared.client.wanted import is_replay

RETRY_SECONDS = 30.0
TIMEOUT_SECONDS = 15.0
CODES = {404: Exit.NOT_FOUND, 409: Exit.CONFLICT}


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
    seconds, then ends in a Failure; any other refusal does at once.
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
        self._client = httpx.Client(base_url=settings.api_url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Read; parameters that are None are left out."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return self._ask(self._client.build_request("GET", path, params=given))

    def post(
        self, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Write; `body` is JSON text, sent as it is."""
        kept = dict(headers or {})
        if body is not None:
            kept["Content-Type"] = "application/json"
        content = None if body is None else body.encode()
        return self._ask(self._client.build_request("POST", path, content=content, headers=kept))

    def _ask(self, request: httpx.Request) -> Answer:
        patience = Patience(self._retry_for)
        while True:
            outcome = self._try(request)
            wait = patience.wait_after(outcome)
            if wait is None:
                return self._settle(outcome, patience.tries)
            time.sleep(wait)

    def _try(self, request: httpx.Request) -> Outcome:
        try:
            return self._client.send(request)
        except httpx.TransportError as error:
            return error

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
                "is CHOT_API_URL the address of a Chốt api?",
                code=Exit.UNAVAILABLE,
            )
        code = CODES.get(outcome.status_code, Exit.REFUSED)
        if outcome.is_server_error:
            code = Exit.UNAVAILABLE
        raise Failure(sentence_of(outcome.status_code, body), code=code, problem=body)


def job_path(job_id: str, *more: str) -> str:
    """Path of a job's route; whatever was typed as an id stays one path segment."""
    return "/".join(["/v1/jobs", quote(job_id, safe=""), *more])


def queue_path(queue: str, *more: str) -> str:
    """Path of a queue's route."""
    return "/".join(["/v1/queues", quote(queue, safe=""), *more])


def _json_of(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None

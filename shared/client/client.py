"""ChotClient: submit, wait, follow, list, cancel and redrive jobs over HTTP.

Each call may be repeated by the client itself (shared/client/patience.py) until its deadline: a
submit goes out under one Idempotency-Key, whatever number of times it takes, and makes one job.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.address import checked_token, checked_url
from shared.client.errors import NotDead, StillActive, Unreachable, error_of_answer
from shared.client.patience import Outcome, Patience
from shared.client.results import BatchItem, Event, Job, Submitted
from shared.client.stream import read_messages
from shared.client.wanted import (
    JobRequest,
    batch_bodies,
    fresh_key,
    instant_text,
    is_replay,
    key_header,
)
from shared.json_text import to_json
from shared.types import JobState

DEADLINE_SECONDS = 60.0
TIMEOUT_SECONDS = 15.0
LONGEST_POLL_SECONDS = 20.0
# Two of the api's heartbeats at the least: a stream that is silent for longer is dead.
STREAM_SILENCE_SECONDS = 60.0
PAGE = 200


class ChotClient:
    """The api at `url` for the bearer of `token`.

    `deadline` bounds every call with all its tries, `timeout` one try (seconds). Errors are those
    of shared/client/errors.py. One client may serve any number of tasks. ValueError, at once, for
    a `url` or a `token` of which no request can be made.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        deadline: float = DEADLINE_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        headers = {"User-Agent": "chot-client", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {_named('token', checked_token, token)}"
        self._deadline = deadline
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=_named("url", checked_url, url), headers=headers, timeout=timeout
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def submit(
        self,
        kind: str,
        *,
        company: str,
        payload: Mapping[str, Any],
        brand: str | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        key: str | None = None,
    ) -> Submitted:
        """Submit one job, once. Without a `key` of the caller's own it goes out under a new one.

        Unreachable carries the key: the same submit with it finds what became of this one.
        """
        wanted = JobRequest(
            kind=kind,
            company=company,
            payload=payload,
            brand=brand,
            run_at=run_at,
            priority=priority,
            max_attempts=max_attempts,
        )
        key = key or fresh_key()
        body = to_json(wanted.body())
        answer = await self._ask("POST", "/v1/jobs", body=body, key=key)
        return Submitted.of(_read(answer), key=key, replayed=is_replay(answer.headers))

    async def batch(
        self, jobs: Iterable[JobRequest], *, key: str | None = None
    ) -> Sequence[BatchItem]:
        """Submit many jobs; each gets an outcome, in the order given.

        A thousand at a time (fewer of large ones) are one transaction, each under a key of its own
        that is made of `key`: the same call with the same key and jobs submits each of them once.
        """
        key = key or fresh_key()
        found: list[BatchItem] = []
        for number, body in enumerate(batch_bodies(to_json(each.body()) for each in jobs)):
            answer = await self._ask("POST", "/v1/jobs:batch", body=body, key=f"{key}.{number}")
            replayed = is_replay(answer.headers)
            found += [BatchItem.of(each, replayed=replayed) for each in _read(answer)["jobs"]]
        return found

    async def get(self, job_id: UUID | str, *, wait: float = 0) -> Job:
        """The job as it is; with `wait` once it has ended, or after so many seconds at most."""
        params = {"wait": f"{wait:g}"} if wait else {}
        answer = await self._ask("GET", job_path(job_id), params=params, extra=wait)
        return Job.of(_read(answer))

    async def wait(self, job_id: UUID | str, *, timeout: float | None = None) -> Job:  # noqa: ASYNC109 - said to the api, which waits
        """The job once it has ended, however it has; StillActive after `timeout` seconds."""
        patience = None if timeout is None else Patience(timeout)
        while True:
            left = LONGEST_POLL_SECONDS if patience is None else patience.left
            job = await self.get(job_id, wait=round(min(left, LONGEST_POLL_SECONDS), 3))
            if job.has_ended:
                return job
            if patience is not None and patience.left <= 0:
                raise StillActive(job.id, job.state.value)

    async def events(self, job_id: UUID | str) -> AsyncIterator[Event]:
        """The job's news as they come; the last one is its end.

        A connection that is lost is made anew: nothing is told twice, nor what was overtaken.
        """
        known, patience = "", Patience(self._deadline)
        while True:
            outcome: Outcome = httpx.RemoteProtocolError("the stream has ended before the job")
            try:
                async with self._stream(job_id, known) as answer:
                    if answer.status_code == httpx.codes.NO_CONTENT:
                        return
                    if not answer.is_success:
                        await answer.aread()
                        outcome = answer
                    else:
                        async for message in read_messages(answer.aiter_lines(), last_id=known):
                            known, patience = message.id, Patience(self._deadline)
                            job = Job.of(_parsed(message.data))
                            yield Event(id=message.id, name=message.name, job=job)
                            if message.name == "end":
                                return
            except httpx.TransportError as error:
                outcome = error
            wait = patience.wait_after(outcome)
            if wait is None:
                raise self._failed(outcome, None)
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def _stream(self, job_id: UUID | str, known: str) -> AsyncIterator[httpx.Response]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": known} if known else {})
        timeout = httpx.Timeout(self._timeout, read=STREAM_SILENCE_SECONDS)
        path = f"{job_path(job_id)}/events"
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            yield answer

    async def cancel(self, job_id: UUID | str) -> Job:
        """Cancel: once this returns, no effect of the job commits. TooLate when it has ended."""
        return Job.of(_read(await self._ask("POST", f"{job_path(job_id)}/cancel")))

    async def redrive(self, job_id: UUID | str) -> None:
        """Put a dead job back to pending; NotDead, TwinActive and others say why not."""
        patience = Patience(self._deadline)
        try:
            await self._ask("POST", f"{job_path(job_id)}/redrive", patience=patience)
        except NotDead as refused:
            # An answer was lost, and the job lives: that was this redrive, or one like it.
            active = refused.more.get("state") in {JobState.PENDING, JobState.RUNNING}
            if patience.tries == 1 or not active:
                raise

    async def list(
        self,
        *,
        states: Iterable[JobState | str] = (),
        kind: str | None = None,
        company: str | None = None,
        brand: str | None = None,
        submitter: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
    ) -> AsyncIterator[Job]:
        """Jobs newest first, page by page as they are asked for; none twice, none left out."""
        given = {
            "state": ",".join(JobState(each).value for each in states) or None,
            "kind": kind,
            "company": company,
            "brand": brand,
            "submitter": submitter,
            "created_from": None
            if created_from is None
            else instant_text(created_from, "created_from"),
            "created_to": None if created_to is None else instant_text(created_to, "created_to"),
        }
        params = {name: value for name, value in given.items() if value is not None}
        cursor: str | None = ""
        while cursor is not None:
            asked = params | {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
            page = _read(await self._ask("GET", "/v1/jobs", params=asked))
            for each in page["jobs"]:
                yield Job.of(each)
            cursor = page["next_cursor"]

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: str | None = None,
        key: str | None = None,
        extra: float = 0,
        patience: Patience | None = None,
    ) -> httpx.Response:
        """One request until it has an answer that stands; `extra` seconds the api may hold it."""
        headers = {} if key is None else {"Idempotency-Key": key_header(key)}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = body.encode()
        patience = patience or Patience(self._deadline + extra)
        timeout = httpx.Timeout(self._timeout, read=self._timeout + extra)
        while True:
            request = self._http.build_request(
                method, path, params=params, content=content, headers=headers, timeout=timeout
            )
            outcome = await self._try(request, patience.left)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                patience.tries += 1
                return outcome
            wait = patience.wait_after(outcome)
            if wait is None:
                raise self._failed(outcome, key)
            await asyncio.sleep(wait)

    async def _try(self, request: httpx.Request, most: float) -> Outcome:
        try:
            async with asyncio.timeout(most):
                return await self._http.send(request)
        except httpx.TransportError as error:
            return error
        except TimeoutError:
            return httpx.ReadTimeout(f"no answer in the {most:.1f} s that were left")

    def _failed(self, outcome: Outcome, key: str | None) -> Exception:
        if isinstance(outcome, httpx.Response):
            return error_of_answer(outcome, key=key)
        reason = str(outcome) or type(outcome).__name__
        return Unreachable(f"no answer from {self._http.base_url}: {reason}", key=key)


def _named(name: str, check: Callable[[str], str], value: str) -> str:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def job_path(job_id: UUID | str) -> str:
    """Path of a job's route; whatever was given as an id stays one path segment."""
    return f"/v1/jobs/{quote(str(job_id), safe='')}"


def _read(answer: httpx.Response) -> dict[str, Any]:
    return _parsed(answer.content)


def _parsed(said: str | bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said, parse_float=Decimal)
    return found

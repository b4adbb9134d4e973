"""ChotClient: submit, wait, follow, explain, list, cancel and redrive jobs over HTTP.

Each call may be repeated by the client itself (shared/client/patience.py) until its deadline: a
submit goes out under one Idempotency-Key, whatever number of times it takes, and makes one job.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.address import checked_token, checked_url
from shared.client.costs import Costs
from shared.client.documents import Documents
from shared.client.errors import (
    ApiError,
    NotDead,
    StillActive,
    Unreachable,
    error_of_answer,
    no_answer_of_ours,
)
from shared.client.files import Files
from shared.client.groups import Groups
from shared.client.ledger import Ledger
from shared.client.migrations import Migrations
from shared.client.patience import Outcome, Patience, is_passing
from shared.client.periods import Periods
from shared.client.postings import Postings
from shared.client.reading import items_of, page_of, queues_of, understood
from shared.client.results import BatchItem, Event, Job, Queue, Submitted, Why
from shared.client.stream import read_lines, read_messages
from shared.client.wanted import (
    JobRequest,
    batch_bodies,
    chunk_keys,
    fresh_key,
    instant_text,
    is_replay,
    key_header,
)
from shared.json_text import to_json
from shared.types import JobState

DEADLINE_SECONDS = 60.0
TIMEOUT_SECONDS = 15.0
FILE_SECONDS = 60.0  # between some bytes of a file, and for the answer behind its last one
LONGEST_POLL_SECONDS = 20.0
# Two of the api's heartbeats at the least: a stream that is silent for longer is dead.
STREAM_SILENCE_SECONDS = 60.0
PAGE = 200


class ChotClient:
    """The api at `url` for the bearer of `token`.

    `groups` has the calls on groups, `periods` those on periods, `costs` those on cost runs and
    their files, `files` those on files to be sent, `documents` those on documents, `ledger` those
    on entries and reports, `migrations` those on runs of tasks. `deadline` bounds every call with
    all its tries, `timeout` one try (seconds). Errors are those of shared/client/errors.py. One
    client may serve any number of tasks.
    ValueError, at once, for a `url` or a `token` of which no request can be made.
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
        self.groups = Groups(self._ask, deadline)
        self.periods = Periods(self._ask, deadline)
        self.costs = Costs(self._ask, self._file, deadline)
        self.documents = Documents(self._ask)
        self.files = Files(self._ask, self._send_file, deadline)
        self.ledger = Ledger(self._ask)
        self.migrations = Migrations(self._ask)
        self.postings = Postings(self._ask)
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
        approval: UUID | str | None = None,
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
            approval=approval,
        )
        key = fresh_key() if key is None else key
        body = to_json(wanted.body())
        answer = await self._ask("POST", "/v1/jobs", body=body, key=key)
        read = partial(Submitted.of, key=key, replayed=is_replay(answer.headers))
        return understood(answer, read, key=key)

    async def batch(
        self, jobs: Iterable[JobRequest], *, key: str | None = None
    ) -> Sequence[BatchItem]:
        """Submit many jobs; each gets an outcome, in the order given.

        A thousand at a time (fewer of large ones) are one transaction, each under a key of its own
        that is made of `key`: the same call with the same key and jobs submits each of them once.
        An error carries `key`. ValueError, before anything is sent, for a key with no room left.
        """
        key = fresh_key() if key is None else key
        bodies = list(batch_bodies(to_json(each.body()) for each in jobs))
        keys = chunk_keys(key, len(bodies))
        found: list[BatchItem] = []
        try:
            for each, body in zip(keys, bodies, strict=True):
                answer = await self._ask("POST", "/v1/jobs:batch", body=body, key=each)
                read = partial(items_of, replayed=is_replay(answer.headers))
                found += understood(answer, read, key=key)
        except (ApiError, Unreachable) as error:
            error.key = key  # a part's own key, given to batch(), would be another one's start
            raise
        return found

    async def get(self, job_id: UUID | str, *, wait: float = 0) -> Job:
        """The job as it is; with `wait` once it has ended, or after so many seconds at most."""
        return await self._look(job_id, wait, within=self._deadline + wait)

    async def _look(self, job_id: UUID | str, wait: float, *, within: float) -> Job:
        params = {"wait": f"{wait:g}"} if wait else {}
        patience = Patience(within)
        answer = await self._ask(
            "GET", job_path(job_id), params=params, extra=wait, patience=patience
        )
        return understood(answer, Job.of)

    async def wait(self, job_id: UUID | str, *, timeout: float | None = None) -> Job:  # noqa: ASYNC109 - said to the api, which waits
        """The job once it has ended, however it has; StillActive after `timeout` seconds.

        Never later: who has heard nothing of the job until then gets Unreachable. 0 looks once.
        """
        patience = None if timeout is None else Patience(timeout)
        most = self._deadline if patience is None else patience.left or self._timeout
        job = await self._look(job_id, 0, within=most)
        while not job.has_ended:
            left = LONGEST_POLL_SECONDS if patience is None else patience.left
            held = round(min(left, LONGEST_POLL_SECONDS), 3)
            if not held:
                raise StillActive(job.id, job.state.value)
            most = self._deadline + held
            try:
                job = await self._look(
                    job_id, held, within=most if patience is None else min(most, left)
                )
            except (Unreachable, ApiError) as error:
                if patience is None or most < left or not is_passing(error):
                    raise
                raise StillActive(job.id, job.state.value) from error
        return job

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
                        async for message in read_messages(
                            read_lines(answer.aiter_bytes()), last_id=known
                        ):
                            known, patience = message.id, Patience(self._deadline)
                            job = understood(answer, Job.of, said=message.data)
                            yield Event(id=message.id, name=message.name, job=job)
                            if message.name == "end":
                                return
            except httpx.TransportError as error:
                outcome = error
            except httpx.DecodingError as error:
                outcome = httpx.RemoteProtocolError(str(error))
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

    @asynccontextmanager
    async def _file(self, path: str) -> AsyncIterator[httpx.Response]:
        async with self._http.stream("GET", path, headers={"Accept": "*/*"}) as answer:
            yield answer

    async def _send_file(
        self, given: Mapping[str, str], parts: AsyncIterator[bytes], size: int
    ) -> httpx.Response:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return await self._http.post(
            "/v1/files", params=given, content=parts, headers=headers, timeout=FILE_SECONDS
        )

    async def why(self, job_id: UUID | str) -> Why:
        """Why the job is not running, or not done: the first thing that keeps it, and all facts."""
        return understood(await self._ask("GET", f"{job_path(job_id)}/why"), Why.of)

    async def queues(self) -> Sequence[Queue]:
        """Every queue, with how much of this account's work waits in it, and for how long."""
        return understood(await self._ask("GET", "/v1/queues"), queues_of)

    async def cancel(self, job_id: UUID | str) -> Job:
        """Cancel: once this returns, no effect of the job commits. TooLate when it has ended."""
        return understood(await self._ask("POST", f"{job_path(job_id)}/cancel"), Job.of)

    async def redrive(self, job_id: UUID | str, approval: UUID | str | None = None) -> None:
        """Put a dead job back to pending; NotDead, TwinActive and others say why not.

        `approval`: the id of another account's, where the deployment asks for one.
        """
        patience = Patience(self._deadline)
        body = None if approval is None else to_json({"approval": str(approval)})
        try:
            await self._ask("POST", f"{job_path(job_id)}/redrive", body=body, patience=patience)
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
        group: UUID | str | None = None,
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
            "group": None if group is None else str(group),
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
            answer = await self._ask("GET", "/v1/jobs", params=asked)
            jobs, following = understood(answer, page_of)
            for job in jobs:
                yield job
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following

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
        except httpx.DecodingError as error:
            return httpx.RemoteProtocolError(str(error))
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

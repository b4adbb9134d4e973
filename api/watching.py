"""The hub: everybody in this process who waits for jobs, and the one query that looks for them.

Whoever waits (`?wait`, `/events`) is a watcher. As long as there are some, all their jobs are
looked at by one query an interval; a newcomer is looked after soon, together with all who came
meanwhile. Between two looks nothing is held, neither a transaction nor a connection. Watchers
get the newest sighting and no queue of them: who is slow misses what is old, and nobody waits for
anybody. Every few seconds it is asked, in one query, whose key is still good.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping

from api.actions import job_not_found
from api.authentication import Authenticator, Caller
from api.gate import unauthorized
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.rights import READ, forbidden
from api.sightings import Sighting, sighting_of
from shared.database import DATABASE_ERRORS
from shared.jobs.read import show_job
from shared.jobs.watched import watched_jobs
from shared.logs import log
from shared.telling import told

CHUNK = 1000
# Half of what a request's key is believed for (api/authentication.py).
KEYS_SECONDS = 2.5
# A newcomer waits a tenth of the interval, so that those who come together are one query.
NEWCOMERS = 0.1
SHOWN_AT_ONCE = 4
SHARE_OF_AN_ACCOUNT = 0.5
LOOK_FAILED = (*DATABASE_ERRORS, TimeoutError, ProblemRaised)


@dataclass(slots=True, eq=False)
class Watcher:
    """One client that waits for one job. `caller` is who it is now: None once its key has ended."""

    job_id: UUID
    token: str | None
    caller: Caller | None
    sighting: Sighting | None = None
    looked: bool = False
    failure: Exception | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, sighting: Sighting | None) -> None:
        """Take what a look that began after this watcher came has found; None: no such job."""
        before, self.sighting, self.looked = self.sighting, sighting, True
        if _id_of(sighting) is None or _id_of(sighting) != _id_of(before):
            self._news.set()

    def fail(self, error: Exception) -> None:
        """Take that a look failed: matters to those who have not seen anything yet."""
        self.failure = error
        if not self.looked:
            self._news.set()

    def wake(self) -> None:
        """Have the watcher look around: the process ends, or its key has."""
        self._news.set()

    async def changed(self, seconds: float) -> bool:
        """Wait for news; False when there was none in so many seconds."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def refuse(self) -> Problem | None:
        """What stands against showing this watcher what was seen: its key, its role, its scope."""
        if self.caller is None:
            return unauthorized()
        if not READ.allows(self.caller):
            return forbidden("GET /v1/jobs/{job_id}", READ)
        if not self.looked:
            return None
        facts = None if self.sighting is None else self.sighting.facts
        if facts is None or not self.caller.scope.covers(facts["company"], facts["brand"]):
            return job_not_found(self.job_id)
        return None

    async def first(self, seconds: float) -> Sighting:
        """The first sighting, or ProblemRaised, or what the database raised."""
        until = monotonic() + seconds
        while not self.looked:
            if self.failure is not None or monotonic() > until:
                raise self.failure or TimeoutError("no look has ended in time")
            await self.changed(until - monotonic())
        self._news.clear()
        problem = self.refuse()
        if problem is not None:
            raise ProblemRaised(problem)
        assert self.sighting is not None, "what is not there was refused"
        return self.sighting


def _id_of(sighting: Sighting | None) -> str | None:
    return None if sighting is None else sighting.rendering.event_id


@dataclass(slots=True, eq=False)
class Hub:
    """All watchers of this process, and the loop that looks for them while there are any."""

    resources: Resources
    authenticator: Authenticator
    _watchers: set[Watcher] = field(default_factory=set)
    _of_account: Counter[str] = field(default_factory=Counter)
    _last: dict[UUID, Sighting] = field(default_factory=dict)
    _loop: asyncio.Task[None] | None = None
    _newcomers: asyncio.Event = field(default_factory=asyncio.Event)
    _keys_due: float = 0.0
    _failing: bool = False
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SHOWN_AT_ONCE))

    @contextmanager
    def watch(self, job_id: UUID, caller: Caller, token: str | None) -> Iterator[Watcher]:
        """A place among the watchers; ProblemRaised (overloaded) when all are taken.

        One account gets half of them at most, so that a script of its own keeps nobody else out.
        """
        principal = caller.principal
        self._refuse_beyond_places(principal)
        watcher = Watcher(job_id, token, caller)
        self._watchers.add(watcher)
        self._of_account[principal] += 1
        self._newcomers.set()
        if self.asleep:
            self._keys_due = monotonic() + KEYS_SECONDS
            self._loop = asyncio.create_task(self._run(), name="hub")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            self._of_account[principal] -= 1
            if not self._of_account[principal]:
                del self._of_account[principal]
            if not self._watchers:
                self._newcomers.set()

    def _refuse_beyond_places(self, principal: str) -> None:
        most = self.resources.settings.live_listeners
        each = ceil(most * SHARE_OF_AN_ACCOUNT)
        if len(self._watchers) >= most:
            detail = f"{most} clients wait for jobs here already; poll, or send it again"
        elif self._of_account[principal] >= each:
            detail = f"{each} clients of this account wait here already, and no more may; poll"
        else:
            return
        raise ProblemRaised(Problem(slug="overloaded", detail=detail))

    @property
    def watching(self) -> int:
        """How many places are taken."""
        return len(self._watchers)

    @property
    def asleep(self) -> bool:
        """Whether nobody watches, and so nothing is asked."""
        return self._loop is None or self._loop.done()

    @property
    def stopping(self) -> bool:
        """Whether this process ends: answer, and let go."""
        return self.resources.stopping.is_set()

    async def show(self, sighting: Sighting) -> RowMapping | None:
        """The whole job, read after this sighting, by one query for all who ask of it.

        Nobody is sent away here: who cannot be served at once waits, without a connection.
        """
        if sighting.shown is None:
            sighting.shown = asyncio.create_task(self._show(sighting.facts["id"]), name="show")
            sighting.shown.add_done_callback(_look_at)
        shown: RowMapping | None = await asyncio.shield(sighting.shown)
        return shown

    async def _show(self, job_id: UUID) -> RowMapping | None:
        async with self._turns, self.resources.reading() as conn:
            return await show_job(conn, job_id)

    async def _run(self) -> None:
        stopping = asyncio.create_task(self.resources.stopping.wait(), name="hub stops")
        stopping.add_done_callback(lambda _: self._wake_all())
        try:
            while self._watchers:
                began = monotonic()
                await self._look(list(self._watchers))
                await self._rest(began)
        finally:
            stopping.cancel()
            self._last.clear()

    def _wake_all(self) -> None:
        for watcher in self._watchers:
            watcher.wake()

    async def _rest(self, began: float) -> None:
        """Until the next look is due, look for newcomers only; not longer than somebody watches."""
        interval = self.resources.settings.live_seconds
        # A query that takes long is asked more rarely: never more than half of the time.
        due = max(began + interval, monotonic() + (monotonic() - began))
        while self._watchers and (left := due - monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._newcomers.wait()
            self._newcomers.clear()
            if any(not each.looked for each in self._watchers):
                await asyncio.sleep(interval * NEWCOMERS)
                await self._look([each for each in self._watchers if not each.looked])

    async def _look(self, watchers: Sequence[Watcher]) -> None:
        try:
            await self._judge_keys()
            found = await self._sightings({each.job_id for each in watchers})
        except LOOK_FAILED as error:
            self._failed(error, watchers)
        except Exception as error:  # noqa: BLE001 - a loop that died would leave all waiting
            log.exception("hub.failed")
            self._failed(error, watchers)
        else:
            self._failing = False
            for each in watchers:
                each.see(found.get(each.job_id))

    def _failed(self, error: Exception, watchers: Sequence[Watcher]) -> None:
        if not self._failing:
            log.warning("hub.blind", error=told(error))
        self._failing = True
        for each in watchers:
            each.fail(error)

    async def _sightings(self, ids: Collection[UUID]) -> dict[UUID, Sighting]:
        found: dict[UUID, Sighting] = {}
        async with self.resources.background.connect() as conn:
            for chunk in _chunks(sorted(ids)):
                for job_id, row in (await watched_jobs(conn, chunk)).items():
                    found[job_id] = sighting_of(row, self._last.get(job_id))
        watched = {each.job_id for each in self._watchers}
        self._last = {
            job_id: seen for job_id, seen in (self._last | found).items() if job_id in watched
        }
        return found

    async def _judge_keys(self) -> None:
        """Ask who still is who, before anything more is shown to anybody."""
        if monotonic() < self._keys_due:
            return
        began = monotonic()
        watchers = [each for each in self._watchers if each.token is not None]
        tokens = {each.token for each in watchers if each.token is not None}
        if tokens:
            callers = await self.authenticator.authenticate_all(tokens)
            for each in watchers:
                each.caller = callers.get(each.token or "")
                if each.refuse() is not None:
                    each.wake()
        self._keys_due = began + KEYS_SECONDS


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Where nobody waits for it any more, nobody else would see its error."""
    if not task.cancelled():
        task.exception()


def _chunks(ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    return (ids[n : n + CHUNK] for n in range(0, len(ids), CHUNK))


@asynccontextmanager
async def open_hub(resources: Resources, authenticator: Authenticator) -> AsyncIterator[Hub]:
    """A hub whose loop has ended when the block ends."""
    hub = Hub(resources, authenticator)
    try:
        yield hub
    finally:
        if hub._loop is not None:  # noqa: SLF001 - its other half
            hub._loop.cancel()  # noqa: SLF001
            await asyncio.gather(hub._loop, return_exceptions=True)  # noqa: SLF001

"""Who asks: a bearer token becomes a caller. The one place that knows what tokens look like.

Another kind of token (a JWT of an identity provider, say) is one more Authenticator in the list
that open_authenticator() puts together; nothing else changes.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.settings import ApiSettings
from shared.access import EVERYTHING, Role, Scope
from shared.api_keys import find_key, find_keys, key_hash_of, key_id_of, touch_key
from shared.database import DATABASE_ERRORS

ACCOUNT = "api"  # who holds the deployment's own token, and whoever asks an open api
CACHE_SECONDS = 5.0  # a revoked key works for as long at most; docs/http.md says so
CACHED_KEYS = 10_000
# A flood of guesses may use so many of the pool's connections, and no more.
LOOKUPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An account as it asks now: its stable name, its rights, and the key it showed (public id)."""

    principal: str
    roles: frozenset[Role]
    scope: Scope = EVERYTHING
    key_id: str | None = None

    def has(self, role: Role) -> bool:
        """Whether it holds the role; admin holds every one."""
        return role in self.roles or Role.ADMIN in self.roles


OWNER = Caller(principal=ACCOUNT, roles=frozenset({Role.ADMIN}))


class Authenticator(Protocol):
    """Turns a bearer token into a caller."""

    async def authenticate(self, token: str) -> Caller | None:
        """The caller, or None for a token of another kind or of nobody.

        Raises what the database raises when it cannot be asked: no answer is no permission.
        """
        ...

    async def authenticate_all(self, tokens: Collection[str]) -> Mapping[str, Caller]:
        """Who holds them now, whatever is remembered: of those that have been let in and go on.

        Costs one query at most, however many there are. A token of another kind or of nobody is
        not in the answer.
        """
        ...


class DeploymentToken:
    """CHOT_TOKEN: one secret with every right, for a deployment that has made no key yet."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def authenticate(self, token: str) -> Caller | None:
        """Compare in constant time."""
        known = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        return OWNER if known else None

    async def authenticate_all(self, tokens: Collection[str]) -> Mapping[str, Caller]:
        """Compare each in constant time."""
        return {token: OWNER for token in tokens if await self.authenticate(token) is not None}


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Caller
    until: float


@dataclass(slots=True)
class StoredKeys:
    """Keys of chot.api_keys. A good one is believed for CACHE_SECONDS, a bad one never.

    Requests that show the same key while it is being looked up share the one look-up.
    """

    resources: Resources
    _known: dict[bytes, _Known] = field(default_factory=dict)
    _asking: dict[bytes, asyncio.Task[Caller | None]] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKUPS))

    async def authenticate(self, token: str) -> Caller | None:
        """Find the key by its id, compare hashes in constant time, remember it for a moment."""
        key_id = key_id_of(token)
        if key_id is None:
            return None
        shown = key_hash_of(token)
        known = self._known.get(shown)
        if known is not None and monotonic() < known.until:
            return known.caller
        task = self._asking.get(shown)
        if task is None:
            task = asyncio.create_task(self._look_up(key_id, shown), name="look up a key")
            self._asking[shown] = task
            task.add_done_callback(lambda done: self._asked(shown, done))
        return await asyncio.shield(task)

    async def authenticate_all(self, tokens: Collection[str]) -> Mapping[str, Caller]:
        """Find all keys by one query; what is no longer a key is forgotten at once."""
        ids = {token: key_id for token in tokens if (key_id := key_id_of(token)) is not None}
        if not ids:
            return {}
        async with self.resources.background.connect() as conn:
            rows = await find_keys(conn, sorted(set(ids.values())))
        callers: dict[str, Caller] = {}
        for token, key_id in ids.items():
            row, shown = rows.get(key_id), key_hash_of(token)
            if row is not None and hmac.compare_digest(row.key_hash, shown):
                callers[token] = caller_of(row, key_id)
            else:
                self._known.pop(shown, None)
        return callers

    def _asked(self, shown: bytes, task: asyncio.Task[Caller | None]) -> None:
        del self._asking[shown]
        if not task.cancelled():
            task.exception()  # seen: where nobody waits any more, nobody else would look

    async def _look_up(self, key_id: str, shown: bytes) -> Caller | None:
        if self.resources.unready is not None:
            raise ProblemRaised(Problem(slug="starting", detail=self.resources.unready))
        self._known.pop(shown, None)
        began = monotonic()  # before the question: a revocation after it is not in the answer
        async with self._turn(), self.resources.reading() as conn:
            row = await find_key(conn, key_id)
            if row is None or not hmac.compare_digest(row.key_hash, shown):
                return None
            if not row.used_lately:
                # A note for people: a database that takes no writes must not end the reading.
                with suppress(*DATABASE_ERRORS):
                    await touch_key(conn, key_id)
        caller = caller_of(row, key_id)
        lasts = CACHE_SECONDS if row.seconds_left is None else min(CACHE_SECONDS, row.seconds_left)
        if len(self._known) >= CACHED_KEYS:
            self._known.clear()
        self._known[shown] = _Known(caller, began + lasts)
        return caller

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place among LOOKUPS; TimeoutError, as of a pool, where none is free in time."""
        async with asyncio.timeout(self.resources.settings.api_pool_timeout_seconds):
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()


def caller_of(row: Any, key_id: str) -> Caller:
    """The account of a key's row, as find_key() answers it."""
    brands = None if row.brands is None else tuple(row.brands)
    return Caller(
        principal=row.principal,
        roles=frozenset(map(Role, row.roles)),
        scope=Scope(company=row.company, brands=brands),
        key_id=key_id,
    )


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The first authenticator that knows the token wins."""

    parts: Sequence[Authenticator]

    async def authenticate(self, token: str) -> Caller | None:
        """Ask one after the other."""
        for part in self.parts:
            caller = await part.authenticate(token)
            if caller is not None:
                return caller
        return None

    async def authenticate_all(self, tokens: Collection[str]) -> Mapping[str, Caller]:
        """Ask one after the other for those that nobody has known yet."""
        known: dict[str, Caller] = {}
        for part in self.parts:
            known |= await part.authenticate_all([each for each in tokens if each not in known])
        return known


def open_authenticator(settings: ApiSettings, resources: Resources) -> Authenticator:
    """The deployment's token, where there is one, then the stored keys.

    A CHOT_TOKEN that is a key is no second way in: a command line beside the api has its own key
    in that variable, and it must not make that key an admin.
    """
    parts: list[Authenticator] = [StoredKeys(resources)]
    token = settings.token.get_secret_value() if settings.token is not None else None
    if token is not None and key_id_of(token) is None:
        parts.insert(0, DeploymentToken(token))
    return AnyOf(parts)

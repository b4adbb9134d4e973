"""Groups of a ChotClient: open, append, seal, look, wait, cancel, redrive."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, Self
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.errors import ApiError, GroupActive, StillActive, Unreachable
from shared.client.patience import Patience
from shared.client.reading import items_of, understood
from shared.client.results import BatchItem, instant, moment
from shared.client.wanted import JobRequest, batch_bodies, chunk_keys, fresh_key, is_replay
from shared.json_text import to_json

Policy = Literal["fail_fast", "finish", "join"]
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.2, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as the api shows it: `total` members, of which `remaining` have not ended.

    `body` is all that the api said.
    """

    id: UUID
    company: str
    brand: str | None
    state: str
    policy: str
    outcome: str | None
    generation: int
    total: int
    remaining: int
    succeeded: int
    dead: int
    cancelled: int
    join_id: UUID | None
    join_state: str | None
    opened_at: datetime
    ended_at: datetime | None
    body: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether all members have ended; the join may still be to run."""
        return self.state == "ended"

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        join = body["join"]
        counts = ("generation", "total", "remaining", "succeeded", "dead", "cancelled")
        return cls(
            id=UUID(body["id"]),
            company=body["company"],
            brand=body["brand"],
            state=body["state"],
            policy=body["policy"],
            outcome=body["outcome"],
            join_id=None if join is None else UUID(join["id"]),
            join_state=None if join is None else join["state"],
            opened_at=moment(body["opened_at"]),
            ended_at=instant(body["ended_at"]),
            body=body,
            **{name: int(body[name]) for name in counts},
        )


Ask = Callable[..., Awaitable[httpx.Response]]


@dataclass(frozen=True, slots=True)
class Groups:
    """The calls on groups; each as those of the client, with its deadline and its errors."""

    _ask: Ask
    _deadline: float

    async def open(
        self,
        *,
        company: str,
        brand: str | None = None,
        policy: Policy = "finish",
        join: JobRequest | None = None,
        key: str | None = None,
    ) -> Group:
        """Open a group, once. The join is of the group's company and brand, whatever it names.

        TwinActive where another job does the join's work.
        """
        given: dict[str, Any] = {"company": company, "brand": brand, "policy": policy}
        if join is not None:
            members = ("kind", "payload", "priority", "max_attempts")
            asked = join.body()
            given["join"] = {name: asked[name] for name in members if name in asked}
        body = to_json({name: value for name, value in given.items() if value is not None})
        key = key or fresh_key()
        return understood(await self._ask("POST", "/v1/groups", body=body, key=key), Group.of)

    async def append(
        self, group_id: UUID | str, jobs: Iterable[JobRequest], *, key: str | None = None
    ) -> Sequence[BatchItem]:
        """Append any number of jobs, a thousand a request; an outcome each, in the order given.

        The same call again counts nothing twice. GroupClosed once the group is sealed.
        """
        key = key or fresh_key()
        bodies = list(batch_bodies(to_json(each.body()) for each in jobs))
        found: list[BatchItem] = []
        try:
            for each, body in zip(chunk_keys(key, len(bodies)), bodies, strict=True):
                path = f"{group_path(group_id)}/jobs:batch"
                answer = await self._ask("POST", path, body=body, key=each)
                read = partial(items_of, replayed=is_replay(answer.headers))
                found += understood(answer, read, key=key)
        except (ApiError, Unreachable) as error:
            error.key = key
            raise
        return found

    async def seal(self, group_id: UUID | str) -> Group:
        """Say that it has all its members; again, it is shown as it is."""
        return understood(await self._ask("POST", f"{group_path(group_id)}/seal"), Group.of)

    async def get(self, group_id: UUID | str) -> Group:
        """The group as it is."""
        return understood(await self._ask("GET", group_path(group_id)), Group.of)

    async def cancel(self, group_id: UUID | str) -> Group:
        """Cancel it: from the answer on no member starts. GroupEnded when nothing is left."""
        return understood(await self._ask("POST", f"{group_path(group_id)}/cancel"), Group.of)

    async def redrive(self, group_id: UUID | str, approval: UUID | str | None = None) -> Group:
        """Run again what did not succeed of an ended group, and its join."""
        body = None if approval is None else to_json({"approval": str(approval)})
        patience = Patience(self._deadline)
        path = f"{group_path(group_id)}/redrive"
        try:
            answer = await self._ask("POST", path, body=body, patience=patience)
        except GroupActive:
            # An answer was lost, and the group runs: that was this redrive, or one like it.
            if patience.tries == 1:
                raise
            return await self.get(group_id)
        return understood(answer, Group.of)

    async def wait(self, group_id: UUID | str, *, timeout: float | None = None) -> Group:  # noqa: ASYNC109 - as of a job
        """The group once all its members have ended; StillActive after `timeout` seconds.

        Wait for the join itself as for any job.
        """
        until = None if timeout is None else Patience(timeout)
        pause = FIRST_LOOK_SECONDS
        while True:
            group = await self.get(group_id)
            if group.has_ended:
                return group
            left = LONGEST_LOOK_SECONDS if until is None else until.left
            if left <= 0:
                raise StillActive(group.id, group.state, what="group")
            await asyncio.sleep(min(pause, left))
            pause = min(LONGEST_LOOK_SECONDS, pause * 1.5)


def group_path(group_id: UUID | str) -> str:
    """Path of a group's route; whatever was given as an id stays one path segment."""
    return f"/v1/groups/{quote(str(group_id), safe='')}"

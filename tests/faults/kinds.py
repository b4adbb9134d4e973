"""Kinds of the fault suite: each leaves effects that can be counted afterwards."""

from datetime import timedelta
from typing import Any, Literal

from shared.kinds import Kind, Lock, Payload, RetryPolicy

FAST = RetryPolicy(base=timedelta(milliseconds=50), cap=timedelta(milliseconds=400))
# Jobs that must end dead, whatever happens. Every other one must succeed.
POISON = ("permanent", "exit")


class Chunked(Payload):
    """Some chunks of work, one fenced transaction each.

    `seconds` pass before each, `hold` inside it after its writes. With `complete` the last chunk
    is one commit with the completion; `fail_first` attempts fail before they do anything.
    """

    number: int
    chunks: int = 1
    seconds: float = 0.0
    hold: float = 0.0
    fail_first: int = 0
    complete: bool = False


class Harm(Payload):
    """Harm the worker at the first attempt (poison: at every one), else write one effect."""

    number: int
    how: Literal["stop_in_transaction", "block_loop", "kill_child", "hog_pool", "permanent", "exit"]
    seconds: float = 0.0


class Gather(Payload):
    """Items that meet in one job; each must come out of exactly one."""

    number: int
    items: list[str] = []  # noqa: RUF012 - pydantic copies it


class Locked(Chunked):
    """Chunks under business locks: of a part of the books (None: all) and a range of months."""

    store: str
    part: str | None = None
    first: str | None = None
    last: str | None = None


class Member(Chunked):
    """A member of a group, or its join; `poison` dies at its first attempt."""

    poison: bool = False


def child_number(parent: int, place: int) -> int:
    """The number of a spawned child: no client's."""
    return -(parent * 100 + place + 1)


class Parent(Chunked):
    """Spawns a group of so many members with its last chunk; `joined`: one that has a join."""

    spawns: int = 0
    joined: bool = False


def books(mode: Literal["shared", "exclusive"]) -> Lock:
    """A lock of the books that a payload of Locked names."""
    return Lock(
        root="books/{company}",
        part="{payload.part}",
        mode=mode,
        period_from="{payload.first}",
        period_to="{payload.last}",
    )


STOCK = Lock(root="stock/{payload.store}", part="{payload.part}")
# No more of this kind may run, of all workers together.
MOST_LIMITED = 2


def _kind(name: str, payload: Any, **more: Any) -> Kind:
    return Kind(
        name=name,
        payload=payload,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
        **more,
    )


KINDS = (
    _kind("fault.write", Chunked),
    _kind("fault.move", Chunked),
    _kind("fault.harm", Harm),
    _kind("fault.merge", Gather, on_duplicate="merge"),
    _kind("fault.follow", Gather, on_duplicate="follow_up"),
    _kind("fault.lock_write", Locked, locks=(books("exclusive"),)),
    _kind("fault.lock_read", Locked, locks=(books("shared"),)),
    _kind("fault.lock_two", Locked, locks=(STOCK, books("exclusive"))),
    _kind("fault.limited", Chunked, max_running=MOST_LIMITED),
    _kind("fault.member", Member),
    _kind("fault.join", Member),
    _kind("fault.parent", Parent),
)

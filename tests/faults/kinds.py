"""Kinds of the fault suite: each leaves effects that can be counted afterwards."""

from datetime import timedelta
from typing import Any, Literal

from shared.kinds import Kind, Payload, RetryPolicy

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
)

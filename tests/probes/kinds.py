"""Probe kinds, declared as any outside team would declare its own."""

from datetime import timedelta
from typing import Literal

from shared.kinds import Kind, Payload, RetryPolicy

FAST = RetryPolicy(base=timedelta(milliseconds=50), cap=timedelta(milliseconds=200))


class Probe(Payload):
    """What all probes share: a number that makes them different work."""

    number: int


class Write(Probe):
    """Write `chunks` effects, one fenced transaction each, `seconds` apart.

    `hold_seconds` more pass inside each transaction, after its write. With `complete` the last
    chunk is committed together with the completion. `unyielding` looks at no drain.
    """

    chunks: int = 1
    seconds: float = 0.0
    fail_first: int = 0
    hold_seconds: float = 0.0
    complete: bool = False
    unyielding: bool = False


class Post(Probe):
    """Post `documents`, `chunk` of them a fenced transaction, `seconds` before each chunk.

    A document is two entries, debit and credit of one amount, between accounts of its own.
    """

    documents: int = 1
    chunk: int = 100
    seconds: float = 0.0


class Misbehave(Probe):
    """Do one bad thing; with `only_first` no other attempt does, it just writes an effect."""

    how: Literal[
        "exit",
        "segfault",
        "block",
        "hold_gil",
        "eat_memory",
        "swallow_cancel",
        "swallow_and_return",
        "catch_exception",
        "sleep",
        "cpu",
        "child_chunks",
        "child_cpu",
        "child_exit",
        "raise",
        "raise_permanent",
        "raise_odd",
        "raise_exit",
        "return_nan",
        "return_large",
        "return_values",
        "catch_everything",
        "return_bytes",
        "return_cycle",
        "return_set",
        "child_print",
    ]
    seconds: float = 0.0
    only_first: bool = False


class Scoped(Probe):
    """A payload with something to merge."""

    items: list[str] = []  # noqa: RUF012 - pydantic copies it
    note: str = ""


KINDS = (
    Kind(
        name="probe.write",
        payload=Write,
        timeout=timedelta(seconds=120),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.post",
        payload=Post,
        timeout=timedelta(seconds=120),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.misbehave",
        payload=Misbehave,
        timeout=timedelta(seconds=120),
        retry=RetryPolicy(
            max_attempts=3, base=FAST.base, cap=FAST.cap, permanent=(ZeroDivisionError,)
        ),
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.brief",
        payload=Misbehave,
        timeout=timedelta(seconds=1),
        retry=RetryPolicy(max_attempts=2, base=FAST.base, cap=FAST.cap),
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.merge",
        payload=Scoped,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="merge",
    ),
    Kind(
        name="probe.follow",
        payload=Scoped,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="follow_up",
    ),
)

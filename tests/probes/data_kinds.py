"""Probe kinds that move data: they echo numbers, post documents with balanced lines, copy rows."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from shared.kinds import Kind, RetryPolicy
from tests.probes.kinds import FAST, Probe


class Echo(Probe):
    """Write the numbers into columns of their own and return them as the handler saw them."""

    ids: list[int] = []  # noqa: RUF012 - pydantic copies it
    amount: Decimal = Decimal(0)
    anything: Any = None


class Give(Probe):
    """Return (or raise) what `how` names; `complete_with_nan` has written an effect before."""

    how: str


class Ledger(Probe):
    """Post `documents` of four balanced lines each, `chunk` of them in a fenced transaction."""

    documents: int
    chunk: int = 500
    seconds: float = 0.0


class Tenths(Probe):
    """Post `lines` of 0.1 each, `chunk` of them in a fenced transaction."""

    lines: int
    chunk: int = 50_000


class Copy(Probe):
    """Copy probe.source into probe.target, `chunk` rows a fenced transaction, in order of id.

    After `run_seconds` it hands the job back between two chunks: no run may take longer.
    """

    chunk: int = 5_000
    run_seconds: float = 60.0
    seconds: float = 0.0


def _kind(name: str, payload: type[Probe], *, max_attempts: int = 5, seconds: float = 300) -> Kind:
    return Kind(
        name=name,
        payload=payload,
        timeout=timedelta(seconds=seconds),
        retry=RetryPolicy(max_attempts=max_attempts, base=FAST.base, cap=FAST.cap),
        fingerprint_fields=("number",),
    )


KINDS = (
    _kind("data.echo", Echo),
    _kind("data.give", Give),
    _kind("data.ledger", Ledger),
    _kind("data.tenths", Tenths),
    _kind("data.copy", Copy, max_attempts=10),
    # Its hard timeout comes before its end, and often.
    _kind("data.copy_brief", Copy, max_attempts=20, seconds=1),
)

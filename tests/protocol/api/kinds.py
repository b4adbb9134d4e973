"""Kinds for the tests of the api: exact numbers, a strict payload, each way to meet a duplicate."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from pydantic import Field

from shared.kinds import Kind, Payload, RetryPolicy


class Note(Payload):
    """A number that tells one work from another, and things to get wrong."""

    number: int
    note: str | None = None
    amount: Decimal | None = None
    day: date | None = None
    counts: list[int] = Field(default_factory=list, max_length=1000)
    anything: Any = None


KINDS = (
    Kind(
        name="api.note",
        payload=Note,
        timeout=timedelta(seconds=60),
        retry=RetryPolicy(max_attempts=3, max_attempts_cap=7),
        fingerprint_fields=("number",),
    ),
    Kind(
        name="api.merge",
        payload=Note,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="merge",
    ),
    Kind(
        name="api.follow",
        payload=Note,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="follow_up",
    ),
    Kind(
        name="api.inner",
        payload=Note,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        internal=True,
        made_by="POST /v1/notes/{note}/inner",
    ),
)

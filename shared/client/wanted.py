"""What a client asks for, as the api reads it."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.json_text import to_json

MOST_IN_BATCH = 1000
LONGEST_KEY = 255
# Below what an api takes by default (CHOT_BATCH_BODY_BYTES), with room for one more large job.
BATCH_BYTES = 6 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job to submit. A Decimal of the payload goes out with every digit it has.

    `run_at` is a datetime with an offset; `approval` the id of another account's, of a kind that
    is an act.
    """

    kind: str
    company: str
    payload: Mapping[str, Any]
    brand: str | None = None
    run_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None
    approval: UUID | str | None = None

    def body(self) -> dict[str, Any]:
        """The members of a POST; what was not given is left out."""
        given = {
            "kind": self.kind,
            "company": self.company,
            "brand": self.brand,
            "payload": dict(self.payload),
            "run_at": None if self.run_at is None else instant_text(self.run_at, "run_at"),
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "approval": None if self.approval is None else str(self.approval),
        }
        return {name: value for name, value in given.items() if value is not None}


def instant_text(instant: datetime, name: str) -> str:
    """RFC 3339; ValueError for an instant without an offset: nobody could say when it is.

    TypeError for what is no datetime; both name the parameter.
    """
    if not isinstance(instant, datetime):
        raise TypeError(f"{name} must be a datetime with an offset, not {instant!r}")
    if instant.tzinfo is None:
        raise ValueError(f"{name}: {instant.isoformat()} has no offset")
    return instant.isoformat()


def batch_bodies(jobs: Iterable[str]) -> Iterator[str]:
    """Bodies for POST /v1/jobs:batch, of jobs as JSON text; the same jobs give the same bodies."""
    for chunk in _chunks(jobs):
        yield f'{{"jobs":[{",".join(chunk)}]}}'


def document_bodies(company: str, documents: Iterable[str]) -> Iterator[str]:
    """Bodies for POST /v1/documents:batch, of documents as JSON text, in their order."""
    for chunk in _chunks(documents):
        yield f'{{"company":{to_json(company)},"documents":[{",".join(chunk)}]}}'


def _chunks(items: Iterable[str]) -> Iterator[list[str]]:
    """As many of them as one request may have."""
    chunk: list[str] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item.encode())
        if len(chunk) == MOST_IN_BATCH or size >= BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def fresh_key() -> str:
    """An Idempotency-Key that nobody else has."""
    return str(uuid.uuid4())


def chunk_keys(key: str, number: int) -> Sequence[str]:
    """A key for each request of a batch; ValueError for a `key` of which none can be made."""
    key_header(key)
    keys = [f"{key}.{each}" for each in range(number)]
    if keys and len(keys[-1]) > LONGEST_KEY:
        room = LONGEST_KEY - len(keys[-1]) + len(key)
        raise ValueError(
            f"the key has {len(key)} characters; {number} requests leave room for {room}"
        )
    return keys


def key_header(key: str) -> str:
    """The key as the header has it (an RFC 9651 string); ValueError for what no header can say.

    An empty one is none: whoever passes it on from a variable that is not set would be unprotected.
    """
    if not key:
        raise ValueError("the Idempotency-Key is empty")
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"{key!r} is no Idempotency-Key: printable ASCII only")
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_replay(headers: Mapping[str, str]) -> bool:
    """Whether an answer is the stored one of an earlier request under its key."""
    return headers.get("idempotency-replayed") == "true"

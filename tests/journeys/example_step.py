"""A step of docs/examples.md: one command, and what it sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command. `captures` are variables that it sets from its answer, by a path of names.

    `until` is what has to hold before it is run: a path in the job of `$JOB…` and its value.
    """

    route: str
    says: str
    command: str
    captures: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    until: tuple[str, str, Any] | None = None
    lines: int = MOST_LINES


AUTH = '-H "Authorization: Bearer $CHOT_TOKEN"'
TYPED = f'{AUTH} -H "Content-Type: application/json"'

"""From when on something that goes wrong in silence is told to a human."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds that a due job may wait and a transaction be open; dead rows beside live ones."""

    due_seconds: float
    transaction_seconds: float
    dead_rows: int

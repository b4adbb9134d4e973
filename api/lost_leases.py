"""What became of an attempt that lost its lease: who fell silent when, and who took over.

The database keeps the instants with the attempt; the sentence is made when it is read, because
where a worker is, is not for everybody.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.json_text import portable

TAKEN_OVER = "LEASE_LOST"


def lost_error(
    attempt: Mapping[str, Any], after: Mapping[str, Any] | None, *, worker: str, next_worker: str
) -> dict[str, Any]:
    """The error of such an attempt, of its row and that of the attempt after it, if any.

    `worker` and `next_worker` are what the caller may know of the two workers. `details` are the
    same as the message: worker, seen_at, lease_until, noticed_at, taken_over_by, taken_over_at.
    """
    kept = portable(attempt["error"]) or {"type": "LeaseLost", "code": TAKEN_OVER}
    known = kept.get("details") or {}
    seen, until = _instant(known.get("seen_at")), _instant(known.get("lease_until"))
    details = {
        "worker": worker,
        "seen_at": seen,
        "lease_until": until,
        "noticed_at": _instant(attempt["ended_at"]),
        "taken_over_by": None if after is None else next_worker,
        "taken_over_at": None if after is None else _instant(after["started_at"]),
    }
    parts = [
        f"worker {worker} was heard of last at {seen}" if seen else f"worker {worker} fell silent",
        f"the lease ran out at {until}" if until else "the lease ran out",
    ]
    if after is not None:
        parts.append(f"worker {next_worker} took over at {details['taken_over_at']}")
    elif details["noticed_at"]:
        parts.append(f"that was noticed at {details['noticed_at']}")
    return {**kept, "message": "; ".join(parts), "details": details}


def _instant(said: str | None) -> str | None:
    """To the second, in UTC; None stays None."""
    if said is None:
        return None
    at = datetime.fromisoformat(said)
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

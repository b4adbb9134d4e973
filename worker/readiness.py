"""Readiness: whether this worker could take a job now, which being alive does not say.

A second file beside the liveness file is touched while the database takes heartbeats, SQS answers
the receivers that have free slots, and the jobs' loop answers. `python -m worker.liveness --ready`
looks at it. It restarts nothing (an outage is no reason to): it is for alarms and for people, who
are told once when three periods have passed in vain, and once when it is over.
"""

from collections.abc import Collection
from pathlib import Path
from time import monotonic

from shared.logs import alert, log
from worker.lease import HeldLease
from worker.liveness import Liveness
from worker.presence import Presence

PERIODS = 3
SHORTEST_SECONDS = 3.0


class Readiness:
    """Judged on the heartbeat's thread, several times a second."""

    def __init__(
        self, path: Path, presence: Presence, *, beat_seconds: float, poll_seconds: float
    ) -> None:
        self._file = Liveness(path)
        self._presence = presence
        self._beat_limit = max(SHORTEST_SECONDS, PERIODS * beat_seconds)
        self._poll_limit = max(SHORTEST_SECONDS, PERIODS * poll_seconds)
        self._beaten_at = monotonic()
        self._told: str | None = None

    def beaten(self) -> None:
        """The database has taken a heartbeat."""
        self._beaten_at = monotonic()

    def tell(self, now: float, answered_at: float, held: Collection[HeldLease]) -> None:
        """Touch the file, or say why not. `answered_at` is when the jobs' loop last answered."""
        why = self.why_not(now, answered_at, held)
        if why is None and self._presence.state != "draining":
            self._file.touch()
        if why is not None and self._told is None:
            alert("worker.not_ready", worker_id=self._presence.worker_id, why=why)
        elif why is None and self._told is not None:
            log.info("worker.ready", worker_id=self._presence.worker_id, was=self._told)
        self._told = why

    def why_not(self, now: float, answered_at: float, held: Collection[HeldLease]) -> str | None:
        """What has not answered for three periods; None when all has."""
        if now > self._beaten_at + self._beat_limit:
            return "the database takes no heartbeat"
        if now > answered_at + self._beat_limit:
            return "the jobs' loop does not answer"
        queues = self._presence.queues
        if held and len(held) >= sum(each.slots for each in queues.values()):
            return None if any(each.stopped is None for each in held) else "every slot is stuck"
        for name, each in queues.items():
            # A copy: the jobs' loop changes them meanwhile. None while no slot is free.
            free_since, received_at = each.free_since, each.received_at
            if free_since is not None and now > max(free_since, received_at) + self._poll_limit:
                return f"SQS does not answer for queue {name}"
        return None

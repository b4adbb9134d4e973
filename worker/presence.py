"""Presence: what a live worker says of itself at every beat."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.types import WorkerId


@dataclass(slots=True)
class QueuePresence:
    """One queue of this worker. Times are `monotonic()` seconds; None means not so."""

    slots: int
    free_slots: int
    free_since: float | None = None
    empty_receive_at: float | None = None
    received_at: float = float("-inf")  # the last receive that came to an end

    def set_free(self, free: int) -> None:
        """Note how many slots are free now, and since when some have been."""
        if free and not self.free_slots:
            self.free_since = monotonic()
        elif not free:
            self.free_since = None
        self.free_slots = free


@dataclass(slots=True, kw_only=True)
class Presence:
    """Written by the worker's loop, read by the heartbeat's thread; single values, atomic."""

    worker_id: WorkerId
    host: str
    pid: int
    code_version: str
    kinds: Mapping[str, int]
    queues: dict[str, QueuePresence] = field(default_factory=dict)
    state: str = "working"


# Ages, not instants: only the database's clock decides anything.
REPORT_PRESENCE = text("""
    WITH me AS (
        INSERT INTO chot.workers AS w (worker_id, host, pid, code_version, kinds, state, live_until)
        VALUES (:worker_id, :host, :pid, :code_version, CAST(:kinds AS jsonb), :state,
                clock_timestamp() + make_interval(secs => :lease))
        ON CONFLICT (worker_id) DO UPDATE
           SET seen_at = clock_timestamp(), live_until = excluded.live_until, state = excluded.state
        RETURNING worker_id),
    alone AS (
        UPDATE chot.queues SET alone_until = clock_timestamp() + make_interval(secs => :lease)
         WHERE alone_worker = :worker_id AND :state = 'alone')
    INSERT INTO chot.worker_queues AS q (worker_id, queue, slots, free_slots, free_since,
                                         empty_receive_at)
    SELECT me.worker_id, u.queue, u.slots, u.free,
           clock_timestamp() - make_interval(secs => u.free_for),
           clock_timestamp() - make_interval(secs => u.empty_for)
      FROM me, unnest(CAST(:queues AS text[]), CAST(:slots AS integer[]), CAST(:free AS integer[]),
                      CAST(:free_for AS double precision[]),
                      CAST(:empty_for AS double precision[])) AS u (queue, slots, free, free_for,
                                                                    empty_for)
    ON CONFLICT (worker_id, queue) DO UPDATE
       SET free_slots = excluded.free_slots, free_since = excluded.free_since,
           empty_receive_at = excluded.empty_receive_at""")


async def report_presence(conn: AsyncConnection, presence: Presence, lease_seconds: float) -> None:
    """Say that this worker lives, what it knows, and which of its slots are free."""
    queues = list(presence.queues.items())
    await conn.execute(
        REPORT_PRESENCE,
        {
            "worker_id": presence.worker_id,
            "host": presence.host,
            "pid": presence.pid,
            "code_version": presence.code_version,
            "kinds": json.dumps(dict(presence.kinds)),
            "state": presence.state,
            "lease": lease_seconds,
            "queues": [name for name, _ in queues],
            "slots": [each.slots for _, each in queues],
            "free": [each.free_slots for _, each in queues],
            "free_for": [_age(each.free_since) for _, each in queues],
            "empty_for": [_age(each.empty_receive_at) for _, each in queues],
        },
    )


def _age(since: float | None) -> float | None:
    return None if since is None else max(0.0, monotonic() - since)


LEAVE = text("DELETE FROM chot.workers WHERE worker_id = :worker_id")
PRUNE = text("DELETE FROM chot.workers WHERE live_until < clock_timestamp() - interval '1 day'")


async def leave(conn: AsyncConnection, worker_id: WorkerId) -> None:
    """Say that this worker has ended in order."""
    await conn.execute(LEAVE, {"worker_id": worker_id})

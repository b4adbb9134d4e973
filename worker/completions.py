"""Completions: jobs that have ended well are stored together, and each is judged by itself.

One statement stores all that ended while the one before was under way; whoever ends while none is
has nobody to wait for. What such a batch could hold up, or what could hold it up, takes the way of
its own: jobs with guards or a large result, a row that somebody holds, work that is to follow.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import is_unreachable
from worker.lease import SET_PROGRESS_OF_MANY, HeldLease, progress_binds
from worker.outcome import LEAVES

MOST = 100
LARGEST_RESULT = 16_384  # characters; a larger one costs more than the statement it would share
# A batch that takes longer keeps the next one no more: its connection may be half-open.
PATIENCE_SECONDS = 0.25
AT_ONCE = 3

# As exit_statement() does it for one job, without what these jobs do not have: guards, followers,
# errors. A row that somebody holds is passed over, so that one frozen COMMIT keeps no other job.
COMPLETE_MANY = text(f"""
    WITH mine AS (
        SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:fences AS bigint[]),
                             CAST(:tokens AS uuid[]), CAST(:checkpoint_nos AS integer[]),
                             CAST(:results AS text[]), CAST(:done AS bigint[]),
                             CAST(:total AS bigint[]), CAST(:unit AS text[]),
                             CAST(:message AS text[]), CAST(:reached AS bigint[]),
                             CAST(:rate AS double precision[]), CAST(:age AS double precision[]))
               AS m (id, fence, token, checkpoint_no, result, done, total, unit, message, reached,
                     rate, age)),
    locked AS MATERIALIZED (
        SELECT j.id FROM chot.jobs j JOIN mine m ON m.id = j.id
         WHERE j.id = ANY(CAST(:ids AS uuid[])) AND j.fence = m.fence
           AND j.lease_token = m.token AND j.state = 'running'
           AND j.followup_payload IS NULL AND j.group_id IS NULL AND j.lock_roots IS NULL
         ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED),
    gone AS (
        UPDATE chot.jobs j
           SET state = 'succeeded', finished_at = clock_timestamp(), {LEAVES},
               checkpoint_no = j.checkpoint_no + 1, {SET_PROGRESS_OF_MANY}
          FROM locked l JOIN mine m ON m.id = l.id
         WHERE j.id = l.id AND j.fence = m.fence AND j.lease_token = m.token
           AND j.state = 'running' AND j.checkpoint_no = m.checkpoint_no
           AND j.followup_payload IS NULL
        RETURNING j.id, j.fence, j.checkpoint_no, CAST(m.result AS jsonb) AS result),
    closed AS (
        UPDATE chot.attempts a
           SET outcome = 'succeeded', ended_at = clock_timestamp(), error = NULL,
               checkpoint_no = gone.checkpoint_no
          FROM gone
         WHERE a.job_id = gone.id AND a.fence = gone.fence AND a.outcome IS NULL),
    told AS (
        INSERT INTO chot.job_outputs AS o (job_id, result)
        SELECT id, result FROM gone WHERE result IS NOT NULL
        ON CONFLICT (job_id) DO UPDATE SET result = excluded.result, error = NULL),
    forgotten AS (
        UPDATE chot.job_outputs o SET error = NULL FROM gone
         WHERE o.job_id = gone.id AND o.error IS NOT NULL AND gone.result IS NULL)
    SELECT id FROM gone""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job whose handler has returned; `result` is JSON text."""

    held: HeldLease
    result: str | None
    stored: "asyncio.Future[bool]"


async def complete_many(conn: AsyncConnection, ended: Sequence[Ended]) -> set[UUID]:
    """Running → succeeded, each under its own fence, token and checkpoint; who was stored.

    Who is missing is not lost by that: its row may just be held, or its work may have to go on.
    `conn` is in autocommit. Of the model it is action complete, for each job.
    """
    leases = [each.held.lease for each in ended]
    reports = [progress_binds(each.held, each.held.progress) for each in ended]
    binds: dict[str, Any] = {
        "ids": [lease.job_id for lease in leases],
        "fences": [lease.fence for lease in leases],
        "tokens": [lease.token for lease in leases],
        "checkpoint_nos": [each.held.checkpoint_no for each in ended],
        "results": [each.result for each in ended],
    } | {name: [report[name] for report in reports] for name in reports[0]}
    return set((await conn.execute(COMPLETE_MANY, binds)).scalars())


class Completions:
    """Gathers what has ended, and stores it. `engine` must be in autocommit."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._waiting: list[Ended] = []
        self._storing: dict[asyncio.Task[None], float] = {}

    async def complete(self, held: HeldLease, result: str | None) -> bool:
        """Store it with others; False: it was not, and has to be stored or judged by itself.

        Raises DBAPIError when the answer was lost: it may be stored.
        """
        if held.guards or len(result or "") > LARGEST_RESULT:
            return False
        loop = asyncio.get_running_loop()
        ended = Ended(held=held, result=result, stored=loop.create_future())
        self._waiting.append(ended)
        self._begin()
        return await ended.stored

    def _begin(self) -> None:
        """Store what waits, unless a batch is under way that should be over in a moment."""
        loop = asyncio.get_running_loop()
        patient = loop.time() - PATIENCE_SECONDS
        if not self._waiting or len(self._storing) >= AT_ONCE:
            return
        if any(began > patient for began in self._storing.values()):
            return
        # A task begins in the loop's next turn: who ends in this one comes along.
        task = asyncio.create_task(self._store(), name="completions")
        self._storing[task] = loop.time()
        task.add_done_callback(self._done)
        loop.call_later(PATIENCE_SECONDS, self._begin)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._storing[task]
        self._begin()

    async def _store(self) -> None:
        batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        batch = [each for each in batch if not each.stored.done()]  # nobody waits for the others
        if not batch:
            return
        try:
            async with self._engine.connect() as conn:
                stored = await complete_many(conn, batch)
        except Exception as error:  # noqa: BLE001 - each hears of it, and judges for itself
            in_doubt = isinstance(error, DBAPIError) and is_unreachable(error)
            _answer(batch, error if in_doubt else set())  # else it was rolled back, by one of them
        except BaseException:
            for each in batch:
                each.stored.cancel()
            raise
        else:
            _answer(batch, stored)


def _answer(batch: Sequence[Ended], found: set[UUID] | Exception) -> None:
    for each in batch:
        if each.stored.done():
            continue
        if isinstance(found, Exception):
            each.stored.set_exception(found)
        else:
            each.stored.set_result(each.held.lease.job_id in found)

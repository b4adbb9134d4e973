"""Kinds that no live worker runs: those whose jobs wait, and those that are only registered."""

import shlex

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.doctor.finding import Finding
from shared.jobs.states import KNOWN_TO_A_LIVE_WORKER
from shared.jobs.troubles import UNSERVED

# The source of the alert no_worker_for_kind, without its five minutes.
READ_UNSERVED = text(f"""
    SELECT unserved.kind, unserved.jobs,
           coalesce(k.queue, (SELECT min(j.queue) FROM chot.jobs j
                               WHERE j.kind = unserved.kind AND j.state = 'pending')) AS queue
      FROM ({UNSERVED}) AS unserved LEFT JOIN chot.kinds k ON k.name = unserved.kind
     ORDER BY 1""")
READ_UNKNOWN = text(f"""
    SELECT j.kind FROM (SELECT name AS kind, queue, payload_version FROM chot.kinds) AS j
     WHERE NOT {KNOWN_TO_A_LIVE_WORKER} ORDER BY 1""")
WHO_LIVES = "chot workers --json   # the kinds of each that is live"


async def check_kinds(conn: AsyncConnection) -> list[Finding]:
    """A finding for each kind with due jobs that nobody would run, one note for all others."""
    waiting = (await conn.execute(READ_UNSERVED)).all()
    found = [
        Finding(
            code="kind-unserved",
            severity="critical",
            seen=f"no live worker runs kind {row.kind}: {row.jobs:,} of its jobs are due",
            why="they wait until a worker comes that has its handler and serves its queue",
            remedy=(WHO_LIVES, f"CHOT_QUEUES={shlex.quote(row.queue)}:1 chot worker"),
        )
        for row in waiting
    ]
    told = {row.kind for row in waiting}
    idle = [kind for kind in (await conn.execute(READ_UNKNOWN)).scalars() if kind not in told]
    if idle:
        found.append(
            Finding(
                code="kind-without-worker",
                severity="note",
                seen=f"no live worker runs {len(idle)} of the registered kinds: {', '.join(idle)}",
                why="none of their jobs is due; one that comes due will wait",
                remedy=(WHO_LIVES,),
            )
        )
    return found

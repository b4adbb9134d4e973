"""Half-open: a handler's transaction whose answer will never come, because its peer is gone.

A handler's statement may take as long as its lease is renewed, so no time-out of ours can tell a
long statement from a lost one. The server can: over the heartbeat's own connection it is asked
whether it still knows the transaction. It ends one that idles by itself (SET LOCAL), and the
process of one whose COMMIT it has answered stands idle.
"""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.logs import log
from worker.lease import HeldLease, Session

READ_LIVING = text("""
    SELECT pid FROM pg_stat_activity
     WHERE pid = ANY(CAST(:pids AS integer[]))
       AND (state IS DISTINCT FROM 'idle'
            OR state_change > clock_timestamp() - make_interval(secs => :seconds))""")


async def cut_half_open(
    conn: AsyncConnection,
    held: Sequence[HeldLease],
    on_jobs_loop: Callable[[Callable[[], None]], object],
    seconds: float,
) -> None:
    """Cut our end of each transaction older than `seconds` that the server has long ended.

    Its statement then fails as in any other outage. Where none is that old, nothing is asked.
    """
    until = monotonic() - seconds
    old = [(each, s) for each in held if (s := each.session) is not None and s.began < until]
    if not old:
        return
    binds = {"pids": [session.pid for _, session in old], "seconds": seconds}
    living = set((await conn.execute(READ_LIVING, binds)).scalars())
    for each, session in old:
        if session.pid not in living:
            on_jobs_loop(partial(_cut, each, session))


def _cut(held: HeldLease, session: Session) -> None:
    """On the jobs' loop: unless the transaction has ended meanwhile."""
    if held.session is session:
        log.warning("connection.half_open", job_id=str(held.lease.job_id))
        session.driver.terminate()

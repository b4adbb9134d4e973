"""Watch: what goes wrong slowly and in silence, told to a human while there is time.

Jobs that are due and that nobody takes; a transaction that stays open, so that no dead row can be
removed and every claim reads more; dead rows that pile up. One alert when it begins, one line
when it is over; each process that looks tells for itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.states import CLAIMABLE_PARTS
from shared.jobs.stops import books_frozen, kind_paused
from shared.limits import Limits
from shared.logs import alert, log

# What an operator has stopped starves by his will; what waits for its group waits for work, not in
# vain.
DUE = f"""
    SELECT q.name AS queue, oldest.seconds
      FROM chot.queues q, LATERAL (
           SELECT extract(epoch FROM clock_timestamp() - j.available_at)::double precision
                      AS seconds
             FROM chot.jobs j
            WHERE j.queue = q.name AND j.state = 'pending'
              AND NOT {kind_paused("j")} AND NOT {books_frozen("j")}
              AND {CLAIMABLE_PARTS["joined"]} AND {CLAIMABLE_PARTS["resumed"]}
            ORDER BY j.available_at LIMIT 1) AS oldest
     WHERE NOT q.paused AND oldest.seconds > :due_seconds ORDER BY q.name"""

# A snapshot without a write holds dead rows as well as one with. What a follower holds with
# hot_standby_feedback stands at its sender. Without pg_read_all_stats only our own are seen.
_OPEN = """
    SELECT a.pid, a.usename AS role, a.application_name AS application, a.state,
           extract(epoch FROM clock_timestamp() - o.since)::double precision AS seconds
      FROM pg_stat_activity a, LATERAL (
           SELECT CASE WHEN a.backend_type = 'client backend' THEN a.xact_start
                       WHEN age(a.backend_xmin) > 100000 THEN a.backend_start END AS since) AS o
     WHERE (a.datname = current_database() OR a.backend_type = 'walsender')
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
       AND o.since < clock_timestamp() - make_interval(secs => :transaction_seconds)
     ORDER BY seconds DESC LIMIT 1"""

_DEAD_ROWS = """
    SELECT relname AS name, n_dead_tup AS dead, n_live_tup AS live FROM pg_stat_user_tables
     WHERE schemaname = 'chot' AND n_dead_tup > greatest(:dead_rows, 0.2 * n_live_tup)
     ORDER BY relname"""
LOOK = text(f"""
    SELECT (SELECT coalesce(json_agg(f), '[]') FROM ({DUE}) AS f) AS due,
           (SELECT coalesce(json_agg(f), '[]') FROM ({_OPEN}) AS f) AS open,
           (SELECT coalesce(json_agg(f), '[]') FROM ({_DEAD_ROWS}) AS f) AS dead""")


@dataclass(slots=True)
class Watch:
    """Looks, and remembers what it has told."""

    limits: Limits
    _told: set[tuple[str, str]] = field(default_factory=set)

    async def look(self, conn: AsyncConnection) -> None:
        """Tell what has begun and what is over since the last look. `conn` is in autocommit."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        seen = (await conn.execute(LOOK, asdict(self.limits))).one()
        for rows, read in ((seen.due, _due), (seen.open, _open), (seen.dead, _dead_rows)):
            found |= dict(read(row) for row in rows)
        for (event, what), fields in found.items():
            if (event, what) not in self._told:
                alert(event, **fields)
        for event, what in sorted(self._told - found.keys()):
            log.info(f"{event}.over", what=what)
        self._told = set(found)


Found = tuple[tuple[str, str], dict[str, Any]]


def _due(row: Mapping[str, Any]) -> Found:
    told = {"queue": row["queue"], "oldest_due_seconds": round(float(row["seconds"]), 1)}
    return ("queue.starved", row["queue"]), told


def _open(row: Mapping[str, Any]) -> Found:
    told = {name: row[name] for name in ("pid", "role", "application", "state")}
    seconds = round(float(row["seconds"]), 1)
    return ("transaction.long", str(row["pid"])), told | {"seconds": seconds}


def _dead_rows(row: Mapping[str, Any]) -> Found:
    table = f"chot.{row['name']}"
    told = {"table": table, "dead_rows": row["dead"], "live_rows": row["live"]}
    return ("table.dead_rows", row["name"]), told

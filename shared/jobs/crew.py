"""Reads of the workers that stay small, however many there are: counted together, and by pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

# Workers that have gone without a word are told of for so long.
LOST_SHOWN_SECONDS = 3600
# Of each worker so many jobs are named; the others are counted.
MOST_JOBS = 3

# A worker that has said good-bye leaves no row: one that is not live has vanished.
_STATE = "CASE WHEN w.live_until > clock_timestamp() THEN w.state ELSE 'lost' END"
_TOLD_OF = f"""(w.live_until > clock_timestamp()
        OR w.seen_at > clock_timestamp() - make_interval(secs => {LOST_SHOWN_SECONDS}))"""
_OFFERS = """
    SELECT coalesce(sum(wq.slots), 0)::integer AS slots,
           coalesce(sum(wq.free_slots), 0)::integer AS free
      FROM chot.worker_queues wq WHERE wq.worker_id = w.worker_id"""

COUNT_CREW = text(f"""
    SELECT {_STATE} AS state, w.code_version, count(*) AS workers,
           sum(offers.slots)::bigint AS slots, sum(offers.free)::bigint AS free
      FROM chot.workers w CROSS JOIN LATERAL ({_OFFERS}) AS offers
     WHERE {_TOLD_OF}
     GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2""")


# What runs is looked up for the workers of the page alone, each by the index of those that run.
def _workers(chosen: str) -> str:
    return f"""
    SELECT w.worker_id, w.host, w.pid, w.shown AS state, w.code_version, w.started_at, w.seen_at,
           w.shown <> 'lost' AS live, w.slots, w.free,
           (SELECT count(*) FROM chot.jobs j
             WHERE j.state = 'running' AND j.worker_id = w.worker_id AND {IN_SCOPE}) AS runs,
           coalesce((SELECT json_agg(r ORDER BY r.job_id) FROM (
               SELECT j.id AS job_id, j.kind, j.attempt, j.started_at FROM chot.jobs j
                WHERE j.state = 'running' AND j.worker_id = w.worker_id AND {IN_SCOPE}
                ORDER BY j.id LIMIT {MOST_JOBS}) AS r), '[]') AS running
      FROM ({chosen}) AS w"""


_ALL = f"""
    SELECT w.*, {_STATE} AS shown, offers.slots, offers.free
      FROM chot.workers w CROSS JOIN LATERAL ({_OFFERS}) AS offers
     WHERE {_TOLD_OF}"""
_ODD = f"""
    SELECT o.* FROM ({_ALL}) AS o WHERE o.shown <> 'working'
     ORDER BY o.shown <> 'lost', o.worker_id LIMIT :most"""
_BUSY = f"""
    SELECT b.* FROM ({_ALL}) AS b WHERE b.shown = 'working'
     ORDER BY b.free >= b.slots, b.worker_id LIMIT :most"""
NOTABLE = text(_workers(f"({_ODD}) UNION ALL ({_BUSY})"))
PAGE = text(
    _workers(f"""
    SELECT p.* FROM ({_ALL}) AS p
     WHERE (CAST(:state AS text) IS NULL OR p.shown = :state)
     ORDER BY p.worker_id LIMIT :most OFFSET :skip""")
    + " ORDER BY w.worker_id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """All workers of the last hour, counted by state and version; those that matter, one by one.

    `groups`: state (working, alone, draining, lost), code_version, workers, slots, free.
    """

    groups: Sequence[Mapping[str, Any]]
    notable: Sequence[Mapping[str, Any]]

    @property
    def total(self) -> int:
        """How many there are, the lost ones included."""
        return sum(each["workers"] for each in self.groups)

    @property
    def live(self) -> int:
        """How many are alive."""
        return self.total - self.lost

    @property
    def lost(self) -> int:
        """How many have gone without a word in the last hour."""
        return sum(each["workers"] for each in self.groups if each["state"] == "lost")

    @property
    def slots(self) -> int:
        """How many jobs those alive may run at once."""
        return sum(each["slots"] for each in self.groups if each["state"] != "lost")


async def read_crew(conn: AsyncConnection, *, most: int, scope: Scope = EVERYTHING) -> Crew:
    """Count all workers, and name up to `most`: lost, stopping or alone ones first, then busy ones.

    A row's `running` are the first of its jobs in scope, `runs` counts them all.
    """
    groups = (await conn.execute(COUNT_CREW)).mappings().all()
    rows = (await conn.execute(NOTABLE, {"most": most, **scope.binds()})).mappings().all()
    odd = [row for row in rows if row["state"] != "working"]
    busy = [row for row in rows if row["state"] == "working"]
    # Those that died, however many, leave room for those that live.
    kept = odd[: max(most // 2, most - len(busy))]
    shown = [*kept, *busy[: most - len(kept)]]
    return Crew(
        groups=[dict(row) for row in groups],
        notable=[dict(row) for row in sorted(shown, key=lambda row: str(row["worker_id"]))],
    )


async def page_workers(
    conn: AsyncConnection,
    *,
    state: str | None,
    skip: int,
    most: int,
    scope: Scope = EVERYTHING,
) -> list[RowMapping]:
    """Workers of the last hour by id, from the `skip`th on; of one state, if it is named."""
    binds = {"state": state, "skip": skip, "most": most, **scope.binds()}
    return list((await conn.execute(PAGE, binds)).mappings().all())

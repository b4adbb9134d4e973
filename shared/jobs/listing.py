"""Lists of jobs, page by page: newest first, by what people look for; archived ones are not shown.

Ids are in the order of time and never change, so a page goes on where the last one ended, whatever
became of the jobs in between. A page looks at a bounded part: what few of millions match is found
in several short pages, none of which reads them all.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, Scope
from shared.jobs.read import MOMENT
from shared.types import JobState

# How many rows a list looks at: what few of them match does not read all there are.
LOOKED_AT = 20_000
# An id is made in the statement that inserts its job; no statement lives for so long.
ID_SPREAD = timedelta(minutes=10)
# By id, each of them: a partial index is found only by a state that is spelled out.
INDEXED_STATES = frozenset({JobState.RUNNING, JobState.DEAD, JobState.CANCELLED})
LOOKED = f"ORDER BY j.id DESC LIMIT {LOOKED_AT}"
CONDITIONS = {
    "states": "j.state = ANY(CAST(:states AS text[]))",
    "kind": "j.kind = :kind",
    "company": "j.company = :company",
    "brand": "j.brand = :brand",
    "group": "j.group_id = :group",
    "submitter": "j.principal = :submitter",
    "created_from": "j.created_at >= :created_from",
    "created_to": "j.created_at < :created_to",
    # Where to look, by id.
    "before": "j.id < :before",
    "since_id": "j.id >= :since_id",
    "until_id": "j.id < :until_id",
    # Spelled out, not IN_SCOPE: each set of filters is a statement with a plan of its own.
    "scope_company": "j.company = :scope_company",
    "scope_brands": "j.brand = ANY(CAST(:scope_brands AS text[]))",
    "scope_brand": "j.brand = :scope_brand",
}
RANGE = ("before", "since_id", "until_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: every part that is given narrows the list.

    `submitter` is the account. `created_from` is in the list, `created_to` is not; both need an
    offset.
    """

    states: frozenset[JobState] = frozenset()
    kind: str | None = None
    company: str | None = None
    brand: str | None = None
    group: UUID | None = None
    submitter: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None

    def binds(self) -> dict[str, Any]:
        """What is given, by the names of CONDITIONS; instants bound the ids to look at, too."""
        given = {
            "states": sorted(self.states) or None,
            "kind": self.kind,
            "company": self.company,
            "brand": self.brand,
            "group": self.group,
            "submitter": self.submitter,
            "created_from": self.created_from,
            "created_to": self.created_to,
            "since_id": self.created_from and first_id_of(self.created_from - ID_SPREAD),
            "until_id": self.created_to and first_id_of(self.created_to + ID_SPREAD),
        }
        return {name: value for name, value in given.items() if value is not None}


EVERY_JOB = JobFilter()


def first_id_of(moment: datetime) -> UUID:
    """The smallest id that chot.uuid7() could make in this millisecond."""
    return UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


@dataclass(frozen=True, slots=True)
class JobList:
    """One page; `next_before` is where to go on from, None at the end.

    A page may be short, even empty, and not be the last: the jobs that were looked at are bounded.
    """

    rows: list[RowMapping]
    next_before: UUID | None


# Planned for these very values: a plan for any company goes by all jobs for one that has few.
PLAN_EACH = text("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")


async def list_jobs(
    conn: AsyncConnection,
    wanted: JobFilter = EVERY_JOB,
    *,
    limit: int,
    before: UUID | None = None,
    scope: Scope = EVERYTHING,
) -> JobList:
    """Jobs newest first, without payload and result; `before` is the keyset cursor (a job id).

    The filter narrows the scope. Paging neither repeats nor skips a job that matches throughout,
    while rows change. Call it in a transaction.
    """
    binds = wanted.binds() | ({} if before is None else {"before": before}) | _scoped(scope)
    where = " AND ".join(CONDITIONS[name] for name in binds) or "true"
    source = _source(wanted, binds)
    looked = f"SELECT * FROM ({_source(wanted, binds, LOOKED)}) AS j {LOOKED}"
    most = {"most": limit + 1}
    await conn.execute(PLAN_EACH)
    rows = (await conn.execute(_page(looked, where), binds | most)).mappings().all()
    if len(rows) <= limit:
        # Where the look ends, then all that lies before it, as a new look: what leaves the table
        # between two looks must not make the second one reach further than the first.
        # uuid has no min() before PostgreSQL 18.
        edge = await conn.scalar(
            text(f"""
                SELECT min(j.id::text COLLATE "C")::uuid FROM ({looked}) AS j
                HAVING count(*) = {LOOKED_AT}"""),
            binds,
        )
        if edge is not None:
            where, binds = f"{where} AND j.id >= :edge", binds | {"edge": edge}
        rows = (await conn.execute(_page(source, where), binds | most)).mappings().all()
        if len(rows) <= limit:
            return JobList(list(rows), edge)
    return JobList(list(rows[:limit]), rows[limit - 1]["id"])


def _scoped(scope: Scope) -> dict[str, Any]:
    scoped = {name: value for name, value in scope.binds().items() if value is not None}
    if scope.brands is not None and len(scope.brands) == 1:
        # Of one brand an index has the ids in order; of a list of brands, whatever is in it, not.
        del scoped["scope_brands"]
        scoped["scope_brand"] = scope.brands[0]
    return scoped


def _page(source: str, where: str) -> TextClause:
    return text(f"""
        SELECT j.*, NULL AS payload, NULL AS result, o.error, {MOMENT}
          FROM (SELECT * FROM ({source}) AS j WHERE {where} ORDER BY j.id DESC LIMIT :most) AS j
          LEFT JOIN chot.job_outputs o ON o.job_id = j.id ORDER BY j.id DESC""")


def _source(wanted: JobFilter, binds: dict[str, Any], end: str = "ORDER BY j.id DESC") -> str:
    """The rows to look at: those that an index has in the order of ids, by one part of the filter.

    A scope comes first and whole: where a page ends must not tell of jobs that lie outside. Of
    several states with an index each the rows come merged, as far as a page needs them: each part
    is in order by itself (`end`), or all of them would be read and sorted first.
    """
    ranged = [CONDITIONS[name] for name in RANGE if name in binds]
    if wanted.group is not None:
        # Its members lie in one company, and in one brand if it has one: who may see the group
        # sees all of them.
        ways = [[CONDITIONS["group"]]]
    elif "scope_company" in binds:
        ways = [[CONDITIONS[name] for name in binds if name.startswith("scope_")]]
    elif wanted.states and wanted.states <= INDEXED_STATES:
        ways = [[f"j.state = '{state}'"] for state in sorted(wanted.states)]
    elif wanted.company is not None and wanted.brand is not None:
        ways = [[CONDITIONS["company"], CONDITIONS["brand"]]]
    else:
        name = next((name for name in ("submitter", "kind", "company") if name in binds), None)
        ways = [[] if name is None else [CONDITIONS[name]]]
    parts = [
        f"SELECT * FROM chot.jobs j WHERE {' AND '.join([*ranged, *way]) or 'true'}" for way in ways
    ]
    return parts[0] if len(parts) == 1 else " UNION ALL ".join(f"({each} {end})" for each in parts)

"""Plain reads of jobs for people and programs; nothing here decides anything.

A job in the archive answers by its id as it did before; lists show those that are not archived.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

# When it was looked at, and how long until it is due, by the database's clock.
MOMENT = """clock_timestamp() AS read_at,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in"""

READ_JOB = text(f"""
    SELECT j.*, p.payload, o.result, o.error,
           {MOMENT}
      FROM chot.jobs j
      LEFT JOIN chot.job_payloads p ON p.job_id = j.id
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


# A job moves to the archive in one commit, and never back: who did not find it here looks there.
READ_ARCHIVED = text(f"""
    SELECT j.*, a.payload, a.result, a.error, {MOMENT}, a.attempts
      FROM chot.archived_jobs a, jsonb_populate_record(NULL::chot.jobs, a.job) AS j
     WHERE a.id = :job_id AND {IN_SCOPE}""")


async def get_job(
    conn: AsyncConnection, job_id: UUID, *, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job with payload, result and error; None when there is no such job in this scope."""
    binds = {"job_id": job_id, **scope.binds()}
    found = (await conn.execute(READ_JOB, binds)).mappings().one_or_none()
    return found or (await conn.execute(READ_ARCHIVED, binds)).mappings().one_or_none()


READ_ATTEMPTS = text("""
    SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error,
           claimed_checkpoint_no, checkpoint_no
      FROM chot.attempts WHERE job_id = :job_id ORDER BY fence LIMIT :most""")


async def list_attempts(
    conn: AsyncConnection, job_id: UUID, *, most: int = 200
) -> list[RowMapping]:
    """The job's first `most` attempts, oldest first."""
    binds = {"job_id": job_id, "most": most}
    return list((await conn.execute(READ_ATTEMPTS, binds)).mappings().all())


# One statement, so that the state and its attempts are of one moment.
SHOW_JOB = text(f"""
    SELECT j.*, o.result, o.error, {MOMENT},
           coalesce((SELECT json_agg(a ORDER BY a.fence) FROM (
               SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error
                 FROM chot.attempts WHERE job_id = j.id ORDER BY fence DESC LIMIT :most) AS a
           ), '[]') AS attempts
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


async def show_job(
    conn: AsyncConnection, job_id: UUID, *, most: int = 200, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job as people see it, without its payload; None when there is no such job in this scope.

    `attempts` are the newest `most`, oldest first, their times as ISO text.
    """
    binds = {"job_id": job_id, "most": most, **scope.binds()}
    found = (await conn.execute(SHOW_JOB, binds)).mappings().one_or_none()
    if found is not None:
        return found
    del binds["most"]
    return (await conn.execute(READ_ARCHIVED, binds)).mappings().one_or_none()


# How many rows a list looks at: what few of them match does not read all there are.
LOOKED_AT = 20_000
FILTERS = {
    "state": "j.state = :state",
    "kind": "j.kind = :kind",
    "company": "j.company = :company",
    "brand": "j.brand = :brand",
    "before": "j.id < :before",
    # Spelled out, not IN_SCOPE: each set of filters is a statement with a plan of its own.
    "scope_company": "j.company = :scope_company",
    "scope_brands": "j.brand = ANY(CAST(:scope_brands AS text[]))",
    "scope_brand": "j.brand = :scope_brand",
}
# By id, each of them: a partial index is found only by a state that is spelled out.
INDEXED_STATES = {"running", "dead", "cancelled"}


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
    conn: AsyncConnection, filters: dict[str, Any], *, limit: int, scope: Scope = EVERYTHING
) -> JobList:
    """Jobs newest first, without payload and result; `before` is the keyset cursor (a job id).

    `filters` may hold state, kind, company, brand and before; they narrow the scope. An id never
    changes its place, so paging neither repeats nor skips a job while rows change. Call it in a
    transaction.
    """
    scoped = {name: value for name, value in scope.binds().items() if value is not None}
    if scope.brands is not None and len(scope.brands) == 1:
        # Of one brand an index has the ids in order; of a list of brands, whatever is in it, not.
        del scoped["scope_brands"]
        scoped["scope_brand"] = scope.brands[0]
    names = (*filters, *scoped)
    binds = filters | scoped | {"most": limit + 1}
    where = " AND ".join(FILTERS[name] for name in names) or "true"
    indexed = _indexed(filters, names)
    looked = f"SELECT * FROM chot.jobs j WHERE {indexed} ORDER BY j.id DESC LIMIT {LOOKED_AT}"
    await conn.execute(PLAN_EACH)
    rows = (await conn.execute(_page(looked, where), binds)).mappings().all()
    if len(rows) <= limit:
        # Where the look ends, then all that lies before it, as a new look: what leaves the table
        # between two looks must not make the second one reach further than the first.
        # uuid has no min() before PostgreSQL 18.
        edge = await conn.scalar(
            text(f"""
                SELECT min(j.id::text COLLATE "C")::uuid FROM ({looked}) AS j
                HAVING count(*) = {LOOKED_AT}"""),
            filters | scoped,
        )
        within = f"SELECT * FROM chot.jobs j WHERE {indexed}"
        if edge is not None:
            within, binds = f"{within} AND j.id >= :edge", binds | {"edge": edge}
        rows = (await conn.execute(_page(within, where), binds)).mappings().all()
        if len(rows) <= limit:
            return JobList(list(rows), edge)
    return JobList(list(rows[:limit]), rows[limit - 1]["id"])


def _page(looked: str, where: str) -> TextClause:
    return text(f"""
        SELECT j.*, NULL AS payload, NULL AS result, o.error, {MOMENT}
          FROM (SELECT * FROM ({looked}) AS j WHERE {where} ORDER BY j.id DESC LIMIT :most) AS j
          LEFT JOIN chot.job_outputs o ON o.job_id = j.id ORDER BY j.id DESC""")


def _indexed(filters: dict[str, Any], names: Sequence[str]) -> str:
    """The part of the filter that an index answers in the order of ids: exactly one of them.

    A scope comes first and whole: where a page ends must not tell of jobs that lie outside.
    """
    parts = [FILTERS["before"]] if "before" in filters else []
    if "scope_company" in names:
        return " AND ".join(
            [*parts, *(FILTERS[name] for name in names if name.startswith("scope_"))]
        )
    company = next((name for name in ("company", "scope_company") if name in names), None)
    if filters.get("state") in INDEXED_STATES:
        parts.append(f"j.state = '{filters['state']}'")
    elif company is not None:
        parts.append(FILTERS[company])
    return " AND ".join(parts) or "true"

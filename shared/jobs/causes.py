"""Causes: dead jobs that died of the same thing, counted together by one statement.

A cause is a kind, an error's code and type, and its message without what differs from job to job:
each word that holds a digit. Messages that are the same to the letter are put together first, so
that a hundred thousand deaths of one cause cost one look at its words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

# Characters of a message that are looked at: what tells causes apart stands at its beginning.
HEAD = 300
MOST_CAUSES = 200
_CODE = "coalesce(o.error ->> 'code', o.error ->> 'type', '')"
_TYPE = "coalesce(o.error ->> 'type', '')"
_HEAD = f"left(coalesce(o.error ->> 'message', ''), {HEAD})"
# What differs from job to job: a word with a digit in it, be it a number, an id or an instant.
# Plain on purpose: of a pattern that looks around itself a message costs six times as much.
_VARIES = r"\S*[0-9]\S*"


def _pattern(head: str) -> str:
    """The message with `#` in the place of what differs."""
    return f"regexp_replace({head}, '{_VARIES}', '#', 'g')"


def _cause(kind: str, code: str, type_: str, pattern: str) -> str:
    """What a cause is called, on every server alike."""
    apart = " || E'\\x1f' || "
    named = f"{kind}{apart}{code}{apart}{type_}{apart}{pattern}"
    return f"left(encode(sha256(convert_to({named}, 'UTF8')), 'hex'), 16)"


# Over `j` and `o`: the cause of one dead job.
CAUSE_OF_JOB = _cause("j.kind", _CODE, _TYPE, _pattern(_HEAD))

# Over `j`, which is dead: as many leases ran out as may. It took its workers with it, or seems to.
LOST_ALL_LEASES = "j.lost_leases >= 2 * j.max_attempts"

# The newest job by id is the example: ids are in the order of time. uuid has no max() before
# PostgreSQL 18.
LIST_CAUSES = text(f"""
    WITH heads AS MATERIALIZED (
        SELECT j.kind, {_CODE} AS code, {_TYPE} AS type, {_HEAD} AS head,
               count(*) AS jobs, count(*) FILTER (WHERE {LOST_ALL_LEASES}) AS killers,
               min(j.finished_at) AS first_at, max(j.finished_at) AS last_at,
               max(j.id::text COLLATE "C") AS example
          FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
         WHERE j.state = 'dead' AND {IN_SCOPE}
           AND (CAST(:kind AS text) IS NULL OR j.kind = :kind)
         GROUP BY 1, 2, 3, 4),
    causes AS (
        SELECT h.kind, h.code, h.type, {_pattern("h.head")} AS message,
               sum(h.jobs)::bigint AS jobs, sum(h.killers)::bigint AS killers,
               min(h.first_at) AS first_at, max(h.last_at) AS last_at,
               max(h.example)::uuid AS example
          FROM heads h GROUP BY 1, 2, 3, 4),
    told AS (
        SELECT c.*, {_cause("c.kind", "c.code", "c.type", "c.message")} AS cause,
               (sum(c.jobs) OVER ())::bigint AS all_jobs, count(*) OVER () AS all_causes,
               (sum(c.killers) OVER ())::bigint AS all_killers
          FROM causes c ORDER BY c.jobs DESC, c.last_at DESC, c.kind, c.code, c.type, c.message
         LIMIT :limit)
    SELECT t.*, j.company AS example_company, j.brand AS example_brand, o.error AS example_error
      FROM told t JOIN chot.jobs j ON j.id = t.example
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     ORDER BY t.jobs DESC, t.last_at DESC, t.kind, t.code, t.type, t.message""")


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes that bury most, largest first; the sums count those left out, too.

    `killers` are the jobs whose leases ran out as often as may be.
    """

    rows: Sequence[RowMapping]
    jobs: int
    causes: int
    killers: int


async def list_causes(
    conn: AsyncConnection,
    *,
    kind: str | None = None,
    limit: int = MOST_CAUSES,
    scope: Scope = EVERYTHING,
) -> Causes:
    """What dead jobs of this scope died of: one row a cause, with an example."""
    binds = {"kind": kind, "limit": limit, **scope.binds()}
    rows = (await conn.execute(LIST_CAUSES, binds)).mappings().all()
    if not rows:
        return Causes((), 0, 0, 0)
    first = rows[0]
    return Causes(rows, first["all_jobs"], first["all_causes"], first["all_killers"])

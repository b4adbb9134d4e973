"""The work list of a posting: each document of its selection once, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.outcomes import SUCCESSES
from shared.kinds.posting import Selection
from shared.types import ClaimedJob

# So many failures stand in a job's result; all of them in its outcomes.
MOST_FAILURES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A document that is to be posted, at the version that was selected; None: there was none."""

    seq: int
    document_id: int
    version: int | None


# What a job that is run again from nothing had done itself stays said of it. What others had done
# (ALREADY_…) may have been undone since.
FORGET = text("""
    DELETE FROM books.posting_items
     WHERE job_id = CAST(:job_id AS uuid)
       AND NOT (done AND outcome = ANY ('{POSTED,REVERSED}'))""")
FORGET_STAGED = text("DELETE FROM books.posting_lines WHERE job_id = CAST(:job_id AS uuid)")
LIST_NAMED = text("""
    INSERT INTO books.posting_items (job_id, document_id, seq, version)
    SELECT CAST(:job_id AS uuid), u.id, k.seq + row_number() OVER (
               ORDER BY CAST(:way AS integer) * (d.posting_date - DATE '2000-01-01'),
                        CAST(:way AS integer) * u.id),
           d.version
      FROM (SELECT DISTINCT id FROM unnest(CAST(:documents AS bigint[])) AS id) u
     CROSS JOIN (SELECT coalesce(max(i.seq), 0) AS seq FROM books.posting_items i
                  WHERE i.job_id = CAST(:job_id AS uuid)) k
      LEFT JOIN LATERAL (SELECT d.version, d.posting_date FROM books.documents d
                          WHERE d.id = u.id OFFSET 0) d ON true
    ON CONFLICT (job_id, document_id) DO NOTHING""")
# By day, as the ledger numbers them (`way` 1), or the latest first (-1). Of another brand nothing
# is selected; named by its id it is told what it is.
LIST_SELECTED = text("""
    INSERT INTO books.posting_items (job_id, document_id, seq, version)
    SELECT CAST(:job_id AS uuid), d.id, k.seq + row_number() OVER (
               ORDER BY CAST(:way AS integer) * (d.posting_date - DATE '2000-01-01'),
                        CAST(:way AS integer) * d.id),
           d.version
      FROM books.documents d
     CROSS JOIN (SELECT coalesce(max(i.seq), 0) AS seq FROM books.posting_items i
                  WHERE i.job_id = CAST(:job_id AS uuid)) k
     WHERE d.company = :company AND d.status = CAST(:status AS text) AND d.type <> 'cost'
       AND (CAST(:brand AS text) IS NULL OR d.brand = CAST(:brand AS text))
       AND (CAST(:types AS text[]) IS NULL OR d.type = ANY (CAST(:types AS text[])))
       AND (CAST(:stores AS text[]) IS NULL OR d.store = ANY (CAST(:stores AS text[])))
       AND d.posting_date >= coalesce(CAST(CAST(:date_from AS text) AS date), '-infinity')
       AND d.posting_date <= coalesce(CAST(CAST(:date_to AS text) AS date), 'infinity')
    ON CONFLICT (job_id, document_id) DO NOTHING""")
COUNT = text("""
    SELECT count(*) AS total, count(*) FILTER (WHERE done) AS done FROM books.posting_items
     WHERE job_id = CAST(:job_id AS uuid)""")


async def list_documents(
    conn: AsyncConnection,
    job: ClaimedJob,
    selection: Selection,
    *,
    status: str,
    newest_first: bool = False,
) -> tuple[int, int]:
    """Write the job's list once: its documents that are `status` now; how many, and how many done.

    A list of the job that is there already is forgotten but for what it has done.
    """
    for statement in (FORGET, FORGET_STAGED):
        await conn.execute(statement, {"job_id": job.id})
    way = -1 if newest_first else 1
    if selection.documents is not None:
        named = {"job_id": job.id, "documents": selection.documents, "way": way}
        await conn.execute(LIST_NAMED, named)
    else:
        binds: dict[str, Any] = {"job_id": job.id, "company": job.company, "brand": job.brand}
        binds |= {"status": status, "way": way}
        names = ("types", "stores", "date_from", "date_to")
        await conn.execute(
            LIST_SELECTED, binds | {name: getattr(selection, name) for name in names}
        )
    row = (await conn.execute(COUNT, {"job_id": job.id})).one()
    return row.total, row.done


NEXT = text("""
    SELECT seq, document_id, version FROM books.posting_items
     WHERE job_id = CAST(:job_id AS uuid) AND NOT done AND seq > :after
     ORDER BY seq LIMIT :most""")


async def next_documents(
    conn: AsyncConnection, job_id: UUID, *, after: int, most: int
) -> list[Listed]:
    """The next documents of the list that are not done, in its order; [] at its end."""
    binds = {"job_id": job_id, "after": after, "most": most}
    return [Listed(**row) for row in (await conn.execute(NEXT, binds)).mappings()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one document of the list: the first of `codes`, or `success`."""

    seq: int
    success: str
    codes: Sequence[str] = ()
    detail: str = ""
    entry_id: int | None = None

    @property
    def name(self) -> str:
        """The outcome in one word."""
        return self.codes[0] if self.codes else self.success


# Each row by its key, and then by its place: joined by the number a chunk could read the whole
# list. The order is that of the key alone: by statistics in which a job has one row, any index that
# begins with the job would do, and read the whole list for each row. `codes` would be an array of
# arrays of different lengths, which PostgreSQL has not: JSON.
NOTE = text("""
    UPDATE books.posting_items i
       SET done = true, outcome = o.outcome, detail = nullif(o.detail, ''), entry_id = o.entry_id,
           codes = ARRAY(SELECT jsonb_array_elements_text(CAST(o.codes AS jsonb)))
      FROM unnest(CAST(:seqs AS integer[]), CAST(:outcomes AS text[]), CAST(:codes AS text[]),
                  CAST(:details AS text[]), CAST(:entries AS bigint[]))
           AS o (seq, outcome, codes, detail, entry_id)
     CROSS JOIN LATERAL (SELECT p.ctid FROM books.posting_items p
                          WHERE p.job_id = CAST(:job_id AS uuid)
                            AND p.seq >= o.seq AND p.seq <= o.seq
                          ORDER BY p.job_id, p.seq LIMIT 1) k
     WHERE i.ctid = k.ctid""")


async def note_outcomes(conn: AsyncConnection, job_id: UUID, outcomes: Sequence[Outcome]) -> None:
    """What became of these documents; they are done."""
    if not outcomes:
        return
    binds = {
        "job_id": job_id,
        "seqs": [each.seq for each in outcomes],
        "outcomes": [each.name for each in outcomes],
        "codes": [_json(each.codes) for each in outcomes],
        "details": [each.detail for each in outcomes],
        "entries": [each.entry_id for each in outcomes],
    }
    noted = await conn.execute(NOTE, binds)
    assert noted.rowcount == len(outcomes), "each is of the job's list"


def _json(codes: Sequence[str]) -> str:
    return "[" + ",".join(f'"{code}"' for code in codes) + "]"


GIVE_UP = text("""
    UPDATE books.posting_items SET done = true, outcome = coalesce(outcome, CAST(:outcome AS text)),
           codes = CASE WHEN codes = '{}' THEN ARRAY[CAST(:outcome AS text)] ELSE codes END,
           detail = coalesce(detail, CAST(:detail AS text))
     WHERE job_id = CAST(:job_id AS uuid) AND NOT done""")


async def give_up(conn: AsyncConnection, job_id: UUID, outcome: str, detail: str) -> int:
    """Whatever of the list is not done ends so; how many that were. Idempotent."""
    binds = {"job_id": job_id, "outcome": outcome, "detail": detail}
    return (await conn.execute(GIVE_UP, binds)).rowcount


TALLY = text("""
    SELECT i.outcome, count(*) AS documents FROM books.posting_items i
     WHERE i.job_id = CAST(:job_id AS uuid) GROUP BY i.outcome ORDER BY i.outcome""")
FAILURES = text("""
    SELECT i.document_id, d.doc_no, i.outcome, i.codes, i.detail FROM books.posting_items i
      LEFT JOIN LATERAL (SELECT d.doc_no FROM books.documents d
                          WHERE d.id = i.document_id AND d.company || '' = :company
                            AND (CAST(:brand AS text) IS NULL OR d.brand = CAST(:brand AS text))
                         OFFSET 0) d ON true
     WHERE i.job_id = CAST(:job_id AS uuid) AND i.outcome <> ALL (CAST(:successes AS text[]))
     ORDER BY i.seq LIMIT :most""")


async def summarize(conn: AsyncConnection, job: ClaimedJob) -> dict[str, Any]:
    """The list in totals, and its first failures; what the job's result says."""
    rows = (await conn.execute(TALLY, {"job_id": job.id})).all()
    outcomes = {row.outcome: row.documents for row in rows}
    failed = sum(n for outcome, n in outcomes.items() if outcome not in SUCCESSES)
    return {
        "outcome": "completed_with_errors" if failed else "succeeded",
        "documents": sum(outcomes.values()),
        "outcomes": outcomes,
        "failures_total": failed,
        "failures": await read_failures(conn, job, most=MOST_FAILURES) if failed else [],
    }


async def read_failures(
    conn: AsyncConnection, job: ClaimedJob, *, most: int, passing_over: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The first documents of the list that ended otherwise than well, in its order."""
    binds = {
        "job_id": job.id,
        "company": job.company,
        "brand": job.brand,
        "successes": [*SUCCESSES, *passing_over],
        "most": most,
    }
    return [dict(row) for row in (await conn.execute(FAILURES, binds)).mappings()]

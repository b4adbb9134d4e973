"""What became of each document of a job's work list, page by page."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

# What a document ends with that is as it was wanted; everything else is a failure.
SUCCESSES = ("POSTED", "ALREADY_POSTED", "REVERSED", "ALREADY_REVERSED")

# A document is named only where it is one of the job's own books: an id of another's, which a
# caller may well ask for, tells nothing. What is not done yet has no outcome.
LIST_OUTCOMES = text("""
    SELECT i.seq, i.document_id, d.type, d.doc_no, i.version, i.outcome, i.codes, i.detail,
           i.entry_id
      FROM books.posting_items i
      LEFT JOIN LATERAL (SELECT d.type, d.doc_no FROM books.documents d
                          WHERE d.id = i.document_id AND d.company || '' = CAST(:company AS text)
                            AND (CAST(:brand AS text) IS NULL
                                 OR d.brand = CAST(:brand AS text))
                         OFFSET 0) d ON true
     WHERE i.job_id = CAST(:job_id AS uuid) AND i.seq > CAST(:after AS integer)
       AND (CAST(:outcomes AS text[]) IS NULL OR i.outcome = ANY (CAST(:outcomes AS text[])))
       AND (NOT CAST(:failed AS boolean) OR i.outcome <> ALL (CAST(:successes AS text[])))
     ORDER BY i.seq LIMIT CAST(:limit AS integer)""")


async def list_outcomes(
    conn: AsyncConnection,
    job: RowMapping,
    *,
    outcomes: Sequence[str] | None = None,
    failed: bool = False,
    after: int = 0,
    limit: int,
) -> Sequence[RowMapping]:
    """The job's documents in the order of its list, from behind `after` on.

    `outcomes`: those that ended so. `failed`: those that did not end well. `job` is a row of
    shared.jobs.read that the caller may see; a job without a list has none.
    """
    job_id: UUID = job["id"]
    binds = {
        "job_id": job_id,
        "company": job["company"],
        "brand": job["brand"],
        "outcomes": None if outcomes is None else list(outcomes),
        "failed": failed,
        "successes": list(SUCCESSES),
        "after": after,
        "limit": limit,
    }
    return (await conn.execute(LIST_OUTCOMES, binds)).mappings().all()

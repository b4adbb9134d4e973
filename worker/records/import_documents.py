"""Merge staged documents into the books, as those sent by POST /v1/documents:batch are merged."""

import json
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.migrations.task import Applied, Batch, Reject
from worker.records.staged_words import said_in_file

SOURCE = "import"
OF_LINE = re.compile(r"lines\[([0-9]+)\]\.(.+)")
OF_BOTH = frozenset({"account", "store", "party", "memo"})
TOLD_FAULTS = 3
MERGE = """
    WITH staged AS MATERIALIZED (
        SELECT r.line, r.type, r.doc_no, r.lines, r.body, r.said,
               -- The same again behind it is one too many; anything else there is a part of it.
               (SELECT f.line FROM books.import_documents f
                 WHERE f.job_id = r.job_id AND f.type = r.type AND f.doc_no = r.doc_no
                   AND (f.line < r.line OR f.line > r.line AND f.body <> r.body)
                 ORDER BY f.line LIMIT 1) AS first_line
          FROM {source} WHERE {where}),
    numbered AS MATERIALIZED (
        SELECT s.line, row_number() OVER (ORDER BY s.line) AS n
          FROM staged s WHERE s.first_line IS NULL),
    put AS MATERIALIZED (
        SELECT p.n, p.outcome, p.code, p.detail, p.faults
          FROM books.put_documents(:company,
                   coalesce((SELECT jsonb_agg(s.body ORDER BY s.line)
                               FROM staged s WHERE s.first_line IS NULL), '[]'),
                   :principal, :origin, CAST(:brands AS text[])) p)
    SELECT s.line, s.type, s.doc_no, s.lines, s.said, s.first_line, p.outcome, p.code, p.detail,
           p.faults
      FROM staged s
      LEFT JOIN numbered n ON n.line = s.line
      LEFT JOIN put p ON p.n = n.n
     ORDER BY s.line"""


async def merge_documents(conn: AsyncConnection, batch: Batch) -> Applied:
    """Write the batch's documents that are right; they are counted by what became of each."""
    run = batch.run
    binds = {
        "company": run.company,
        "principal": run.principal,
        "origin": SOURCE,
        "brands": None if run.brand is None else [run.brand],
    }
    rows = (await batch.execute(conn, MERGE, **binds)).mappings().all()
    counts: dict[str, int] = {}
    rejects = []
    for row in rows:
        if row["first_line"] is not None:
            rejects.append(_twice(row))
        elif row["outcome"] == "error":
            rejects.append(_faulty(row))
        else:
            counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    return Applied(counts=counts, rejects=rejects)


def _twice(row: RowMapping) -> Reject:
    is_first = row["first_line"] > row["line"]
    where = "goes on" if is_first else "begins"
    already = "" if is_first else " already"
    rule = (
        f"{row['type']} {row['doc_no']} {where} in line {row['first_line']} of the file{already}: "
        "the lines of a document stand together, sort the file by them"
    )
    return Reject(code="DUPLICATE_IN_FILE", rule=rule, line=row["line"], field="doc_no")


def _faulty(row: RowMapping) -> Reject:
    """The document's first fault, at the line of the file that has it, and the next ones in words.

    A fault is told by its path in the document, say lines[3].net.
    """
    faults = _list_of(row["faults"])
    named = f"{row['type']} {row['doc_no']}"
    if not faults:
        rule = f"{named}: {row['detail']}"
        return Reject(code=row["code"], rule=rule, line=row["line"], field="doc_no")
    first, *others = faults
    line, field = _place(first.get("field"), row)
    said = [f"{named}: {first['rule']}"]
    for other in others[: TOLD_FAULTS - 1]:
        at, name = _place(other.get("field"), row)
        said.append(f"line {at}, {name or 'document'}: {other['rule']}")
    if len(faults) > TOLD_FAULTS:
        said.append(f"{len(faults) - TOLD_FAULTS} more")
    value = _said(first.get("field"), row) or first.get("value")
    return Reject(
        code=str(first.get("code") or row["code"]),
        rule="; ".join(said),
        line=line,
        field=field,
        value=None if value is None else str(value),
    )


def _place(path: object, row: RowMapping) -> tuple[int, str | None]:
    lines: Sequence[int] = row["lines"]
    found = OF_LINE.fullmatch(str(path or ""))
    if found is None or int(found[1]) >= len(lines):
        return row["line"], None if path is None else str(path)
    return lines[int(found[1])], found[2]


def _said(path: object, row: RowMapping) -> str | None:
    """Columns of a line that its document has too are called otherwise: line_store, line_memo."""
    line, field = _place(path, row)
    of_line = OF_LINE.fullmatch(str(path or "")) is not None
    column = f"line_{field}" if of_line and field in OF_BOTH else str(field)
    return said_in_file(row["said"], column, line=line)


def _list_of(faults: Any) -> list[dict[str, Any]]:
    found = json.loads(faults) if isinstance(faults, str) else faults
    return list(found or [])

"""Put documents: books.put_documents() judges, makes and replaces many by one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.exact_json import load_exact

Outcome = Literal["created", "updated", "unchanged", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule that a document breaks; `field` is its path in the document ("lines[0].net")."""

    field: str
    code: str
    rule: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """What became of one document; of an error there is no id, and every fault is told."""

    outcome: Outcome
    document_id: int | None
    version: int | None
    status: str | None
    faults: Sequence[Fault] = ()


PUT_DOCUMENTS = text("""
    SELECT p.document_id, p.version, p.status, p.outcome, CAST(p.faults AS text) AS faults
      FROM books.put_documents(:company, CAST(:documents AS jsonb), :principal, :source,
                               CAST(:brands AS text[])) AS p
     ORDER BY p.n""")


async def put_documents(
    conn: AsyncConnection,
    company: str,
    documents: str,
    *,
    principal: str,
    source: str,
    brands: Sequence[str] | None = None,
) -> list[Put]:
    """Make or replace drafts; the outcomes are in the order of the documents (a JSON list).

    A draft is replaced as a whole, which makes it the next version; what is posted is left as it
    is. `brands` are those that may be named, None: all of the company. Rows stay locked until the
    transaction ends; it must be READ COMMITTED. Raises a driver's error CH103 for a company that
    is none.
    """
    binds = {
        "company": company,
        "documents": documents,
        "principal": principal,
        "source": source,
        "brands": None if brands is None else [*brands],
    }
    rows = (await conn.execute(PUT_DOCUMENTS, binds)).all()
    return [
        Put(
            outcome=row.outcome,
            document_id=row.document_id,
            version=row.version,
            status=row.status,
            faults=[_fault(each) for each in load_exact(row.faults)],
        )
        for row in rows
    ]


def _fault(said: dict[str, Any]) -> Fault:
    return Fault(field=said["field"], code=said["code"], rule=said["rule"], value=said.get("value"))

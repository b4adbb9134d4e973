"""Void a draft: it stays, its number is never given again, and nothing will post it."""

from typing import Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope
from shared.audit import Action, noted
from shared.documents.read import IN_SCOPE

# FOR NO KEY UPDATE: what refers to the document is no reason to wait.
LOCK_DOCUMENT = text(f"""
    SELECT d.status FROM books.documents d
     WHERE d.id = CAST(:document_id AS bigint) AND {IN_SCOPE} FOR NO KEY UPDATE""")
VOID_DOCUMENT = text(f"""
    WITH voided AS (
        UPDATE books.documents AS d
           SET status = 'void', version = d.version + 1, updated_at = clock_timestamp()
         WHERE d.id = CAST(:document_id AS bigint) AND d.status = 'draft'
        RETURNING d.id, d.company, d.brand, d.type, d.doc_no, d.version),
    {
    noted(
        Action.DOCUMENT_VOID,
        "voided",
        target="voided.company || '/' || voided.type || '/' || voided.doc_no",
        company="voided.company",
        brand="voided.brand",
        facts="jsonb_build_object('document_id', voided.id, 'version', voided.version,"
        " 'reason', CAST(:reason AS text))",
    )
}
    SELECT count(*) FROM voided""")


async def void_document(
    conn: AsyncConnection, document_id: int, scope: Scope, *, reason: str | None
) -> Literal["voided", "void", "posted"] | None:
    """Void a draft; `void` and `posted` say what it was, and nothing is changed.

    None where the scope does not see the document. The act is in the audit.
    """
    binds = {"document_id": document_id, **scope.binds()}
    status = await conn.scalar(LOCK_DOCUMENT, binds)
    if status is None or status == "posted":
        return None if status is None else "posted"
    if status == "void":
        return "void"
    binds = {"document_id": document_id, "reason": reason}
    assert await conn.scalar(VOID_DOCUMENT, binds) == 1, "its row is locked, and was a draft"
    return "voided"

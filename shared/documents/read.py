"""Documents as they stand: lists of them, one with its lines."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope

TYPES = (
    "sale",
    "sale_return",
    "purchase",
    "purchase_return",
    "transfer",
    "cash_in",
    "cash_out",
    "manual",
    "opening",
    "cost",
)
STATUSES = ("draft", "posted", "void")
# A document is of the brand of its store; one of the whole company is of no brand.
IN_SCOPE = """(CAST(:scope_company AS text) IS NULL OR d.company = CAST(:scope_company AS text))
       AND (CAST(:scope_brands AS text[]) IS NULL
            OR d.brand = ANY (CAST(:scope_brands AS text[])))"""
_DOCUMENT = """
    SELECT d.id, d.company, d.brand, d.type, d.doc_no, d.doc_date, d.posting_date, d.store,
           d.to_store, d.party, d.account, d.status, d.version, d.total, d.vat_total, d.currency,
           d.fc_rate, d.fc_total, d.fc_vat_total, d.memo, d.source, d.principal, d.created_at,
           d.updated_at, d.ref_document_id, d.cost_run_id, r.type AS ref_type,
           r.doc_no AS ref_doc_no, c.minor_digits
      FROM {source} d
      JOIN books.companies c ON c.code = d.company
      LEFT JOIN books.documents r ON r.id = d.ref_document_id"""
_ANY = _DOCUMENT.format(source="books.documents")
# A number is looked up by its key, type by type: no statistics can make another index look better.
_NUMBERED = _DOCUMENT.format(
    source="""(
           SELECT x.* FROM unnest(CAST(:types AS text[])) AS t (type)
            CROSS JOIN LATERAL (
                  SELECT y.* FROM books.documents y
                   WHERE y.company = :company AND y.type = t.type
                     AND y.doc_no = normalize(CAST(:doc_no AS text), NFC) OFFSET 0) x)"""
)
# Planned for these very values: a filter that is not there costs nothing, one that is there picks
# its index.
# And a page is read in the order of its index: without statistics PostgreSQL 15 would sort all.
PLAN_EACH = text("""
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
           set_config('enable_sort', 'off', true)""")
_FILTERED = f"""
     WHERE d.company = :company AND {IN_SCOPE}
       AND d.type = ANY (CAST(:types AS text[]))
       AND (CAST(:status AS text) IS NULL OR d.status = CAST(:status AS text))
       AND (CAST(:store AS text) IS NULL OR d.store = CAST(:store AS text)
            OR d.to_store = CAST(:store AS text))
       AND (CAST(:party AS text) IS NULL OR d.party = normalize(CAST(:party AS text), NFC))
       AND (CAST(:since AS date) IS NULL OR d.posting_date >= CAST(:since AS date))
       AND (CAST(:until AS date) IS NULL OR d.posting_date <= CAST(:until AS date))
       AND (CAST(:before_id AS bigint) IS NULL
            OR (d.posting_date, d.id) < (CAST(:before_day AS date), CAST(:before_id AS bigint)))
     ORDER BY d.posting_date DESC, d.id DESC LIMIT :most"""
LIST_DOCUMENTS = text(_ANY + _FILTERED)
LIST_NUMBERED = text(_NUMBERED + _FILTERED)
FILTERS = ("status", "store", "party", "doc_no", "since", "until")


async def list_documents(
    conn: AsyncConnection,
    scope: Scope,
    company: str,
    filters: Mapping[str, Any],
    *,
    kind: str | None = None,
    before: tuple[date, int] | None = None,
    limit: int,
) -> Sequence[RowMapping]:
    """Documents of the company, the latest posting date first; `filters` may hold FILTERS.

    `kind` is one of TYPES; `before` is the (day, id) that a page begins after. Call it in a
    transaction.
    """
    day, number = before or (None, None)
    binds = dict.fromkeys(FILTERS) | dict(filters) | dict(scope.binds())
    binds |= {"company": company, "types": [*TYPES] if kind is None else [kind]}
    binds |= {"before_day": day, "before_id": number, "most": limit}
    await conn.execute(PLAN_EACH)
    if binds["doc_no"] is not None:
        return (await conn.execute(LIST_NUMBERED, binds)).mappings().all()
    del binds["doc_no"]
    return (await conn.execute(LIST_DOCUMENTS, binds)).mappings().all()


READ_DOCUMENT = text(f"""{_ANY}
     WHERE d.id = CAST(:document_id AS bigint) AND {IN_SCOPE}""")
READ_LINES = text("""
    SELECT l.line_no, l.item, l.qty_doc, l.uom, l.qty_base, l.net, l.vat, l.vat_rate, l.fc_net,
           l.fc_vat, l.side, l.account, l.store, l.party, l.lot_id, l.ref_line, l.memo,
           i.base_uom, i.qty_scale
      FROM books.document_lines l
      JOIN books.documents d ON d.id = l.document_id
      LEFT JOIN books.items i ON i.company = d.company AND i.code = l.item
     WHERE l.document_id = CAST(:document_id AS bigint) AND l.line_no > CAST(:after AS integer)
     ORDER BY l.line_no LIMIT :most""")


async def read_document(conn: AsyncConnection, document_id: int, scope: Scope) -> RowMapping | None:
    """The document's head; None where the scope does not see it, as where there is none."""
    binds = {"document_id": document_id, **scope.binds()}
    return (await conn.execute(READ_DOCUMENT, binds)).mappings().one_or_none()


async def read_lines(
    conn: AsyncConnection, document_id: int, *, after: int = 0, limit: int
) -> Sequence[RowMapping]:
    """Lines of a document that the caller may see, by line number, from behind `after` on."""
    binds = {"document_id": document_id, "after": after, "most": limit}
    return (await conn.execute(READ_LINES, binds)).mappings().all()


HIDDEN = text("""
    SELECT EXISTS (SELECT FROM books.documents d
                    WHERE d.id = ANY (CAST(:ids AS bigint[]))
                      AND (d.brand = ANY (CAST(:brands AS text[]))) IS NOT TRUE)""")


async def is_any_hidden(conn: AsyncConnection, ids: Sequence[int], brands: Sequence[str]) -> bool:
    """Whether one of the documents is of none of these brands."""
    return bool(await conn.scalar(HIDDEN, {"ids": [*ids], "brands": [*brands]}))

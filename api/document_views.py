"""Documents as they look from outside: money as decimal strings, days as dates."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from api.bodies import show_instant
from api.ledger_views import EntrySummary
from api.problems import Problem
from shared.costs.shown import scaled
from shared.ledger.rules import DocumentType

DOCUMENTS = "/v1/documents"
Status = Literal["draft", "posted", "void"]


class Refers(BaseModel):
    """The document that another one refers to."""

    id: int
    type: DocumentType
    doc_no: str


class DocumentSummary(BaseModel):
    """A document. `total` is with VAT, in the company's currency; `fc_total` in its own."""

    id: int
    company: str
    brand: str | None = Field(description="that of its store; null: of the whole company")
    type: DocumentType
    doc_no: str
    doc_date: str
    posting_date: str
    store: str | None
    to_store: str | None
    party: str | None
    status: Status = Field(description="a draft may be replaced; a posted one stays as it is")
    version: int = Field(description="grows whenever it is replaced, unposted or voided")
    total: str | None
    vat_total: str | None
    currency: str | None = Field(description="null: the company's")
    fc_total: str | None
    refers_to: Refers | None
    updated_at: str
    links: dict[str, str]


class DocumentLine(BaseModel):
    """A line. `qty` is in `uom`, `qty_base` the same in the item's base unit, exactly."""

    line_no: int
    item: str | None
    qty: str | None
    uom: str | None
    qty_base: str | None
    base_uom: str | None
    net: str | None
    vat: str | None
    vat_rate: str | None
    fc_net: str | None
    fc_vat: str | None
    side: Literal["debit", "credit"] | None
    account: str | None
    store: str | None
    party: str | None
    lot_id: str | None
    ref_line: int | None
    memo: str | None


class DocumentView(DocumentSummary):
    """A document with its lines, and the entries that its versions have in the ledger."""

    account: str | None
    fc_rate: str | None
    fc_vat_total: str | None
    memo: str | None
    source: str = Field(description="where it came from: `api`, an import, a cost run")
    principal: str | None = Field(description="who sent this version")
    cost_run_id: str | None = Field(description="of a cost document")
    created_at: str
    lines: list[DocumentLine]
    next_line: int | None = Field(description="`after_line` of the next lines; null: these are all")
    entries: list[EntrySummary] = Field(description="newest first, the newest 50")


def document_url(document_id: int) -> str:
    """Path of a document."""
    return f"{DOCUMENTS}/{document_id}"


def document_summary(row: RowMapping) -> dict[str, Any]:
    """What DocumentSummary describes, of a row of shared.documents.read."""
    url = document_url(row["id"])
    digits = row["minor_digits"]
    refers = None
    if row["ref_document_id"] is not None:
        refers = {
            "id": row["ref_document_id"],
            "type": row["ref_type"],
            "doc_no": row["ref_doc_no"],
        }
    named = ("company", "brand", "type", "doc_no", "store", "to_store", "party", "status")
    entries = f"/v1/ledger/entries?company={quote(row['company'])}&document={row['id']}"
    return {
        "id": row["id"],
        **{name: row[name] for name in named},
        "doc_date": row["doc_date"].isoformat(),
        "posting_date": row["posting_date"].isoformat(),
        "version": row["version"],
        "total": money(row["total"], digits),
        "vat_total": money(row["vat_total"], digits),
        "currency": row["currency"],
        "fc_total": plain(row["fc_total"]),
        "refers_to": refers,
        "updated_at": show_instant(row["updated_at"]),
        "links": {"self": url, "entries": entries}
        | ({"void": f"{url}/void"} if row["status"] == "draft" else {}),
    }


def document_view(
    row: RowMapping,
    lines: Sequence[RowMapping],
    *,
    next_line: int | None,
    entries: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What DocumentView describes."""
    digits = row["minor_digits"]
    run = row["cost_run_id"]
    return document_summary(row) | {
        "account": row["account"],
        "fc_rate": plain(row["fc_rate"]),
        "fc_vat_total": plain(row["fc_vat_total"]),
        "memo": row["memo"],
        "source": row["source"],
        "principal": row["principal"],
        "cost_run_id": None if run is None else str(run),
        "created_at": show_instant(row["created_at"]),
        "lines": [_line(each, digits) for each in lines],
        "next_line": next_line,
        "entries": [*entries],
    }


def _line(row: RowMapping, digits: int) -> dict[str, Any]:
    base = row["qty_base"]
    named = ("side", "account", "store", "party", "lot_id", "ref_line", "memo")
    return {
        "line_no": row["line_no"],
        "item": row["item"],
        "qty": plain(row["qty_doc"]),
        "uom": row["uom"],
        "qty_base": None if base is None else scaled(base, row["qty_scale"]),
        "base_uom": None if base is None else row["base_uom"],
        "net": money(row["net"], digits),
        "vat": money(row["vat"], digits),
        "vat_rate": plain(row["vat_rate"]),
        "fc_net": plain(row["fc_net"]),
        "fc_vat": plain(row["fc_vat"]),
    } | {name: row[name] for name in named}


def money(amount: int | None, digits: int) -> str | None:
    """Minor units as a decimal."""
    return None if amount is None else scaled(amount, digits)


def plain(number: Decimal | None) -> str | None:
    """A decimal with all of its digits, never in powers of ten."""
    return None if number is None else format(number, "f")


def document_not_found(document_id: object) -> Problem:
    """The 404 of a document, and of another brand's."""
    return Problem(slug="document-not-found", detail=f"document {document_id} is unknown here")

"""Documents as they are sent: what /openapi.json says of them.

The rules themselves are the database's (books.put_documents), one place for api and import.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.documents.read import TYPES

MOST_DOCUMENTS = 1000
MOST_LINES = 10_000
AMOUNT = r"^-?[0-9]{1,19}([.][0-9]{1,9})?$"
NATURAL = r"^[0-9]{1,19}([.][0-9]{1,9})?$"
DAY = r"^(19|[2-9][0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}$"
ACCOUNT = r"^[0-9A-Za-z.]{1,20}$"
# `cost` documents are made by costings, and by nobody else.
SentType = Literal[
    "sale",
    "sale_return",
    "purchase",
    "purchase_return",
    "transfer",
    "cash_in",
    "cash_out",
    "manual",
    "opening",
]
assert set(SentType.__args__) == {*TYPES} - {"cost"}, "the types of the table"  # type: ignore[attr-defined] # of a Literal


class LineBody(BaseModel):
    """A line: what it is worth, and the goods that come or go with it."""

    model_config = ConfigDict(extra="forbid")

    line_no: int | None = Field(None, ge=1, le=999_999, description="else its place in the list")
    item: str | None = None
    qty: str | None = Field(None, pattern=NATURAL, examples=["10"])
    uom: str | None = Field(None, description="else the item's base unit")
    net: str | None = Field(None, pattern=AMOUNT, description="without VAT", examples=["150000"])
    vat: str | None = Field(None, pattern=AMOUNT, examples=["15000"])
    vat_rate: str | None = Field(None, description="per cent", examples=["10"])
    fc_net: str | None = Field(None, pattern=AMOUNT)
    fc_vat: str | None = Field(None, pattern=AMOUNT)
    side: Literal["debit", "credit"] | None = Field(None, description="of manual and opening")
    account: str | None = Field(None, pattern=ACCOUNT)
    store: str | None = Field(None, description="else that of the document")
    party: str | None = Field(None, min_length=1, max_length=60)
    lot_id: str | None = Field(None, min_length=1, max_length=100)
    ref_line: int | None = Field(
        None, ge=1, le=999_999, description="line of the document that is referred to"
    )
    memo: str | None = Field(None, max_length=500)


class DocumentBody(BaseModel):
    """A document, known by its type and number. Amounts and quantities are decimal strings."""

    model_config = ConfigDict(extra="forbid")

    type: SentType
    doc_no: str = Field(min_length=1, max_length=60)
    doc_date: str = Field(pattern=DAY, examples=["2026-01-05"])
    posting_date: str | None = Field(None, pattern=DAY, description="else doc_date")
    brand: str | None = Field(None, description="else that of the store")
    store: str | None = None
    to_store: str | None = Field(None, description="of a transfer")
    party: str | None = Field(None, min_length=1, max_length=60)
    account: str | None = Field(None, pattern=ACCOUNT)
    currency: str | None = Field(None, pattern="^[A-Z]{3}$", description="else the company's")
    fc_rate: str | None = Field(None, description="what one unit of the currency costs")
    total: str | None = Field(None, pattern=NATURAL, description="with VAT; else the lines' sum")
    vat_total: str | None = Field(None, pattern=NATURAL, description="else the lines' sum")
    fc_total: str | None = Field(None, pattern=NATURAL)
    fc_vat_total: str | None = Field(None, pattern=NATURAL)
    memo: str | None = Field(None, max_length=500)
    ref_type: str | None = Field(
        None, description="else sale of a sale_return, purchase of a purchase and its return"
    )
    ref_doc_no: str | None = Field(None, description="the document that is referred to")


def _document_schema() -> dict[str, Any]:
    schema = DocumentBody.model_json_schema()
    schema["properties"]["lines"] = {
        "type": "array",
        "maxItems": MOST_LINES,
        "items": LineBody.model_json_schema(),
    }
    schema["required"] = [*schema["required"], "lines"]
    return schema


DOCUMENTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["company", "documents"],
    "additionalProperties": False,
    "properties": {
        "company": {"type": "string", "minLength": 1, "maxLength": 100},
        "documents": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_DOCUMENTS,
            "items": _document_schema(),
        },
    },
}
DOCUMENTS_EXAMPLE: dict[str, Any] = {
    "company": "SAMPLE",
    "documents": [
        {
            "type": "sale",
            "doc_no": "HD-0001",
            "doc_date": "2026-01-05",
            "store": "LUA-01",
            "party": "KH-001",
            "total": "165000",
            "vat_total": "15000",
            "lines": [
                {"item": "LUA0001", "qty": "10", "net": "150000", "vat": "15000", "vat_rate": "10"}
            ],
        }
    ],
}


class VoidBody(BaseModel):
    """Why, if somebody wants it remembered."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str | None = Field(None, min_length=1, max_length=500, description="for the audit")

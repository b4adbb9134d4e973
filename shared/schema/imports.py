"""Uploads, and the lines of files that are being imported, as Core sees them."""

from sqlalchemy import (
    ARRAY,
    BIGINT,
    Boolean,
    Column,
    Date,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from shared.schema.columns import INSTANT, big, code, words
from shared.schema.metadata import metadata


def _line() -> tuple[Column[object], ...]:
    return (
        Column("job_id", UUID, primary_key=True),
        Column("line", BIGINT, primary_key=True, autoincrement=False),
    )


uploads = Table(
    "uploads",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("created_at", INSTANT, nullable=False),
    Column("ready_at", INSTANT),
    Column("expires_at", INSTANT, nullable=False),
    big("size", required=False),
    code("company"),
    code("brand", required=False),
    words("principal"),
    words("name"),
    words("media_type"),
    Column("object_key", Text, nullable=False, unique=True),
    words("state"),
    Column("sha256", LargeBinary),
    Index("uploads_expiry_idx", "expires_at"),
    Index("uploads_content_idx", "company", "sha256", postgresql_where=text("state = 'ready'")),
    schema="chot",
)

import_movements = Table(
    "import_movements",
    metadata,
    *_line(),
    words("said", required=False),
    big("posting_seq", required=False),
    Column("posting_date", Date, nullable=False),
    Column("doc_line", Integer, nullable=False),
    Column("ref_line", Integer),
    Column("reverses_line", Integer),
    code("doc_id"),
    code("kind"),
    code("brand", required=False),
    code("store"),
    code("to_store", required=False),
    code("item"),
    *(
        code(name, required=False)
        for name in ("uom", "lot", "currency", "ref_doc", "cost_basis", "reverses_doc")
    ),
    Column("quantity", Numeric, nullable=False),
    *(Column(name, Numeric) for name in ("value", "fc_amount", "fc_rate")),
    Index("import_movements_document_idx", "doc_id", "doc_line", "job_id"),
    Index(
        "import_movements_opening_idx",
        "item",
        "store",
        "posting_date",
        "job_id",
        postgresql_where=text("kind = 'opening'"),
    ),
    schema="books",
)

import_items = Table(
    "import_items",
    metadata,
    *_line(),
    words("said", required=False),
    big("unit_num", required=False),
    big("unit_den", required=False),
    Column("qty_scale", SmallInteger),
    Column("lot_tracked", Boolean),
    Column("active", Boolean),
    code("code"),
    words("name"),
    words("base_uom"),
    *(code(name, required=False) for name in ("costing_method", "item_group", "unit")),
    Index("import_items_code_idx", "code", "job_id"),
    schema="books",
)

import_documents = Table(
    "import_documents",
    metadata,
    *_line(),
    words("said", required=False),
    code("type"),
    code("doc_no"),
    Column("lines", ARRAY(BIGINT), nullable=False),
    Column("body", JSONB, nullable=False),
    Index("import_documents_number_idx", "doc_no", "type", "job_id", "line"),
    schema="books",
)

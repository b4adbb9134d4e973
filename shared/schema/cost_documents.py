"""Cost documents and the staged work that makes them, in schema `books`, as Core sees them."""

from sqlalchemy import (
    Boolean,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import BIGINT, UUID

from shared.schema.columns import big, code
from shared.schema.metadata import metadata

cost_documents = Table(
    "cost_documents",
    metadata,
    Column(
        "document_id",
        BIGINT,
        ForeignKey("books.documents.id"),
        primary_key=True,
        autoincrement=False,
    ),
    *(code(name) for name in ("company", "period", "key", "base")),
    Column("standing", Boolean, nullable=False),
    ForeignKeyConstraint(["company", "period"], ["books.periods.company", "books.periods.period"]),
    Index(
        "cost_documents_standing_key",
        "company",
        "period",
        "key",
        unique=True,
        postgresql_where=text("standing"),
    ),
    Index("cost_documents_base_idx", "company", "base"),
    schema="books",
)

cost_work = Table(
    "cost_work",
    metadata,
    Column("job_id", UUID, primary_key=True),
    big("run_id", required=False),
    big("old_document_id", required=False),
    Column("off", Numeric, nullable=False),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("lines", Integer, nullable=False),
    Column("day", Date),
    *(code(name) for name in ("key", "base")),
    code("brand", required=False),
    Column("digest", LargeBinary),
    schema="books",
)

cost_work_lines = Table(
    "cost_work_lines",
    metadata,
    Column("job_id", UUID, primary_key=True),
    big("amount"),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("line_no", Integer, primary_key=True, autoincrement=False),
    *(code(name) for name in ("role", "account", "store", "brand")),
    code("item", required=False),
    schema="books",
)

"""Tables of schema `books` as Core sees them; CHECKs, grants and functions stand in migrations."""

from sqlalchemy import (
    Boolean,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import BIGINT, UUID

from shared.schema.columns import INSTANT, TransactionId, big, code, words
from shared.schema.metadata import metadata

companies = Table(
    "companies",
    metadata,
    code("code", key=True),
    words("name"),
    words("currency"),
    Column("minor_digits", SmallInteger, nullable=False),
    Column("fiscal_year_start_month", SmallInteger, nullable=False),
    schema="books",
)

brands = Table(
    "brands",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    code("code", key=True),
    words("name"),
    schema="books",
)

stores = Table(
    "stores",
    metadata,
    code("company", key=True),
    code("code", key=True),
    code("brand"),
    words("name"),
    ForeignKeyConstraint(["company", "brand"], ["books.brands.company", "books.brands.code"]),
    schema="books",
)

items = Table(
    "items",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    code("code", key=True),
    words("name"),
    words("base_uom"),
    Column("qty_scale", SmallInteger, nullable=False),
    words("costing_method"),
    Column("lot_tracked", Boolean, nullable=False),
    Column("active", Boolean, nullable=False),
    code("item_group", required=False),
    schema="books",
)

item_units = Table(
    "item_units",
    metadata,
    code("company", key=True),
    code("item", key=True),
    code("unit", key=True),
    big("num"),
    big("den"),
    ForeignKeyConstraint(["company", "item"], ["books.items.company", "books.items.code"]),
    schema="books",
)

cost_pool_map = Table(
    "cost_pool_map",
    metadata,
    code("company", key=True),
    code("store", key=True),
    Column("valid_from", Date, primary_key=True),
    code("pool"),
    Column("shared", Boolean, nullable=False),
    ForeignKeyConstraint(["company", "store"], ["books.stores.company", "books.stores.code"]),
    schema="books",
)

periods = Table(
    "periods",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    code("period", key=True),
    Column("starts_on", Date, nullable=False),
    Column("ends_on", Date, nullable=False),
    words("status"),
    Column("version", Integer, nullable=False),
    schema="books",
)

stock_movements = Table(
    "stock_movements",
    metadata,
    Column("id", BIGINT, Identity(), primary_key=True),
    big("posting_seq"),
    big("qty_base"),
    big("value", required=False),
    big("ref_movement_id", required=False),
    big("reverses_movement_id", required=False),
    Column("xid", TransactionId(), nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("posting_date", Date, nullable=False),
    Column("doc_line", Integer, nullable=False),
    code("company"),
    code("brand"),
    code("item"),
    code("store"),
    code("to_brand", required=False),
    code("to_store", required=False),
    code("kind"),
    code("doc_id"),
    code("lot_id", required=False),
    code("cost_basis", required=False),
    code("uom", required=False),
    Column("qty_doc", Numeric),
    code("currency", required=False),
    Column("fc_amount", Numeric),
    Column("fc_rate", Numeric),
    Column("job_id", UUID),
    Index("stock_movements_item_idx", "company", "brand", "item", "posting_date"),
    Index(
        "stock_movements_arrivals_idx",
        "company",
        "to_brand",
        "item",
        "posting_date",
        postgresql_where=text("to_brand <> brand"),
    ),
    Index("stock_movements_xid_idx", "company", "xid"),
    Index(
        "stock_movements_ref_idx",
        "ref_movement_id",
        postgresql_where=text("ref_movement_id IS NOT NULL"),
    ),
    Index(
        "stock_movements_reverses_key",
        "reverses_movement_id",
        unique=True,
        postgresql_where=text("reverses_movement_id IS NOT NULL"),
    ),
    Index(
        "stock_movements_production_idx",
        "company",
        "doc_id",
        postgresql_where=text("kind IN ('produce', 'consume')"),
    ),
    Index("stock_movements_document_idx", "doc_id", "doc_line", "company"),
    Index(
        "stock_movements_brought_idx",
        "doc_id",
        "doc_line",
        "kind",
        "company",
        postgresql_where=text("job_id IS NOT NULL"),
    ),
    Index(
        "stock_movements_opening_idx",
        "item",
        "store",
        "posting_date",
        postgresql_where=text("kind = 'opening'"),
    ),
    schema="books",
)

late_movements = Table(
    "late_movements",
    metadata,
    code("company", key=True),
    code("period", key=True),
    code("brand", key=True),
    code("item", key=True),
    Column("xid", TransactionId(), primary_key=True),
    schema="books",
)

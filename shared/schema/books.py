"""Tables of schema `books` as Core sees them; CHECKs, grants and functions stand in migrations."""

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, JSONB, TIMESTAMP, UUID
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import UserDefinedType

from shared.schema.metadata import metadata

INSTANT = TIMESTAMP(timezone=True)


class TransactionId(UserDefinedType[str]):
    """PostgreSQL's xid8; compared in SQL, never in Python."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The type's name in DDL."""
        return "xid8"


class Snapshot(UserDefinedType[str]):
    """PostgreSQL's pg_snapshot; compared in SQL, never in Python."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The type's name in DDL."""
        return "pg_snapshot"


# SQLAlchemy does not know the two types; without this their columns reflect as nothing.
ischema_names["xid8"] = TransactionId
ischema_names["pg_snapshot"] = Snapshot


def _code(name: str, *, key: bool = False, required: bool = True) -> Column[str]:
    return Column(name, Text(collation="C"), primary_key=key, nullable=not required)


def _text(name: str, *, required: bool = True) -> Column[str]:
    return Column(name, Text, nullable=not required)


def _big(name: str, *, required: bool = True) -> Column[int]:
    return Column(name, BIGINT, nullable=not required)


def _run_id(*, key: bool = True, linked: bool = True) -> Column[int]:
    link = [ForeignKey("books.cost_runs.id")] if linked else []
    return Column("run_id", BIGINT, *link, primary_key=key, nullable=False, autoincrement=False)


def _flow(*names: str) -> list[Column[int]]:
    return [_big(f"{side}_{name}") for name in names for side in ("q", "v")]


companies = Table(
    "companies",
    metadata,
    _code("code", key=True),
    _text("name"),
    _text("currency"),
    Column("minor_digits", SmallInteger, nullable=False),
    schema="books",
)

brands = Table(
    "brands",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    _code("code", key=True),
    _text("name"),
    schema="books",
)

stores = Table(
    "stores",
    metadata,
    _code("company", key=True),
    _code("code", key=True),
    _code("brand"),
    _text("name"),
    ForeignKeyConstraint(["company", "brand"], ["books.brands.company", "books.brands.code"]),
    schema="books",
)

items = Table(
    "items",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    _code("code", key=True),
    _text("name"),
    _text("base_uom"),
    Column("qty_scale", SmallInteger, nullable=False),
    _text("costing_method"),
    Column("lot_tracked", Boolean, nullable=False),
    Column("active", Boolean, nullable=False),
    schema="books",
)

item_units = Table(
    "item_units",
    metadata,
    _code("company", key=True),
    _code("item", key=True),
    _code("unit", key=True),
    _big("num"),
    _big("den"),
    ForeignKeyConstraint(["company", "item"], ["books.items.company", "books.items.code"]),
    schema="books",
)

cost_pool_map = Table(
    "cost_pool_map",
    metadata,
    _code("company", key=True),
    _code("store", key=True),
    Column("valid_from", Date, primary_key=True),
    _code("pool"),
    ForeignKeyConstraint(["company", "store"], ["books.stores.company", "books.stores.code"]),
    schema="books",
)

periods = Table(
    "periods",
    metadata,
    Column("company", Text(collation="C"), ForeignKey("books.companies.code"), primary_key=True),
    _code("period", key=True),
    Column("starts_on", Date, nullable=False),
    Column("ends_on", Date, nullable=False),
    _text("status"),
    Column("version", Integer, nullable=False),
    schema="books",
)

stock_movements = Table(
    "stock_movements",
    metadata,
    Column("id", BIGINT, Identity(), primary_key=True),
    _big("posting_seq"),
    _big("qty_base"),
    _big("value", required=False),
    _big("ref_movement_id", required=False),
    _big("reverses_movement_id", required=False),
    Column("xid", TransactionId(), nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("posting_date", Date, nullable=False),
    Column("doc_line", Integer, nullable=False),
    _code("company"),
    _code("brand"),
    _code("item"),
    _code("store"),
    _code("to_brand", required=False),
    _code("to_store", required=False),
    _code("kind"),
    _code("doc_id"),
    _code("lot_id", required=False),
    _code("cost_basis", required=False),
    _code("uom", required=False),
    Column("qty_doc", Numeric),
    _code("currency", required=False),
    Column("fc_amount", Numeric),
    Column("fc_rate", Numeric),
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
    schema="books",
)

RUN_VALUES = (
    "v_opening",
    "v_receipt",
    "v_gain",
    "v_sales_return",
    "v_issue",
    "v_usage",
    "v_purchase_return",
    "v_rounding",
    "v_variance",
    "v_closing",
)

cost_runs = Table(
    "cost_runs",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("job_id", UUID, nullable=False),
    _big("fence"),
    _code("company"),
    _code("brand", required=False),
    _code("period"),
    Column("starts_on", Date, nullable=False),
    Column("ends_on", Date, nullable=False),
    _code("previous_period", required=False),
    _text("method"),
    _text("pool_policy"),
    _text("residue_policy"),
    Column("pools", JSONB, nullable=False),
    Column("snapshot", Snapshot(), nullable=False),
    _text("status"),
    Column("rounds", Integer, nullable=False),
    Column("items_total", Integer, nullable=False),
    Column("items_failed", Integer, nullable=False),
    _big("movements_total"),
    *(Column(name, Numeric(38, 0)) for name in RUN_VALUES),
    Column("checksum", LargeBinary),
    Column("created_at", INSTANT, nullable=False),
    Column("activated_at", INSTANT),
    ForeignKeyConstraint(["company", "period"], ["books.periods.company", "books.periods.period"]),
    ForeignKeyConstraint(["company", "brand"], ["books.brands.company", "books.brands.code"]),
    Index(
        "cost_runs_building_key",
        "job_id",
        unique=True,
        postgresql_where=text("status = 'building'"),
    ),
    Index("cost_runs_period_idx", "company", "period"),
    schema="books",
)

cost_run_items = Table(
    "cost_run_items",
    metadata,
    _run_id(),
    _big("movements"),
    _big("opening_run_id", required=False),
    _code("brand", key=True),
    _code("item", key=True),
    Column("opening_failed", Boolean, nullable=False),
    Column("done", Boolean, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("digest", LargeBinary),
    schema="books",
)

movement_costs = Table(
    "movement_costs",
    metadata,
    _run_id(linked=False),
    Column("movement_id", BIGINT, primary_key=True, autoincrement=False),
    _big("value"),
    _big("variance"),
    _big("qty_diff", required=False),
    _code("brand", key=True),
    _code("item", key=True),
    schema="books",
    postgresql_partition_by="LIST (run_id)",
)

store_balances = Table(
    "store_balances",
    metadata,
    _run_id(linked=False),
    *_flow("opening", "in", "out", "transfer_in", "transfer_out", "closing"),
    _big("v_averaging"),
    _code("brand", key=True),
    _code("item", key=True),
    _code("store", key=True),
    _code("pool"),
    schema="books",
    postgresql_partition_by="LIST (run_id)",
)

pool_results = Table(
    "pool_results",
    metadata,
    _run_id(),
    *_flow("opening", "receipt", "gain", "sales_return"),
    *_flow("issue", "usage", "purchase_return", "closing"),
    _big("v_rounding"),
    _big("v_variance"),
    _big("price_num"),
    _big("price_den"),
    Column("pushes", Integer, nullable=False),
    Column("dipped", Boolean, nullable=False),
    _code("brand", key=True),
    _code("item", key=True),
    _code("pool", key=True),
    schema="books",
)

item_errors = Table(
    "item_errors",
    metadata,
    _run_id(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    _code("brand", key=True),
    _code("item", key=True),
    _code("pool", required=False),
    _text("code"),
    _text("detail"),
    Column("movement_ids", ARRAY(BIGINT), nullable=False),
    schema="books",
)

active_results = Table(
    "active_results",
    metadata,
    _run_id(key=False),
    _code("company", key=True),
    _code("brand", key=True),
    _code("period", key=True),
    _code("item", key=True),
    Column("failed", Boolean, nullable=False),
    Column("stale", Boolean, nullable=False),
    Index("active_results_run_idx", "run_id"),
    schema="books",
)

late_movements = Table(
    "late_movements",
    metadata,
    _code("company", key=True),
    _code("period", key=True),
    _code("brand", key=True),
    _code("item", key=True),
    Column("xid", TransactionId(), primary_key=True),
    schema="books",
)

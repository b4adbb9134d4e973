"""Tables of cost runs and their results, in schema `books`, as Core sees them."""

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
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, JSONB, UUID

from shared.schema.columns import INSTANT, Snapshot, TransactionId, big, code, words
from shared.schema.metadata import metadata


def _run_id(*, key: bool = True, linked: bool = True) -> Column[int]:
    link = [ForeignKey("books.cost_runs.id")] if linked else []
    return Column("run_id", BIGINT, *link, primary_key=key, nullable=False, autoincrement=False)


def _flow(*names: str) -> list[Column[int]]:
    return [big(f"{side}_{name}") for name in names for side in ("q", "v")]


def _yes_or_no(*names: str) -> list[Column[bool]]:
    return [Column(name, Boolean, nullable=False) for name in names]


def _digests(*names: str) -> list[Column[bytes]]:
    return [Column(name, LargeBinary) for name in names]


RUN_VALUES = (
    "v_opening",
    "v_receipt",
    "v_gain",
    "v_sales_return",
    "v_issue",
    "v_usage",
    "v_purchase_return",
    "v_rounding",
    "v_true_up",
    "v_variance",
    "v_closing",
)

cost_runs = Table(
    "cost_runs",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("job_id", UUID, nullable=False),
    big("fence"),
    code("company"),
    code("brand", required=False),
    code("period"),
    Column("starts_on", Date, nullable=False),
    Column("ends_on", Date, nullable=False),
    code("previous_period", required=False),
    words("method"),
    words("pool_policy"),
    words("residue_policy"),
    words("negative"),
    Column("dry_run", Boolean, nullable=False),
    Column("parts_group", UUID),
    Column("scope", JSONB),
    Column("scope_items", ARRAY(Text(collation="C"))),
    Column("pools", JSONB, nullable=False),
    Column("snapshot", Snapshot(), nullable=False),
    words("status"),
    Column("rounds", Integer, nullable=False),
    Column("items_total", Integer, nullable=False),
    Column("items_failed", Integer, nullable=False),
    big("movements_total"),
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
    big("movements"),
    big("opening_run_id", required=False),
    code("brand", key=True),
    code("item", key=True),
    code("family"),
    Column("part", Integer),
    words("method"),
    *_yes_or_no("opening_failed", "done", "failed", "tied", "refers", "out_of_scope"),
    *_digests("digest", "opening_digest", "closing_digest"),
    Index("cost_run_items_family_idx", "run_id", "family"),
    schema="books",
)

movement_costs = Table(
    "movement_costs",
    metadata,
    _run_id(linked=False),
    Column("movement_id", BIGINT, primary_key=True, autoincrement=False),
    big("value"),
    big("variance"),
    big("qty_diff", required=False),
    big("true_up"),
    code("brand", key=True),
    code("item", key=True),
    schema="books",
    postgresql_partition_by="LIST (run_id)",
)

store_balances = Table(
    "store_balances",
    metadata,
    _run_id(linked=False),
    *_flow("opening", "in", "out", "transfer_in", "transfer_out", "closing"),
    big("v_averaging"),
    code("brand", key=True),
    code("item", key=True),
    code("store", key=True),
    code("pool"),
    schema="books",
    postgresql_partition_by="LIST (run_id)",
)

pool_results = Table(
    "pool_results",
    metadata,
    _run_id(),
    *_flow("opening", "receipt", "gain", "sales_return"),
    *_flow("issue", "usage", "purchase_return", "closing", "transfer_in", "transfer_out", "owed"),
    big("v_rounding"),
    big("v_variance"),
    big("v_true_up"),
    Column("price_num", Numeric, nullable=False),
    Column("price_den", Numeric, nullable=False),
    Column("pushes", Integer, nullable=False),
    Column("scc_size", Integer, nullable=False),
    Column("dipped", Boolean, nullable=False),
    code("brand", key=True),
    code("item", key=True),
    code("pool", key=True),
    schema="books",
)

item_errors = Table(
    "item_errors",
    metadata,
    _run_id(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    code("brand", key=True),
    code("item", key=True),
    code("pool", required=False),
    words("code"),
    words("detail"),
    Column("movement_ids", ARRAY(BIGINT), nullable=False),
    schema="books",
)

active_results = Table(
    "active_results",
    metadata,
    _run_id(key=False),
    code("company", key=True),
    code("brand", key=True),
    code("period", key=True),
    code("item", key=True),
    words("method"),
    *_yes_or_no("failed", "stale", "tied", "refers"),
    *_digests("digest", "opening_digest", "closing_digest"),
    Column("xid", TransactionId()),
    Index("active_results_run_idx", "run_id"),
    schema="books",
)

cost_layers = Table(
    "cost_layers",
    metadata,
    _run_id(linked=False),
    big("qty"),
    big("value"),
    big("origin_movement_id", required=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("received_on", Date),
    code("brand", key=True),
    code("item", key=True),
    code("pool", key=True),
    code("lot", required=False),
    schema="books",
    postgresql_partition_by="LIST (run_id)",
)

cost_differences = Table(
    "cost_differences",
    metadata,
    _run_id(),
    Column("before", Numeric(38, 0), nullable=False),
    Column("after", Numeric(38, 0), nullable=False),
    code("item", key=True),
    code("brand", key=True),
    code("account", key=True),
    schema="books",
)

costing_methods = Table(
    "costing_methods",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    code("company"),
    code("item"),
    Column("valid_from", Date, nullable=False),
    words("method"),
    Column("mid_year", Boolean, nullable=False),
    words("reason", required=False),
    words("decided_by"),
    Column("decided_at", INSTANT, nullable=False),
    ForeignKeyConstraint(["company", "item"], ["books.items.company", "books.items.code"]),
    Index("costing_methods_item_idx", "company", "item", "valid_from", "id"),
    schema="books",
)

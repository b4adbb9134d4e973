"""Documents, posting rules and the ledger, in schema `books`, as Core sees them.

CHECKs, grants and triggers stand in migrations.
"""

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
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, UUID

from shared.schema.columns import INSTANT, TransactionId, big, code, words
from shared.schema.metadata import metadata


def _company(*, key: bool = False) -> Column[str]:
    link = ForeignKey("books.companies.code")
    return Column("company", Text(collation="C"), link, primary_key=key, nullable=False)


gl_accounts = Table(
    "gl_accounts",
    metadata,
    _company(key=True),
    code("code", key=True),
    words("name"),
    words("name_vi", required=False),
    words("kind"),
    *(
        Column(name, Boolean, nullable=False)
        for name in ("postable", "needs_party", "needs_store", "needs_item", "is_stock")
    ),
    Column("active_from", Date),
    Column("active_to", Date),
    schema="books",
)

chart_templates = Table(
    "chart_templates",
    metadata,
    code("template", key=True),
    code("code", key=True),
    *(words(name) for name in ("name", "name_vi", "kind")),
    *(
        Column(name, Boolean, nullable=False)
        for name in ("postable", "needs_party", "needs_store", "needs_item", "is_stock")
    ),
    schema="books",
)

role_defaults = Table(
    "role_defaults", metadata, code("role", key=True), code("account"), schema="books"
)

account_roles = Table(
    "account_roles",
    metadata,
    _company(key=True),
    Column("role", Text(collation="C"), ForeignKey("books.role_defaults.role"), primary_key=True),
    code("account"),
    schema="books",
)

documents = Table(
    "documents",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("ref_document_id", BIGINT, ForeignKey("books.documents.id")),
    Column("cost_run_id", BIGINT, ForeignKey("books.cost_runs.id")),
    big("total", required=False),
    big("vat_total", required=False),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("posted_version", Integer),
    Column("doc_date", Date, nullable=False),
    Column("posting_date", Date, nullable=False),
    _company(),
    code("brand", required=False),
    code("type"),
    code("doc_no"),
    *(code(name, required=False) for name in ("store", "to_store", "party", "account")),
    code("currency", required=False),
    *(Column(name, Numeric) for name in ("fc_rate", "fc_total", "fc_vat_total")),
    code("status"),
    words("memo", required=False),
    code("source"),
    words("principal", required=False),
    Column("content_hash", LargeBinary, nullable=False),
    ForeignKeyConstraint(["company", "brand"], ["books.brands.company", "books.brands.code"]),
    ForeignKeyConstraint(["company", "store"], ["books.stores.company", "books.stores.code"]),
    ForeignKeyConstraint(["company", "to_store"], ["books.stores.company", "books.stores.code"]),
    Index("documents_number_key", "company", "type", "doc_no", unique=True),
    Index("documents_selection_idx", "company", "posting_date", "type", "id"),
    Index("documents_run_idx", "cost_run_id", postgresql_where=text("cost_run_id IS NOT NULL")),
    Index(
        "documents_ref_idx",
        "ref_document_id",
        postgresql_where=text("ref_document_id IS NOT NULL"),
    ),
    schema="books",
)

document_lines = Table(
    "document_lines",
    metadata,
    Column(
        "document_id",
        BIGINT,
        ForeignKey("books.documents.id"),
        primary_key=True,
        autoincrement=False,
    ),
    big("qty_base", required=False),
    big("net", required=False),
    big("vat", required=False),
    Column("line_no", Integer, primary_key=True, autoincrement=False),
    code("item", required=False),
    code("uom", required=False),
    *(Column(name, Numeric) for name in ("qty_doc", "vat_rate", "fc_net", "fc_vat")),
    *(code(name, required=False) for name in ("side", "account", "store", "party", "lot_id")),
    Column("ref_line", Integer),
    words("memo", required=False),
    code("role", required=False),
    schema="books",
)

posting_rules = Table(
    "posting_rules",
    metadata,
    code("company", key=True),
    code("doc_type", key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("valid_from", Date, nullable=False),
    code("series"),
    words("rest"),
    words("memo", required=False),
    schema="books",
)

posting_rule_lines = Table(
    "posting_rule_lines",
    metadata,
    code("company", key=True),
    code("doc_type", key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("line_no", Integer, primary_key=True, autoincrement=False),
    words("per"),
    words("side", required=False),
    Column("role", Text(collation="C"), ForeignKey("books.role_defaults.role")),
    Column("own_account", Boolean, nullable=False),
    words("amount"),
    words("store"),
    ForeignKeyConstraint(
        ["company", "doc_type", "version"],
        [f"books.posting_rules.{name}" for name in ("company", "doc_type", "version")],
    ),
    schema="books",
)

gl_series = Table(
    "gl_series",
    metadata,
    _company(key=True),
    code("series", key=True),
    Column("fiscal_year", Integer, primary_key=True, autoincrement=False),
    big("last_no"),
    Column("last_hash", LargeBinary, nullable=False),
    schema="books",
)

gl_entries = Table(
    "gl_entries",
    metadata,
    Column("id", BIGINT, primary_key=True, autoincrement=False),
    Column("document_id", BIGINT, ForeignKey("books.documents.id"), nullable=False),
    Column("reverses_entry_id", BIGINT, ForeignKey("books.gl_entries.id")),
    big("entry_no"),
    big("fence"),
    Column("job_id", UUID, nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("document_version", Integer, nullable=False),
    Column("rule_version", Integer, nullable=False),
    Column("fiscal_year", Integer, nullable=False),
    Column("posting_date", Date, nullable=False),
    _company(),
    code("brand", required=False),
    code("series"),
    code("role"),
    code("kind"),
    Column("xid", TransactionId(), nullable=False),
    words("memo", required=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    UniqueConstraint(
        "document_id", "document_version", "role", "kind", name="gl_entries_document_key"
    ),
    UniqueConstraint("company", "series", "fiscal_year", "entry_no", name="gl_entries_number_key"),
    UniqueConstraint("reverses_entry_id", name="gl_entries_reverses_key"),
    UniqueConstraint("id", "xid", name="gl_entries_xid_key"),
    Index("gl_entries_date_idx", "company", "posting_date", "id"),
    schema="books",
)

gl_lines = Table(
    "gl_lines",
    metadata,
    Column("entry_id", BIGINT, primary_key=True, autoincrement=False),
    big("debit"),
    big("credit"),
    big("qty_base", required=False),
    Column("xid", TransactionId(), nullable=False),
    Column("line_no", Integer, primary_key=True, autoincrement=False),
    Column("posting_date", Date, nullable=False),
    code("company"),
    code("brand", required=False),
    code("account"),
    *(code(name, required=False) for name in ("party", "store", "item", "currency")),
    Column("fc_amount", Numeric),
    words("memo", required=False),
    ForeignKeyConstraint(
        ["entry_id", "xid"],
        ["books.gl_entries.id", "books.gl_entries.xid"],
        name="gl_lines_entry_fkey",
        deferrable=True,
        initially="DEFERRED",
    ),
    ForeignKeyConstraint(
        ["company", "account"],
        ["books.gl_accounts.company", "books.gl_accounts.code"],
        name="gl_lines_account_fkey",
    ),
    Index(
        "gl_lines_account_idx",
        "company",
        "account",
        "posting_date",
        "entry_id",
        postgresql_include=["debit", "credit", "brand"],
    ),
    schema="books",
)

posting_items = Table(
    "posting_items",
    metadata,
    Column("job_id", UUID, primary_key=True),
    big("document_id"),
    big("entry_id", required=False),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer),
    Column("rule_version", Integer),
    code("series", required=False),
    Column("done", Boolean, nullable=False),
    code("outcome", required=False),
    Column("codes", ARRAY(Text), nullable=False),
    words("detail", required=False),
    UniqueConstraint("job_id", "document_id", name="posting_items_document_key"),
    Index("posting_items_left_idx", "job_id", "seq", postgresql_where=text("NOT done")),
    schema="books",
)

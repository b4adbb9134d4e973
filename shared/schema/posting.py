"""What an atomic posting has staged, in schema `books`, as Core sees it."""

from sqlalchemy import Column, Date, Integer, Numeric, Table
from sqlalchemy.dialects.postgresql import BIGINT, UUID

from shared.schema.columns import big, code, words
from shared.schema.metadata import metadata

posting_lines = Table(
    "posting_lines",
    metadata,
    Column("job_id", UUID, primary_key=True),
    Column("entry_id", BIGINT, primary_key=True, autoincrement=False),
    big("debit"),
    big("credit"),
    big("qty_base", required=False),
    Column("line_no", Integer, primary_key=True, autoincrement=False),
    Column("posting_date", Date, nullable=False),
    code("company"),
    code("brand", required=False),
    code("account"),
    *(code(name, required=False) for name in ("party", "store", "item", "currency")),
    Column("fc_amount", Numeric),
    words("memo", required=False),
    schema="books",
)

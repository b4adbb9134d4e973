"""What became of each period, as Core sees it; its CHECKs and its trigger stand in migrations."""

from sqlalchemy import Column, ForeignKeyConstraint, Identity, Index, Table, Text, text
from sqlalchemy.dialects.postgresql import BIGINT, JSONB, TIMESTAMP, UUID

from shared.schema.metadata import metadata

period_events = Table(
    "period_events",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column(
        "at",
        TIMESTAMP(timezone=True),
        nullable=False,
        server_default=text("clock_timestamp()"),
    ),
    Column("company", Text(collation="C"), nullable=False),
    Column("period", Text(collation="C"), nullable=False),
    Column("event", Text, nullable=False),
    Column("requester", Text, nullable=False),
    Column("approver", Text),
    Column("approval_id", UUID),
    Column("job_id", UUID),
    Column("reason", Text),
    Column("facts", JSONB, nullable=False, server_default=text("'{}'")),
    ForeignKeyConstraint(["company", "period"], ["books.periods.company", "books.periods.period"]),
    Index("period_events_period_idx", "company", "period", "id"),
    schema="books",
)

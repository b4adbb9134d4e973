"""Tables of the operator's pages as Core sees them."""

from sqlalchemy import Column, Identity, Index, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import BIGINT, TIMESTAMP

from shared.schema.metadata import metadata

session_secrets = Table(
    "session_secrets",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", TIMESTAMP(timezone=True), nullable=False),
    schema="chot",
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True),
    Column("key_id", Text, nullable=False),
    Column("issued_at", TIMESTAMP(timezone=True), nullable=False),
    Column("expires_at", TIMESTAMP(timezone=True), nullable=False),
    schema="chot",
)
Index("sessions_key_idx", sessions.c.key_id, sessions.c.issued_at)
Index("sessions_expires_idx", sessions.c.expires_at)

job_minutes = Table(
    "job_minutes",
    metadata,
    Column("minute", TIMESTAMP(timezone=True), primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("company", Text, primary_key=True),
    Column("brand", Text, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("jobs", BIGINT, nullable=False),
    schema="chot",
)

"""Accounts as Core sees them: their keys, what they did, and what they approve."""

from sqlalchemy import (
    Column,
    Identity,
    Index,
    LargeBinary,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, INET, JSONB, UUID

from shared.schema.columns import INSTANT, instant, plain
from shared.schema.metadata import metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    plain("principal", required=True),
    Column("roles", ARRAY(Text), nullable=False),
    plain("company"),
    Column("brands", ARRAY(Text)),
    instant("created_at", required=True),
    instant("expires_at"),
    instant("revoked_at"),
    instant("last_used_at"),
    schema="chot",
)

audit = Table(
    "audit",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("at", INSTANT, primary_key=True),
    plain("action", required=True),
    plain("principal", required=True),
    plain("key_id"),
    Column("source", INET),
    Column("request_id", UUID),
    Column("job_id", UUID),
    plain("target"),
    plain("company"),
    plain("brand"),
    plain("approver"),
    Column("approval_id", UUID),
    Column("facts", JSONB, nullable=False),
    schema="chot",
)
Index("audit_brand_idx", audit.c.company, audit.c.brand, audit.c.at, audit.c.id)
Index("audit_principal_idx", audit.c.principal, audit.c.at, audit.c.id)
Index("audit_job_idx", audit.c.job_id, postgresql_where=text("job_id IS NOT NULL"))
Index(
    "audit_action_idx",
    audit.c.action,
    audit.c.at,
    audit.c.id,
    postgresql_where=text("action <> 'job.submit'"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", UUID, primary_key=True),
    plain("action", required=True),
    plain("target", required=True),
    plain("company"),
    plain("brand"),
    plain("approver", required=True),
    plain("reason"),
    instant("created_at", required=True),
    instant("expires_at", required=True),
    instant("used_at"),
    plain("used_by"),
    schema="chot",
)
Index(
    "approvals_open_key",
    approvals.c.action,
    approvals.c.target,
    approvals.c.approver,
    unique=True,
    postgresql_where=text("used_at IS NULL"),
)

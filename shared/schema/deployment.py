"""The deployment as Core sees it: queues, kinds, what stops them, and the workers."""

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, JSONB, UUID

from shared.schema.columns import count, instant, plain
from shared.schema.metadata import metadata

deployment = Table(
    "deployment",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("deployment_id", UUID, nullable=False),
    instant("created_at", required=True),
    instant("sessions_since"),
    schema="chot",
)

queues = Table(
    "queues",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    plain("alone_worker"),
    instant("alone_until"),
    Column("turns", BIGINT, nullable=False),
    Column("shares", JSONB, nullable=False),
    Column("weights", JSONB, nullable=False),
    plain("alone_kind"),
    plain("alone_company"),
    plain("alone_brand"),
    schema="chot",
)

kinds = Table(
    "kinds",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text, ForeignKey("chot.queues.name"), nullable=False),
    count("payload_version"),
    Column("fingerprint_fields", ARRAY(Text), nullable=False),
    plain("on_duplicate", required=True),
    count("max_attempts"),
    count("max_attempts_cap"),
    Column("timeout_seconds", Double, nullable=False),
    Column("locks", JSONB),
    instant("updated_at", required=True),
    Column("max_running", Integer),
    Column("paused", Boolean, nullable=False),
    Column("widest_when_absent", ARRAY(Text), nullable=False),
    Column("internal", Boolean, nullable=False),
    plain("made_by"),
    plain("approval"),
    Column("by_account", Boolean, nullable=False),
    schema="chot",
)

freezes = Table(
    "freezes",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    plain("company", required=True),
    plain("brand"),
    plain("reason"),
    plain("principal", required=True),
    instant("frozen_at", required=True),
    UniqueConstraint(
        "company", "brand", name="freezes_books_key", postgresql_nulls_not_distinct=True
    ),
    schema="chot",
)

running_limits = Table(
    "running_limits",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    plain("kind"),
    plain("company"),
    plain("brand"),
    count("max_running"),
    plain("principal", required=True),
    instant("set_at", required=True),
    UniqueConstraint(
        "kind",
        "company",
        "brand",
        name="running_limits_of_key",
        postgresql_nulls_not_distinct=True,
    ),
    schema="chot",
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    plain("host", required=True),
    count("pid"),
    plain("code_version", required=True),
    Column("kinds", JSONB, nullable=False),
    plain("state", required=True),
    instant("started_at", required=True),
    instant("seen_at", required=True),
    instant("live_until", required=True),
    schema="chot",
)

worker_queues = Table(
    "worker_queues",
    metadata,
    Column(
        "worker_id",
        Text,
        ForeignKey("chot.workers.worker_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("queue", Text, primary_key=True),
    count("slots"),
    count("free_slots"),
    instant("free_since"),
    instant("empty_receive_at"),
    schema="chot",
)

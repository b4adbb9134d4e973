"""Alerts as Core sees them; CHECKs and grants stand in the migrations."""

from sqlalchemy import Column, ForeignKey, Identity, Index, Integer, Table, Text
from sqlalchemy.dialects.postgresql import BIGINT, JSONB, TIMESTAMP, UUID
from sqlalchemy.types import Double

from shared.schema.metadata import metadata

INSTANT = TIMESTAMP(timezone=True)

turns = Table(
    "turns",
    metadata,
    Column("name", Text, primary_key=True),
    Column("at", INSTANT, nullable=False),
    schema="chot",
)

alerts = Table(
    "alerts",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("severity", Text, nullable=False),
    Column("incident", UUID, nullable=False),
    Column("value", Double, nullable=False),
    Column("since", INSTANT, nullable=False),
    Column("fired_at", INSTANT),
    Column("clear_since", INSTANT),
    Column("resolved_at", INSTANT),
    Column("told_at", INSTANT),
    schema="chot",
)

alert_silences = Table(
    "alert_silences",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("until", INSTANT, nullable=False),
    Column("principal", Text, nullable=False),
    Column("reason", Text),
    Column("made_at", INSTANT, nullable=False),
    schema="chot",
)

alert_channels = Table(
    "alert_channels",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("seen_at", INSTANT, nullable=False),
    Column("delivered_at", INSTANT),
    Column("failed_at", INSTANT),
    Column("last_error", Text),
    schema="chot",
)

alert_notices = Table(
    "alert_notices",
    metadata,
    Column(
        "channel",
        Text,
        ForeignKey("chot.alert_channels.channel", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("rule", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("version", BIGINT, nullable=False),
    Column("body", JSONB, nullable=False),
    Column("made_at", INSTANT, nullable=False),
    Column("next_try_at", INSTANT, nullable=False),
    Column("tries", Integer, nullable=False),
    schema="chot",
)

lease_losses = Table(
    "lease_losses",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("at", INSTANT, nullable=False),
    Column("job_id", UUID, nullable=False),
    Index("lease_losses_at_idx", "at"),
    schema="chot",
)

"""What ends of attempts and duplicates are counted in: see migrations 0184 and 0185."""

from sqlalchemy import Boolean, Column, Double, Identity, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT

from shared.schema.metadata import metadata

attempt_ends = Table(
    "attempt_ends",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("taken_over", Boolean, nullable=False),
    Column("queue_seconds", Double),
    Column("run_seconds", Double, nullable=False),
    schema="chot",
)

attempt_totals = Table(
    "attempt_totals",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("attempts", BIGINT, nullable=False),
    Column("taken_over", BIGINT, nullable=False),
    Column("queue_seconds", Double, nullable=False),
    Column("queue_buckets", ARRAY(BIGINT), nullable=False),
    Column("run_seconds", Double, nullable=False),
    Column("run_buckets", ARRAY(BIGINT), nullable=False),
    schema="chot",
)

run_means = Table(
    "run_means",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("seconds", Double, nullable=False),
    Column("weight", Double, nullable=False),
    schema="chot",
)

duplicates = Table(
    "duplicates",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("how", Text, nullable=False),
    schema="chot",
)

duplicate_totals = Table(
    "duplicate_totals",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("how", Text, primary_key=True),
    Column("submits", BIGINT, nullable=False),
    schema="chot",
)

"""Migration runs as Core sees them; CHECKs and grants stand in the migrations."""

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, JSONB, UUID

from shared.schema.columns import INSTANT, big, code, words
from shared.schema.metadata import metadata


def _of_run() -> Column[object]:
    link = ForeignKey("chot.migration_runs.job_id", ondelete="CASCADE")
    return Column("job_id", UUID, link, primary_key=True)


def _number(name: str, *, required: bool = True) -> Column[int]:
    return Column(name, Integer, nullable=not required)


def _instant(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, INSTANT, nullable=not required)


migration_runs = Table(
    "migration_runs",
    metadata,
    Column("job_id", UUID, primary_key=True),
    code("company"),
    code("brand", required=False),
    code("task"),
    _number("version"),
    words("phase"),
    Column("dry_run", Boolean, nullable=False),
    big("fence"),
    Column("upper_bound", ARRAY(Text)),
    Column("cursor_key", ARRAY(Text)),
    big("rows_total", required=False),
    big("rows_done"),
    big("rows_failed"),
    Column("counts", JSONB, nullable=False),
    Column("state", JSONB),
    big("batches"),
    big("failed_tries"),
    _number("batch_size"),
    _number("last_batch_ms", required=False),
    Column("efficiency", Double),
    big("throttles"),
    words("throttle_reason", required=False),
    _instant("throttled_at"),
    Column("check_before", JSONB),
    Column("check_after", JSONB),
    _instant("started_at", required=True),
    _instant("updated_at", required=True),
    _instant("finished_at"),
    schema="chot",
)
Index("migration_runs_company_idx", migration_runs.c.company, migration_runs.c.job_id)

migration_batches = Table(
    "migration_batches",
    metadata,
    _of_run(),
    Column("number", BIGINT, primary_key=True),
    big("fence"),
    _number("size"),
    _number("rows"),
    _number("ms"),
    words("outcome"),
    Column("key_from", ARRAY(Text)),
    Column("key_to", ARRAY(Text)),
    words("error", required=False),
    _instant("at", required=True),
    schema="chot",
)

migration_rejects = Table(
    "migration_rejects",
    metadata,
    _of_run(),
    Column("seq", BIGINT, primary_key=True),
    big("line", required=False),
    Column("key", ARRAY(Text)),
    words("field", required=False),
    words("value", required=False),
    code("code"),
    words("rule"),
    Column("retried", Boolean, nullable=False),
    schema="chot",
)

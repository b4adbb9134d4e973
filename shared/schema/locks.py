"""Business locks as Core sees them: chot.job_locks. Their roots stand in shared.schema.jobs."""

from sqlalchemy import Boolean, Column, Index, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import TIMESTAMP, UUID

from shared.schema.jobs import jobs
from shared.schema.metadata import metadata


def _name(name: str) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=False)


job_locks = Table(
    "job_locks",
    metadata,
    Column("job_id", UUID, primary_key=True),
    Column("n", SmallInteger, primary_key=True),
    _name("root"),
    _name("part"),
    Column("mode", Text, nullable=False),
    _name("period_from"),
    _name("period_to"),
    _name("lane"),
    Column("turn", SmallInteger, nullable=False),
    Column("waiting", Boolean, nullable=False, server_default=text("false")),
    Column("woken_at", TIMESTAMP(timezone=True)),
    schema="chot",
)
Index("job_locks_root_idx", job_locks.c.root, postgresql_where=text("NOT waiting"))
Index(
    "job_locks_part_idx",
    job_locks.c.root,
    job_locks.c.part,
    job_locks.c.mode,
    job_locks.c.turn,
    job_locks.c.job_id,
    postgresql_where=text("waiting"),
)
Index(
    "job_locks_turn_idx",
    job_locks.c.root,
    job_locks.c.mode,
    job_locks.c.turn,
    job_locks.c.job_id,
    postgresql_where=text("waiting AND part >= ''"),
)
Index(
    "job_locks_lane_idx",
    job_locks.c.root,
    job_locks.c.part,
    job_locks.c.lane,
    job_locks.c.turn,
    job_locks.c.job_id,
    postgresql_where=text("waiting AND woken_at IS NULL"),
)
Index(
    "jobs_locking_idx",
    jobs.c.id,
    postgresql_where=text("state = 'running' AND lock_roots IS NOT NULL"),
)

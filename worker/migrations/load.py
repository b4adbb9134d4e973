"""Whether a run may go on now: paused by an operator, outside its window, or the server is busy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.settings import MigrationSettings

# The company's day, as business dates are.
ZONE = "Asia/Ho_Chi_Minh"

IS_PAUSED = text("SELECT paused_at IS NOT NULL FROM chot.jobs WHERE id = :job_id")

# Of a table of partitions each of them counts. `opens_at` is the window's next beginning.
READ_LOAD = text(f"""
    SELECT l.*,
           (SELECT min(CAST(CAST(v.relid AS regclass) AS text))
              FROM pg_stat_progress_vacuum v, unnest(CAST(:tables AS text[])) AS t (name)
             WHERE v.relid = to_regclass(t.name)
                OR v.relid IN (SELECT p.relid FROM pg_partition_tree(to_regclass(t.name)) AS p)
           ) AS vacuumed,
           CASE WHEN w.begins < w.ends THEN w.at::time >= w.begins AND w.at::time < w.ends
                ELSE w.at::time >= w.begins OR w.at::time < w.ends END AS in_window,
           (date_trunc('day', w.at) + w.begins
            + CASE WHEN w.at::time >= w.begins THEN interval '1 day' ELSE interval '0' END)
               AT TIME ZONE '{ZONE}' AS opens_at
      FROM chot.server_load l,
           (SELECT clock_timestamp() AT TIME ZONE '{ZONE}' AS at,
                   CAST(CAST(:begins AS text) AS time) AS begins,
                   CAST(CAST(:ends AS text) AS time) AS ends) AS w""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why the run does not go on now, and when it does (None: after a while)."""

    reason: str
    until: datetime | None = None


async def is_paused(conn: AsyncConnection, job_id: UUID) -> bool:
    """Whether an operator has paused the job since it was claimed."""
    return bool(await conn.scalar(IS_PAUSED, {"job_id": job_id}))


async def find_wait(
    conn: AsyncConnection,
    settings: MigrationSettings,
    tables: Sequence[str],
    window: str | None,
) -> Wait | None:
    """What the run waits for, the first of all reasons; None: it may go on. Needs role app."""
    begins, ends = (None, None) if window is None else window.split("-")
    binds = {"tables": list(tables), "begins": begins, "ends": ends}
    row = (await conn.execute(READ_LOAD, binds)).mappings().one()
    if window is not None and not row["in_window"]:
        return Wait(reason=f"outside its window {window} ({ZONE})", until=row["opens_at"])
    reason = _busy(row, settings)
    return None if reason is None else Wait(reason=reason)


def _busy(row: RowMapping, settings: MigrationSettings) -> str | None:
    """The first thing that is too much, with its numbers and the setting that says so."""
    if row["vacuumed"] is not None:
        return f"{row['vacuumed']} is being vacuumed"
    lag, most_lag = row["replica_lag_seconds"], settings.migration_replica_lag_seconds
    if most_lag and lag is not None and lag > most_lag:
        return f"a replica is {lag:.0f} s behind (CHOT_MIGRATION_REPLICA_LAG_SECONDS={most_lag:g})"
    if row["wal_archive_failed_at"] is not None:
        return "the server cannot archive its WAL (pg_stat_archiver)"
    kept, most_kept = row["wal_kept_bytes"], settings.migration_wal_bytes
    if most_kept and kept is not None and kept > most_kept:
        return f"a replication slot keeps {kept:,} bytes of WAL (CHOT_MIGRATION_WAL_BYTES)"
    return _crowded(row, settings.migration_connections_percent)


def _crowded(row: RowMapping, most: int) -> str | None:
    used: Any = row["connections"]
    if not most or used is None or used * 100 <= row["max_connections"] * most:
        return None
    return (
        f"{used} of {row['max_connections']} connections are in use "
        f"(CHOT_MIGRATION_CONNECTIONS_PERCENT={most})"
    )

"""The row of a migration run, its newest batches and its rejects: every statement that writes them.

All of it is written in the transaction of the batch that it tells of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.json_text import to_json
from worker.migrations.task import Check, Key, Reject

KEPT_BATCHES = 500
# Beyond so many rejects of a run only their number is kept.
KEPT_REJECTS = 100_000
LONGEST = {"field": 200, "value": 500, "code": 100, "rule": 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is, as its row says. `total` is counted or estimated when it begins."""

    phase: str
    batch_size: int
    version: int
    upper: Key | None = None
    cursor: Key | None = None
    total: int | None = None
    done: int = 0
    failed: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    batches: int = 0
    failed_tries: int = 0
    check_before: Mapping[str, Any] | None = None
    check_after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One try of a batch, as an operator reads it."""

    size: int
    rows: int
    ms: int
    outcome: str
    key_from: Key | None
    key_to: Key | None
    error: str | None = None


READ_RUN = text("SELECT * FROM chot.migration_runs WHERE job_id = :job_id")


async def read_standing(conn: AsyncConnection, job_id: UUID) -> Standing | None:
    """How far the job's run is; None before it has begun."""
    row = (await conn.execute(READ_RUN, {"job_id": job_id})).mappings().one_or_none()
    return None if row is None else _standing(row)


def _standing(row: RowMapping) -> Standing:
    return Standing(
        phase=row["phase"],
        batch_size=row["batch_size"],
        version=row["version"],
        upper=_key(row["upper_bound"]),
        cursor=_key(row["cursor_key"]),
        total=row["rows_total"],
        done=row["rows_done"],
        failed=row["rows_failed"],
        counts=row["counts"],
        state=row["state"],
        batches=row["batches"],
        failed_tries=row["failed_tries"],
        check_before=row["check_before"],
        check_after=row["check_after"],
    )


def _key(found: Sequence[str] | None) -> Key | None:
    return None if found is None else tuple(found)


BEGIN_RUN = text("""
    INSERT INTO chot.migration_runs (job_id, company, brand, task, version, dry_run, fence,
                                     batch_size, check_before)
    VALUES (:job_id, :company, CAST(:brand AS text), :task, :version, :dry_run, :fence,
            :batch_size, CAST(:check_before AS jsonb))""")


async def begin_run(conn: AsyncConnection, **facts: Any) -> None:
    """Write the run's row: job_id, company, brand, task, version, dry_run, fence, batch_size,
    check_before.
    """
    before = check_of(facts["check_before"])
    stored = None if before is None else to_json(before)
    await conn.execute(BEGIN_RUN, facts | {"check_before": stored})


def check_of(check: Check | None) -> dict[str, Any] | None:
    """A check as it is stored and shown."""
    if check is None:
        return None
    return {"facts": dict(check.facts), "problems": list(check.problems)}


SET_STATE = text("""
    UPDATE chot.migration_runs
       SET state = CAST(:state AS jsonb), updated_at = clock_timestamp() WHERE job_id = :job_id""")


async def save_state(conn: AsyncConnection, job_id: UUID, state: Mapping[str, Any]) -> None:
    """Keep what prepare() wants to find again."""
    await conn.execute(SET_STATE, {"job_id": job_id, "state": to_json(dict(state))})


SET_BOUNDS = text("""
    UPDATE chot.migration_runs
       SET phase = 'running', upper_bound = CAST(:upper AS text[]), fence = :fence,
           rows_total = rows_done + :total, updated_at = clock_timestamp()
     WHERE job_id = :job_id AND phase = 'preparing'
    RETURNING rows_total""")


async def set_bounds(
    conn: AsyncConnection, job_id: UUID, *, fence: int, upper: Key | None, total: int
) -> int:
    """The run's rows are those up to `upper`; how many there are with those of prepare()."""
    upper_list = None if upper is None else list(upper)
    binds = {"job_id": job_id, "fence": fence, "upper": upper_list, "total": total}
    return int((await conn.execute(SET_BOUNDS, binds)).scalar_one())


# Whoever finds another cursor than it has read is not who may move it.
ADVANCE = text("""
    UPDATE chot.migration_runs
       SET cursor_key = CAST(:key AS text[]), fence = :fence, rows_done = rows_done + :rows,
           rows_failed = rows_failed + :failed, counts = CAST(:counts AS jsonb),
           batches = batches + 1, failed_tries = failed_tries + :failed_tries,
           batch_size = :batch_size, last_batch_ms = :ms, efficiency = :efficiency,
           throttle_reason = NULL, updated_at = clock_timestamp()
     WHERE job_id = :job_id AND cursor_key IS NOT DISTINCT FROM CAST(:before AS text[])
    RETURNING batches""")


async def advance(conn: AsyncConnection, job_id: UUID, **facts: Any) -> None:
    """Move the cursor from `before` to `key` and add up what the batch was."""
    binds = facts | {"job_id": job_id, "counts": to_json(dict(facts["counts"]))}
    moved = (await conn.execute(ADVANCE, binds)).all()
    assert len(moved) == 1, "the cursor is moved under the job's fence alone"


NOTE_WAIT = text("""
    UPDATE chot.migration_runs
       SET throttle_reason = left(CAST(:reason AS text), 1000), throttles = throttles + 1,
           throttled_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE job_id = :job_id""")


async def note_wait(conn: AsyncConnection, job_id: UUID, reason: str) -> None:
    """Say what the run waits for."""
    await conn.execute(NOTE_WAIT, {"job_id": job_id, "reason": reason})


ADD_BATCHES = text(f"""
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:tries AS jsonb)) AS t (
            size integer, rows integer, ms integer, outcome text, key_from text[], key_to text[],
            error text)),
    numbered AS (
        SELECT g.*, row_number() OVER () + coalesce((SELECT max(b.number)
                 FROM chot.migration_batches b WHERE b.job_id = :job_id), 0) AS number
          FROM given g),
    pruned AS (
        DELETE FROM chot.migration_batches
         WHERE job_id = :job_id
           AND number <= (SELECT max(number) FROM numbered) - {KEPT_BATCHES})
    INSERT INTO chot.migration_batches (job_id, number, fence, size, rows, ms, outcome, key_from,
                                        key_to, error)
    SELECT :job_id, number, :fence, size, rows, ms, outcome, key_from, key_to, left(error, 500)
      FROM numbered""")


async def add_batches(
    conn: AsyncConnection, job_id: UUID, fence: int, tries: Sequence[Tried]
) -> None:
    """Keep the tries of a batch, failed ones too; of a run the newest only."""
    told = [
        {
            "size": each.size,
            "rows": each.rows,
            "ms": each.ms,
            "outcome": each.outcome,
            "key_from": each.key_from,
            "key_to": each.key_to,
            "error": each.error,
        }
        for each in tries
    ]
    await conn.execute(ADD_BATCHES, {"job_id": job_id, "fence": fence, "tries": to_json(told)})


ADD_REJECTS = text(f"""
    WITH kept AS (
        SELECT coalesce(max(r.seq), 0) AS seq FROM chot.migration_rejects r
         WHERE r.job_id = :job_id)
    INSERT INTO chot.migration_rejects (job_id, seq, line, key, field, value, code, rule)
    SELECT :job_id, kept.seq + t.n, t.line, t.key, t.field, t.value, t.code, t.rule
      FROM kept,
           ROWS FROM (jsonb_to_recordset(CAST(:rejects AS jsonb)) AS (
               line bigint, key text[], field text, value text, code text, rule text))
           WITH ORDINALITY AS t (line, key, field, value, code, rule, n)
     WHERE kept.seq + t.n <= {KEPT_REJECTS}""")


async def add_rejects(conn: AsyncConnection, job_id: UUID, rejects: Sequence[Reject]) -> None:
    """Keep what was not taken, and why."""
    told = [
        {
            "line": each.line,
            "key": each.key,
            **{name: _cut(getattr(each, name), most) for name, most in LONGEST.items()},
        }
        for each in rejects
    ]
    await conn.execute(ADD_REJECTS, {"job_id": job_id, "rejects": to_json(told)})


def failed_rows(rejects: Sequence[Reject]) -> int:
    """How many rows these are of: one row may be refused for more than one reason."""
    keys = [each.key for each in rejects if each.key is not None]
    return len(set(keys)) + len(rejects) - len(keys)


def _cut(words: str | None, most: int) -> str | None:
    """As jsonb and the column can hold it."""
    if words is None:
        return None
    clean = words.replace("\0", "\\0").encode("utf-8", "replace").decode()
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


COUNT_REJECTED = text("""
    UPDATE chot.migration_runs
       SET rows_done = rows_done + :rows, rows_failed = rows_failed + :rows,
           updated_at = clock_timestamp()
     WHERE job_id = :job_id AND phase = 'preparing'
    RETURNING rows_failed""")


async def reject_unprepared(conn: AsyncConnection, job_id: UUID, rejects: Sequence[Reject]) -> int:
    """Keep rows that prepare() could not take; how many there are now."""
    binds = {"job_id": job_id, "rows": failed_rows(rejects)}
    failed = int((await conn.execute(COUNT_REJECTED, binds)).scalar_one())
    await add_rejects(conn, job_id, rejects)
    return failed


BEGIN_RETRY = text("""
    WITH anew AS (
        UPDATE chot.migration_rejects SET retried = false WHERE job_id = :job_id AND retried)
    UPDATE chot.migration_runs SET phase = 'retrying', updated_at = clock_timestamp()
     WHERE job_id = :job_id""")
NEXT_REJECT = text("""
    SELECT key FROM chot.migration_rejects
     WHERE job_id = :job_id AND NOT retried AND key IS NOT NULL ORDER BY seq LIMIT 1""")
# The row is done now, or it is not there any more.
DROP_REJECT = text("""
    WITH gone AS (
        DELETE FROM chot.migration_rejects
         WHERE job_id = :job_id AND key = CAST(:key AS text[]) RETURNING 1)
    UPDATE chot.migration_runs
       SET rows_failed = rows_failed - 1, counts = CAST(:counts AS jsonb),
           updated_at = clock_timestamp()
     WHERE job_id = :job_id AND EXISTS (SELECT FROM gone)
    RETURNING rows_failed""")
KEEP_REJECT = text("""
    UPDATE chot.migration_rejects
       SET retried = true, code = :code, rule = :rule
     WHERE job_id = :job_id AND key = CAST(:key AS text[])
    RETURNING seq""")
END_RETRY = text("""
    UPDATE chot.migration_runs SET phase = 'running', updated_at = clock_timestamp()
     WHERE job_id = :job_id""")


async def begin_retry(conn: AsyncConnection, job_id: UUID) -> None:
    """The rows that were set aside are to be tried again, each once."""
    await conn.execute(BEGIN_RETRY, {"job_id": job_id})


async def next_reject(conn: AsyncConnection, job_id: UUID) -> Key | None:
    """The key of the first row that is to be tried again; None: there is none left."""
    return _key(await conn.scalar(NEXT_REJECT, {"job_id": job_id}))


async def drop_reject(
    conn: AsyncConnection, job_id: UUID, key: Key, counts: Mapping[str, int]
) -> int:
    """The row is done after all; how many are still set aside."""
    binds = {"job_id": job_id, "key": list(key), "counts": to_json(dict(counts))}
    return int((await conn.execute(DROP_REJECT, binds)).scalar_one())


async def keep_reject(conn: AsyncConnection, job_id: UUID, key: Key, reject: Reject) -> None:
    """The row fails again, perhaps for another reason."""
    binds = {
        "job_id": job_id,
        "key": list(key),
        "code": _cut(reject.code, LONGEST["code"]),
        "rule": _cut(reject.rule, LONGEST["rule"]),
    }
    assert (await conn.execute(KEEP_REJECT, binds)).all(), "it was found a moment ago"


async def end_retry(conn: AsyncConnection, job_id: UUID) -> None:
    """All have been tried; the run goes on behind its cursor."""
    await conn.execute(END_RETRY, {"job_id": job_id})


END_PHASE = text("""
    UPDATE chot.migration_runs
       SET phase = :phase, check_after = CAST(:check AS jsonb), throttle_reason = NULL,
           updated_at = clock_timestamp()
     WHERE job_id = :job_id""")
END_RUN = text("""
    UPDATE chot.migration_runs SET phase = 'done', finished_at = clock_timestamp()
     WHERE job_id = :job_id""")


async def end_phase(
    conn: AsyncConnection,
    job_id: UUID,
    check: Mapping[str, Any] | None,
    *,
    phase: str = "finishing",
) -> None:
    """The batches are over (`finishing`), or what was prepared is gone (`over`)."""
    stored = None if check is None else to_json(dict(check))
    await conn.execute(END_PHASE, {"job_id": job_id, "phase": phase, "check": stored})


async def end_run(conn: AsyncConnection, job_id: UUID) -> None:
    """The run is done."""
    await conn.execute(END_RUN, {"job_id": job_id})


FORGET_REJECTS = text("DELETE FROM chot.migration_rejects WHERE job_id = :job_id")
BEGIN_AGAIN = text("""
    UPDATE chot.migration_runs
       SET phase = 'preparing', upper_bound = NULL, cursor_key = NULL, rows_total = NULL,
           rows_done = 0, rows_failed = 0, counts = '{}', state = NULL, check_after = NULL,
           updated_at = clock_timestamp()
     WHERE job_id = :job_id""")


async def begin_again(conn: AsyncConnection, job_id: UUID) -> None:
    """A redriven run whose prepared rows are gone begins anew; its rejects are to be found anew."""
    await conn.execute(FORGET_REJECTS, {"job_id": job_id})
    await conn.execute(BEGIN_AGAIN, {"job_id": job_id})


FIRST_REJECTS = text("""
    SELECT seq, line, key, field, value, code, rule FROM chot.migration_rejects
     WHERE job_id = :job_id ORDER BY seq LIMIT :most""")


async def first_rejects(conn: AsyncConnection, job_id: UUID, most: int) -> list[dict[str, Any]]:
    """The first rejects, as a result or an error shows them."""
    rows = await conn.execute(FIRST_REJECTS, {"job_id": job_id, "most": most})
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.mappings().all()
    ]

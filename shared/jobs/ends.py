"""Ends of attempts and duplicates, added up: what is counted whichever process did it.

Triggers write a row an end and a row a duplicate (migrations 0184, 0185); maintenance moves them
into totals. Sums of totals and rows not yet added up are read in one statement (counts.py).
"""

from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

ENDS = 5000
# Seconds: what people wait for, and what long work takes. The same for waiting and for running.
BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)
# A mean forgets half of what it was in so many attempts; MEAN_WEIGHT is what they weigh for ever.
HALF_LIFE = 50
MEAN_WEIGHT = 1 / (1 - 0.5 ** (1 / HALF_LIFE))


def _buckets(seconds: str) -> str:
    """How many are at most each bound, as an array; the last one is of all that are known."""
    bounds = [f"count(*) FILTER (WHERE {seconds} <= {bound:g})" for bound in BUCKETS]
    return f"ARRAY[{', '.join(bounds)}, count({seconds})]"


def _added(old: str, new: str) -> str:
    """Two arrays of buckets, element by element."""
    places = range(1, len(BUCKETS) + 2)
    return f"ARRAY[{', '.join(f'{old}[{n}] + {new}[{n}]' for n in places)}]"


def _summed(column: str) -> str:
    places = range(1, len(BUCKETS) + 2)
    return f"ARRAY[{', '.join(f'sum({column}[{n}])::bigint' for n in places)}]"


def _totals(rows: str) -> str:
    return f"""
        SELECT kind, outcome, count(*) AS attempts,
               count(*) FILTER (WHERE taken_over) AS taken_over,
               coalesce(sum(queue_seconds), 0) AS queue_seconds,
               {_buckets("queue_seconds")} AS queue_buckets,
               sum(run_seconds) AS run_seconds, {_buckets("run_seconds")} AS run_buckets
          FROM {rows} GROUP BY kind, outcome"""


# A row for each kind and outcome.
READ_ENDS = f"""
    SELECT kind, outcome, sum(attempts)::bigint AS attempts, sum(taken_over)::bigint AS taken_over,
           sum(queue_seconds) AS queue_seconds, {_summed("queue_buckets")} AS queue_buckets,
           sum(run_seconds) AS run_seconds, {_summed("run_buckets")} AS run_buckets
      FROM (SELECT * FROM chot.attempt_totals
            UNION ALL {_totals("chot.attempt_ends")}) AS each GROUP BY kind, outcome"""
# A lease that ran out says how long nobody noticed, not how long an attempt takes.
COUNTS_IN_MEAN = "outcome <> 'lost_lease'"
# The mean of a kind's last attempts in seconds: what is not yet added up counts in full.
READ_MEANS = f"""
    SELECT kind, sum(seconds) / sum(weight) AS seconds
      FROM (SELECT kind, seconds, weight FROM chot.run_means
            UNION ALL SELECT kind, sum(run_seconds), count(*) FROM chot.attempt_ends
                       WHERE {COUNTS_IN_MEAN} GROUP BY kind) AS each GROUP BY kind"""
READ_DUPLICATES = """
    SELECT kind, how, sum(submits)::bigint AS submits
      FROM (SELECT kind, how, submits FROM chot.duplicate_totals
            UNION ALL SELECT kind, how, count(*) FROM chot.duplicates GROUP BY kind, how) AS each
     GROUP BY kind, how"""


def _gone(table: str, columns: str) -> str:
    """The next rows, deleted. Whoever comes second has nothing to do; rows of a transaction under
    way are not seen yet and stay.
    """
    return f"""
    turn AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(hashtextextended('chot {table}', 0)) AS ours),
    gone AS (
        DELETE FROM chot.{table} WHERE id IN (
            SELECT id FROM chot.{table} WHERE (SELECT ours FROM turn) ORDER BY id LIMIT :most)
        RETURNING {columns})"""


_KEPT = f"(1 - excluded.weight / {MEAN_WEIGHT})"
ADD_UP_ENDS = text(f"""
    WITH {_gone("attempt_ends", "kind, outcome, taken_over, queue_seconds, run_seconds")},
    added AS (
        INSERT INTO chot.attempt_totals AS t (kind, outcome, attempts, taken_over, queue_seconds,
                                              queue_buckets, run_seconds, run_buckets)
        {_totals("gone")} ORDER BY kind, outcome
        ON CONFLICT (kind, outcome) DO UPDATE
           SET attempts = t.attempts + excluded.attempts,
               taken_over = t.taken_over + excluded.taken_over,
               queue_seconds = t.queue_seconds + excluded.queue_seconds,
               queue_buckets = {_added("t.queue_buckets", "excluded.queue_buckets")},
               run_seconds = t.run_seconds + excluded.run_seconds,
               run_buckets = {_added("t.run_buckets", "excluded.run_buckets")}),
    meant AS (
        INSERT INTO chot.run_means AS m (kind, seconds, weight)
        SELECT kind, seconds * weight, weight
          FROM (SELECT kind, avg(run_seconds) AS seconds,
                       (1 - power(0.5, count(*) / {HALF_LIFE}.0)) * {MEAN_WEIGHT} AS weight
                  FROM gone WHERE {COUNTS_IN_MEAN} GROUP BY kind) AS fresh ORDER BY kind
        ON CONFLICT (kind) DO UPDATE
           SET seconds = m.seconds * {_KEPT} + excluded.seconds,
               weight = m.weight * {_KEPT} + excluded.weight)
    SELECT count(*) FROM gone""")
ADD_UP_DUPLICATES = text(f"""
    WITH {_gone("duplicates", "kind, how")},
    added AS (
        INSERT INTO chot.duplicate_totals AS t (kind, how, submits)
        SELECT kind, how, count(*) FROM gone GROUP BY kind, how ORDER BY kind, how
        ON CONFLICT (kind, how) DO UPDATE SET submits = t.submits + excluded.submits)
    SELECT count(*) FROM gone""")


async def add_up_ends(conn: AsyncConnection, *, most: int = ENDS) -> int:
    """Move up to `most` ends of attempts into the totals; answers how many. In autocommit."""
    return await _add_up(conn, ADD_UP_ENDS, most)


async def add_up_duplicates(conn: AsyncConnection, *, most: int = ENDS) -> int:
    """The same for duplicates."""
    return await _add_up(conn, ADD_UP_DUPLICATES, most)


async def _add_up(conn: AsyncConnection, statement: TextClause, most: int) -> int:
    found: Any = await conn.scalar(statement, {"most": most})
    return int(found or 0)

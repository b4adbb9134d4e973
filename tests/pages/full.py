"""A database as on a bad day: 100,000 jobs, 10,000 dead ones of many causes; and who looks at it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from sqlalchemy import Engine, event

from tests.scenarios.many import load
from tests.services import Database

JOBS, PENDING, DEAD, MESSAGES, ATTEMPTS = 80_000, 20_000, 10_000, 2_000, 2_000
TABLES = ("jobs", "job_payloads", "job_outputs", "attempts", "outbox")

# Every eighth of those that ended is dead, with words that differ from job to job; some are long,
# some are markup. One has as many attempts as an operator's patience.
DYING = (
    """CREATE TEMP TABLE dying AS
       SELECT id, row_number() OVER (ORDER BY id DESC) AS n FROM chot.jobs
        WHERE state IN ('succeeded', 'cancelled') ORDER BY id DESC LIMIT $1""",
    "ALTER TABLE dying ADD PRIMARY KEY (id)",
    """UPDATE chot.jobs j SET state = 'dead', attempt = 5,
              fence = CASE WHEN n = 1 THEN {attempts} ELSE 5 END FROM dying d WHERE j.id = d.id""",
    """UPDATE chot.job_outputs o SET result = NULL, error = jsonb_build_object(
              'type', 'PermanentError', 'code', 'E' || n % 40,
              'message', 'lô ' || n || ' <b>of</b> ' || repeat('word ', (n % 7)::int) || n
                         || CASE WHEN n % 97 = 0 THEN repeat(' and so on', 1000) ELSE '' END,
              'details', jsonb_build_object('n', n))
         FROM dying d WHERE o.job_id = d.id""",
    "UPDATE chot.attempts a SET outcome = 'failed' FROM dying d WHERE a.job_id = d.id",
    """INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
              started_at, ended_at, outcome, claimed_checkpoint_no, checkpoint_no, error)
       SELECT d.id, f, f, 'w', gen_random_uuid(), 'test', clock_timestamp() - interval '1 hour',
              clock_timestamp() - interval '59 minutes', 'failed', 0, 0,
              jsonb_build_object('type', 'RetryableError', 'message', repeat('again ', 2500))
         FROM dying d, generate_series(2, {attempts}) AS f WHERE d.n = 1""",
)
RAW = """
    INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason, receive_count)
    SELECT 'default', n::text, convert_to(repeat('<script>' || n, 12000), 'UTF8'), '{}',
           'not json ' || n, 3 FROM generate_series(1, $1::int) AS n"""


async def fill(database: Database) -> None:
    """Load it all; ACME, its kinds and queues are there already."""
    await load(database, finished=JOBS, pending=PENDING)
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute("SET session_replication_role = replica")
        for statement in DYING:
            binds = [DEAD] if "$1" in statement else []
            await connection.execute(statement.replace("{attempts}", str(ATTEMPTS)), *binds)
        await connection.execute(RAW, MESSAGES)
        for table in (*TABLES, "dead_messages"):
            await connection.execute(f"VACUUM (ANALYZE) chot.{table}")
    finally:
        await connection.close()


@dataclass(slots=True)
class Heard:
    """Statements that were sent to a database, with what was bound."""

    asked: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def hear(self, *given: Any) -> None:
        """As SQLAlchemy tells it: connection, cursor, statement, parameters."""
        self.asked.append((given[2], tuple(given[3])))

    @property
    def queries(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Those that read tables."""
        return [each for each in self.asked if re.search(r"\b(FROM|UPDATE) chot\.", each[0])]


@contextmanager
def hearing() -> Iterator[Heard]:
    """What all engines of this process are asked while the block runs."""
    heard = Heard()
    event.listen(Engine, "before_cursor_execute", heard.hear)
    try:
        yield heard
    finally:
        event.remove(Engine, "before_cursor_execute", heard.hear)


async def read_whole(
    connection: asyncpg.Connection, query: str, binds: tuple[Any, ...]
) -> set[str]:
    """Tables that grow which the query's plan reads from one end to the other."""
    plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *binds)
    return set(_scans(json.loads(plan)[0]["Plan"]))


def _scans(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in TABLES:
        yield node["Relation Name"]
    for part in node.get("Plans", ()):
        yield from _scans(part)

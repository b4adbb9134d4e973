"""What is counted, not timed: statements, commits, WAL without full-page images, calls to SQS.

Counts are of the platform's own database and of the roles it runs as; the bench looks at them from
another database, as superuser.
"""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import asyncpg

from bench.place import Platform
from bench.running import BenchFailed
from dev.postgres_install import embedded_bin

ENDS = re.compile(r"^\s*(begin|commit|rollback|start transaction|end|abort)\b", re.IGNORECASE)
# By role: what triggers and functions do is in the statement that a process has sent.
STATEMENTS = """
    SELECT s.query, sum(s.calls)::bigint AS calls, sum(s.wal_bytes)::bigint AS wal,
           sum(s.total_exec_time)::float AS ms
      FROM pg_stat_statements s
      JOIN pg_database d ON d.oid = s.dbid AND d.datname = $1
      JOIN pg_roles r ON r.oid = s.userid AND r.rolname IN ('chot_app', 'chot_read')
     GROUP BY s.query"""
# A backend tells its counts when it has been idle for ten seconds, or ends.
STATISTICS_SECONDS = 11.0
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1"
UPDATES = """
    SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot
      FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2"""
SQS_LINE = re.compile(r'^chot_sqs_calls(?:_total)?\{operation="(\w+)",result="\w+"\} ([0-9.e+]+)$')


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement's share of what was counted."""

    query: str
    calls: int
    wal: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What processes did between two looks. `ends` are BEGIN, COMMIT and ROLLBACK as statements.

    `wal` is in bytes and without full-page images; `wal_commits` are commits that wrote.
    """

    statements: list[Statement]
    ends: int
    commits: int
    wal: int
    wal_commits: int

    @property
    def calls(self) -> int:
        """Statements, without those that only begin or end a transaction."""
        return sum(each.calls for each in self.statements)

    def profile(self, per: int, most: int = 25) -> list[dict[str, Any]]:
        """The statements by calls, each divided by `per` jobs: where to look."""
        return [
            {
                "query": " ".join(each.query.split())[:160],
                "calls": round(each.calls / per, 4),
                "wal_bytes": round(each.wal / per, 1),
                "ms": round(each.ms / per, 4),
            }
            for each in sorted(self.statements, key=lambda one: -one.calls)[:most]
        ]


class Counter:
    """Counts what the platform's processes do from `begin` to `end`."""

    def __init__(self, platform: Platform, looking: asyncpg.Connection) -> None:
        self._platform = platform
        self._looking = looking
        self._calls: Mapping[str, Statement] = {}
        self._commits = self._looks = 0
        self._began_at = ""

    async def settle(self) -> None:
        """Wait until idle backends have told what they have committed so far."""
        await asyncio.sleep(STATISTICS_SECONDS)

    async def begin(self) -> None:
        """From here on."""
        self._commits = await self._looking.fetchval(COMMITS, self._name)
        self._looks = self._platform.looks
        self._calls = await self._statements()
        self._began_at = await self._position()

    async def end(self, *, settle: bool = True) -> Counted:
        """Until here; commits are whole with `settle` only."""
        position = await self._position()
        now = await self._statements()
        if settle:
            await self.settle()
        commits = await self._looking.fetchval(COMMITS, self._name)
        statements = [each for query in now if (each := self._since(now[query])).calls]
        wal, wal_commits = self._wal(position)
        return Counted(
            statements=[each for each in statements if not ENDS.match(each.query)],
            ends=sum(each.calls for each in statements if ENDS.match(each.query)),
            commits=commits - self._commits - (self._platform.looks - self._looks),
            wal=wal,
            wal_commits=wal_commits,
        )

    @property
    def _name(self) -> str:
        return self._platform.database.name

    def _since(self, now: Statement) -> Statement:
        before = self._calls.get(now.query)
        if before is None:
            return now
        return Statement(
            now.query, now.calls - before.calls, now.wal - before.wal, now.ms - before.ms
        )

    async def _statements(self) -> dict[str, Statement]:
        rows = await self._looking.fetch(STATEMENTS, self._name)
        return {row["query"]: Statement(*row) for row in rows}

    async def _position(self) -> str:
        # Inserted, not written: commits that nobody waited for count, too.
        return str(await self._looking.fetchval("SELECT pg_current_wal_insert_lsn()::text"))

    def _wal(self, until: str) -> tuple[int, int]:
        return read_wal(str(self._platform.place.postgres.data), self._began_at, until)


def read_wal(data: str, start: str, end: str) -> tuple[int, int]:
    """Bytes of all records between two positions without full-page images, and the commits."""
    if start == end:
        return 0, 0
    argv = [str(embedded_bin() / "pg_waldump"), "--stats=record", "-p", f"{data}/pg_wal"]
    done = subprocess.run(
        [*argv, "-s", start, "-e", end], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode != 0:
        raise BenchFailed(f"pg_waldump: {done.stderr[-500:]}")
    return parse_wal(done.stdout)


def parse_wal(told: str) -> tuple[int, int]:
    """The sum of "Record size", and how many records are commits, of pg_waldump's table."""
    size = commits = 0
    for line in told.splitlines():
        name, _, rest = line.partition("  ")
        numbers = re.findall(r"(\d+) \(", rest)
        if not numbers or name.startswith("Total"):
            continue
        size += int(numbers[1])
        if name.startswith("Transaction/COMMIT"):
            commits += int(numbers[0])
    return size, commits


@asynccontextmanager
async def open_counter(platform: Platform, *, vacuums: bool = True) -> AsyncIterator[Counter]:
    """A counter that looks from outside.

    Without `vacuums` autovacuum rests: its WAL and commits are not the jobs'.
    """
    looking = await asyncpg.connect(platform.place.postgres.url())
    try:
        await looking.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await _set_autovacuum(looking, on=vacuums)
        yield Counter(platform, looking)
    finally:
        await _set_autovacuum(looking, on=True)
        await looking.close()


async def _set_autovacuum(looking: asyncpg.Connection, *, on: bool) -> None:
    await looking.execute(f"ALTER SYSTEM SET autovacuum = {'on' if on else 'off'}")
    await looking.execute("SELECT pg_reload_conf()")


async def hot_updates(platform: Platform, schema: str, table: str) -> tuple[int, int]:
    """Updates of a table so far, and how many of them touched no index."""
    row = await platform.superuser.fetchrow(UPDATES, schema, table)
    return int(row["updates"]), int(row["hot"])


def sqs_calls(port: int, key: str = "") -> dict[str, int]:
    """Calls to SQS that a process has made so far, by operation: from its own /metrics."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchFailed(f"/metrics answers {answer.status}")
        return parse_calls(answer.read().decode())
    finally:
        connection.close()


def parse_calls(told: str) -> dict[str, int]:
    """The series of calls by operation, of Prometheus' text."""
    calls: dict[str, int] = {}
    for line in told.splitlines():
        found = SQS_LINE.match(line)
        if found is not None:
            calls[found[1]] = calls.get(found[1], 0) + round(float(found[2]))
    return calls

"""Poolers: whether PgBouncer, RDS Proxy or the like stands in the way, and what it breaks.

Found by behaviour, whoever it is: a pooler hands out a process id of its own for cancel requests.
Whether it pools by transaction shows when two clients get the same server, and whether prepared
statements survive that by preparing some.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy.engine import make_url

from shared.doctor.finding import Finding

CONNECT_SECONDS = 5.0
ROUNDS = 4
RDS_PROXY = ".proxy-"
LOST_STATEMENT = (
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
    asyncpg.ProtocolViolationError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """What stands between us and the server behind one address."""

    pooler: bool
    by_transaction: bool
    keeps_statements: bool
    rds_proxy: bool


async def look(url: str) -> Pooling:
    """Connect twice and see; raises the driver's errors when nobody can be reached."""
    plain = plain_url(url)
    async with AsyncExitStack() as stack:
        first, second = [await _connect(stack, plain) for _ in range(2)]
        pooler = await _is_pooled(first)
        if not pooler:
            return Pooling(
                pooler=False, by_transaction=False, keeps_statements=True, rds_proxy=False
            )
        return Pooling(
            pooler=True,
            by_transaction=await _shares(first, second),
            keeps_statements=await _keeps_statements(stack, plain),
            rds_proxy=RDS_PROXY in (make_url(plain).host or ""),
        )


def plain_url(url: str) -> str:
    """The URL as asyncpg itself takes it."""
    parsed = make_url(url).set(drivername="postgresql")
    return parsed.difference_update_query(["prepared_statement_cache_size"]).render_as_string(
        hide_password=False
    )


async def _connect(stack: AsyncExitStack, url: str, *, cache: int = 0) -> Any:
    made = await asyncpg.connect(url, timeout=CONNECT_SECONDS, statement_cache_size=cache)
    stack.push_async_callback(_close, made)
    return made


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=1)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


PID = "SELECT pg_backend_pid()"


async def _pid(connection: Any) -> int:
    """By the simple protocol: it prepares nothing that a pooler could lose."""
    rows = await connection.fetch(PID)
    return int(rows[0][0])


async def _is_pooled(connection: Any) -> bool:
    own: int = connection.get_server_pid()
    return await _pid(connection) != own


async def _shares(first: Any, second: Any) -> bool:
    """Whether the second client gets the first one's server while that is connected and idle."""
    for _ in range(ROUNDS):
        mine = await _pid(first)
        async with second.transaction():
            theirs = await _pid(second)
            if mine == theirs or await _pid(first) != mine:
                return True
    return False


async def _keeps_statements(stack: AsyncExitStack, url: str) -> bool:
    """Whether what two clients prepare is there in later transactions, on whichever server."""
    clients = [await _connect(stack, url, cache=100) for _ in range(2)]
    try:
        for number in range(ROUNDS):
            for each in clients:
                async with each.transaction():
                    await each.fetchval(f"SELECT {number % 2}")
            # Both at once, so that each gets another server than before where servers are shared.
            async with clients[number % 2].transaction():
                await clients[number % 2].fetchval(f"SELECT {number % 2}")
                await clients[1 - number % 2].fetchval(f"SELECT {number % 2}")
    except LOST_STATEMENT:
        return False
    return True


async def check_pooler(url: str, variable: str) -> list[Finding]:
    """What the address in this setting goes through, and what of it does harm."""
    async with asyncio.timeout(4 * CONNECT_SECONDS):
        pooling = await look(url)
    if not pooling.pooler:
        return []
    who = "RDS Proxy" if pooling.rds_proxy else "a pooler such as PgBouncer"
    found = []
    if not pooling.keeps_statements:
        found.append(
            Finding(
                code="pooler-statements",
                severity="critical",
                seen=f"{variable} goes through {who} that loses prepared statements",
                why="a statement prepared on one server is executed on another: requests, claims "
                "and heartbeats fail at random",
                remedy=(
                    "pgbouncer.ini: max_prepared_statements = 200   # PgBouncer 1.21 or newer",
                    "pgbouncer.ini: pool_mode = session             # older ones",
                    f"export {variable}=…   # the server's own address, port 5432",
                ),
            )
        )
    if pooling.by_transaction and variable == "CHOT_MIGRATE_DATABASE_URL":
        found.append(
            Finding(
                code="pooler-migrate",
                severity="critical",
                seen=f"{variable} goes through {who} that pools by transaction",
                why="`chot migrate` takes its turn by a lock of its session: two could run at once",
                remedy=(f"export {variable}=…   # the server's own address, port 5432",),
            )
        )
    if not found:
        mode = "transaction" if pooling.by_transaction else "session"
        found.append(
            Finding(
                code="pooler",
                severity="note",
                seen=f"{variable} goes through {who}, by {mode}",
                why="it works, but its pool has to hold all of ours, and a worker whose heartbeat "
                "waits for a place in it loses its leases",
                remedy=(f"export {variable}=…   # for workers: the server's own address",),
            )
        )
    return found

"""Plans at any size: which indexes what runs all the time goes by, and what it reads.

A plan may choose another join for another size; what must not change is how it comes to the rows of
the tables that grow. So what is compared is that: tables read from one end to the other, and the
indexes of the others.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.access import EVERYTHING
from shared.database import find_by_index
from shared.jobs.causes import list_causes
from shared.jobs.counts import read_counts
from shared.jobs.dead_letters import list_dead_jobs
from shared.jobs.kinds import list_kinds
from shared.jobs.minutes import read_history, read_rates, sample_minute
from shared.jobs.queues import list_queues, list_workers
from shared.jobs.read import show_job
from shared.jobs.why import explain_job
from tests.architecture.test_plans import FILL, LARGE, MAY_SCAN, STATEMENTS, TABLES, nodes

Read = Callable[[AsyncConnection, Any], Awaitable[object]]
# What people and programs look at; each gets a connection and the id of a job that waits.
READS: Mapping[str, Read] = {
    "one job": show_job,
    "why": lambda conn, job_id: explain_job(conn, job_id, EVERYTHING),
    "counts and troubles": lambda conn, _: read_counts(conn),
    "causes of death": lambda conn, _: list_causes(conn),
    "dead jobs": lambda conn, _: list_dead_jobs(conn, kind=None, before=None, limit=50),
    "queues": lambda conn, _: list_queues(conn),
    "workers": lambda conn, _: list_workers(conn),
    "kinds": lambda conn, _: list_kinds(conn),
    "history": lambda conn, _: read_history(conn, step=300, steps=12),
    "rates": lambda conn, _: read_rates(conn),
    "the minute's sample": lambda conn, _: sample_minute(conn),
}

# By its key a row is found at any size.
KEYED = {"jobs_pkey", "job_payloads_pkey", "job_outputs_pkey", "attempts_pkey", "outbox_pkey"}


async def fill_small(engine: AsyncEngine) -> None:
    """Fifty thousand jobs, as the plan tests have them; `engine` is the owner's."""
    async with engine.begin() as conn:
        for statement in FILL:
            await conn.execute(text(statement))
        await conn.execute(text(f"ANALYZE {', '.join(f'chot.{name}' for name in TABLES)}"))


async def ways(engine: AsyncEngine) -> dict[str, list[str]]:
    """For each statement of the protocol, how it comes to the rows of tables that grow."""
    found = {}
    for name, (statement, binds) in STATEMENTS.items():
        async with engine.connect() as conn:
            if name in MAY_SCAN:  # as their functions do it: tests/protocol/test_stops.py
                await find_by_index(conn)
            found[name] = ways_of(await explained(conn, statement, binds))
    return found


async def explained(conn: AsyncConnection, statement: TextClause, binds: dict[str, Any]) -> Any:
    """The statement's plan; nothing is run."""
    plan = await conn.scalar(text(f"EXPLAIN (FORMAT JSON) {statement.text}"), binds)
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def ways_of(plan: dict[str, Any]) -> list[str]:
    """Indexes by which the plan comes to rows of tables that grow, and tables it reads whole."""
    found = set()
    for node in nodes(plan):
        index, table = node.get("Index Name"), node.get("Relation Name")
        if index is not None and index.split("_")[0] in {"jobs", "job", "attempts", "outbox"}:
            found.add(str(index))
        elif node["Node Type"] == "Seq Scan" and table in LARGE:
            found.add(f"all of {table}")
    return sorted(found)


TOUCHED = text("""
    SELECT t.name, pg_stat_get_xact_blocks_fetched(c.oid) + (
               SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(i.indexrelid)), 0)
                 FROM pg_index i WHERE i.indrelid = c.oid) AS blocks,
           pg_stat_get_xact_numscans(c.oid) AS scans
      FROM pg_class c JOIN unnest(CAST(:tables AS text[])) AS t (name)
        ON c.oid = CAST('chot.' || t.name AS regclass)""")


async def touched(conn: AsyncConnection, read: Awaitable[object]) -> tuple[int, set[str]]:
    """Pages of 8 KB that `read` asks for, of tables that grow; and those that it reads whole."""
    before = {row.name: row for row in await conn.execute(TOUCHED, {"tables": list(TABLES)})}
    await read
    after = (await conn.execute(TOUCHED, {"tables": list(TABLES)})).all()
    pages = sum(int(row.blocks) - int(before[row.name].blocks) for row in after)
    return pages, {row.name for row in after if row.scans > before[row.name].scans}

"""Collects the evidence from the database when everything has come to rest."""

import json
from collections.abc import Mapping
from typing import Any

import asyncpg

from tests.faults.evidence import LISTS, Evidence, Facts, Limit
from tests.faults.history import History

EPOCH = "extract(epoch FROM {})::float8 AS {}"
AT = EPOCH.format("at", "at")

QUERIES: Mapping[str, str] = {
    "jobs": """
        SELECT j.id::text, kind, state, attempt, max_attempts, lost_leases, interruptions, fence,
               checkpoint_no, p.payload::text AS payload, company, brand, group_id::text,
               joins::text
          FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id ORDER BY j.id""",
    "transitions": f"""
        SELECT n, job_id::text, old_state, state, old_fence, fence, token::text, attempt,
               max_attempts, lost_leases, interruptions, checkpoint_no,
               {EPOCH.format("lease_expires_at", "lease_expires_at")}, worker_id,
               {AT}, xact::text::bigint AS xact, by_name, by_pid
          FROM audit.transitions ORDER BY n""",
    "effects": f"""
        SELECT n, job_id::text, chunk, item, fence, attempt, pid, {AT}, xact::text::bigint AS xact
          FROM faults.effects ORDER BY n""",
    "attempts": """
        SELECT job_id::text, fence, attempt, outcome, worker_id, claimed_checkpoint_no
          FROM chot.attempts ORDER BY job_id, fence""",
    "keys": """
        SELECT key, job_id::text, convert_from(body, 'UTF8') AS body
          FROM chot.idempotency_keys""",
    "locks": """
        SELECT job_id::text, root, part, mode, period_from, period_to
          FROM chot.job_locks ORDER BY job_id, n""",
    "groups": """
        SELECT id::text, state, policy, outcome, generation, total, remaining, succeeded, dead,
               cancelled, join_job_id::text
          FROM chot.groups ORDER BY id""",
    "entries": "SELECT job_id::text, chunk, account, amount FROM faults.entries ORDER BY n",
}

READ_LIMITS = """
    SELECT kind, company, brand, max_running FROM chot.running_limits
     UNION ALL
    SELECT name, NULL, NULL, max_running FROM chot.kinds WHERE max_running IS NOT NULL"""


async def collect(
    connection: asyncpg.Connection, history: History, facts: Mapping[str, Any]
) -> Evidence:
    """Everything the checks look at; `facts` are those of the run itself."""
    lists: dict[str, list[Any]] = {"calls": history.calls, "windows": history.windows}
    for name, query in QUERIES.items():
        rows = [dict(row) for row in await connection.fetch(query)]
        if name == "jobs":
            rows = [row | {"payload": parsed(row["payload"])} for row in rows]
        lists[name] = [LISTS[name](**row) for row in rows]
    balances = await connection.fetch("SELECT code, balance FROM faults.accounts ORDER BY code")
    limits = await connection.fetch(READ_LIMITS)
    orders = await connection.fetch("SELECT number, job_id::text FROM faults.orders")
    known = {
        "outbox": await connection.fetchval("SELECT count(*) FROM chot.outbox"),
        "balances": {str(row["code"]): row["balance"] for row in balances},
        "orders": [tuple(row) for row in orders],
        "limits": [Limit(**dict(row)) for row in limits],
        "postgres": connection.get_server_version().major,
    }
    return Evidence(facts=Facts(**known, **facts), **lists)


def parsed(payload: str) -> Any:
    """A payload, from its JSON text."""
    return json.loads(payload)

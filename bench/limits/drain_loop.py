"""The least that drains a queue: receive 10, claim 10 by id array, complete 10, delete 10.

`python -m bench.limits.drain_loop` with asyncpg and aiobotocore alone, in a process of its own as
a worker is one. It fills table and queue, then drains with so many concurrent loops, each on a
connection of its own. Prints one line of JSON: seconds from the first receive to the last delete.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from time import monotonic, process_time
from typing import Any
from uuid import UUID, uuid4

import asyncpg
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

BATCH = 10
SENDERS = 4
TABLE = """
    CREATE TABLE IF NOT EXISTS bench.jobs (
        id uuid PRIMARY KEY, state text NOT NULL DEFAULT 'pending', fence bigint NOT NULL DEFAULT 0,
        lease_token uuid, lease_expires_at timestamptz, worker_id text, finished_at timestamptz
    ) WITH (fillfactor = 75)"""
CLAIM = """
    UPDATE bench.jobs
       SET state = 'running', fence = fence + 1, lease_token = $2, worker_id = 'limit',
           lease_expires_at = clock_timestamp() + interval '30 seconds'
     WHERE id = ANY($1::uuid[]) AND state = 'pending' RETURNING id"""
COMPLETE = """
    UPDATE bench.jobs
       SET state = 'succeeded', lease_token = NULL, lease_expires_at = NULL,
           finished_at = clock_timestamp()
     WHERE id = ANY($1::uuid[]) AND state = 'running' AND lease_token = $2 RETURNING id"""


@dataclass(slots=True)
class Draining:
    """What the loops share."""

    client: Any
    queue_url: str
    jobs: int
    done: int = 0
    began: float = 0.0
    ended: float = 0.0
    ids: list[UUID] = field(default_factory=list)


async def drain_queue(dsn: str, queue_url: str, *, jobs: int, loops: int) -> dict[str, float]:
    """Fill, drain, and say how long the draining took and what CPU it cost."""
    config = AioConfig(max_pool_connections=max(loops, SENDERS))
    async with get_session().create_client("sqs", config=config) as client:
        draining = Draining(client, queue_url, jobs)
        pool = await asyncpg.create_pool(dsn, min_size=loops, max_size=loops)
        try:
            await _fill(pool, draining)
            cpu = process_time()
            draining.began = monotonic()
            await asyncio.gather(*(_loop(pool, draining) for _ in range(loops)))
            spent = process_time() - cpu
            ended = await pool.fetchval(
                "SELECT count(*) FROM bench.jobs WHERE id = ANY($1) AND state = 'succeeded'",
                draining.ids,
            )
        finally:
            await pool.close()
    seconds = draining.ended - draining.began
    return {"jobs": ended, "seconds": seconds, "cpu": spent}


async def _fill(pool: asyncpg.Pool, draining: Draining) -> None:
    draining.ids = [uuid4() for _ in range(draining.jobs)]
    async with pool.acquire() as connection:
        await connection.execute(TABLE)
        await connection.copy_records_to_table(
            "jobs", schema_name="bench", columns=("id",), records=[(i,) for i in draining.ids]
        )
    batches = iter(range(0, draining.jobs, BATCH))

    async def send() -> None:
        for start in batches:
            some = draining.ids[start : start + BATCH]
            entries = [{"Id": str(n), "MessageBody": _body(i)} for n, i in enumerate(some)]
            await draining.client.send_message_batch(QueueUrl=draining.queue_url, Entries=entries)

    await asyncio.gather(*(send() for _ in range(SENDERS)))


def _body(job_id: UUID) -> str:
    return json.dumps({"v": 1, "job_id": str(job_id), "kind": "bench.noop", "brand": "RED"})


async def _loop(pool: asyncpg.Pool, draining: Draining) -> None:
    client, url = draining.client, draining.queue_url
    async with pool.acquire() as connection:
        claim, complete = await connection.prepare(CLAIM), await connection.prepare(COMPLETE)
        while draining.done < draining.jobs:
            answer = await client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1
            )
            messages = answer.get("Messages", [])
            if not messages:
                continue
            token = uuid4()
            ids = [UUID(json.loads(each["Body"])["job_id"]) for each in messages]
            claimed = [row["id"] for row in await claim.fetch(ids, token)]
            completed = await complete.fetch(claimed, token)
            await client.delete_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                    for n, each in enumerate(messages)
                ],
            )
            draining.done += len(completed)
            draining.ended = monotonic()


def main() -> None:
    """`DSN QUEUE_URL JOBS LOOPS`; where AWS is, its environment says."""
    dsn, queue_url, jobs, loops = sys.argv[1:]
    found = asyncio.run(drain_queue(dsn, queue_url, jobs=int(jobs), loops=int(loops)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

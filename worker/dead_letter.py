"""Dead messages: kept in the database, with reason, before they are deleted from SQS."""

import json
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PoisonMessage
from shared.jobs.dead_letters import store_dead_message
from shared.logs import alert, log
from shared.messages import parse_message
from shared.sqs import Delivery, SqsClient

IMPORT_BATCH = 10


async def bury_message(engine: AsyncEngine, delivery: Delivery, reason: str) -> None:
    """Store the message and raise an alert (once a message). The caller deletes it afterwards."""
    async with engine.connect() as conn:
        fresh = await store_dead_message(
            conn,
            queue=delivery.queue,
            message_id=delivery.message_id,
            body=delivery.body.encode("utf-8", "surrogatepass"),
            attributes=json.dumps(dict(delivery.attributes)),
            reason=reason,
            receive_count=delivery.receive_count,
        )
    if fresh:
        alert("message.dead", queue=delivery.queue, message_id=delivery.message_id, reason=reason)


KNOWN_JOBS = text("SELECT id FROM chot.jobs WHERE id = ANY(:ids)")


async def import_dead_letters(engine: AsyncEngine, sqs: SqsClient, queue: str) -> int:
    """Empty SQS's own dead-letter queue of `queue`; answers how many messages it held.

    A message of a job we know says nothing: the database decides about that job, and the
    reconciler publishes it again. One that is unparseable or unknown is kept, with an alert.
    """
    name, imported = f"{queue}-dead", 0
    while True:
        deliveries = await sqs.receive(
            name, most=IMPORT_BATCH, wait_seconds=0, visibility_seconds=30
        )
        if not deliveries:
            return imported
        known = await _known(engine, deliveries)
        for delivery in deliveries:
            job_id = _job_id(delivery)
            if job_id is None or job_id not in known:
                reason = "moved to the dead-letter queue by SQS: " + (
                    "not a message of ours" if job_id is None else f"job {job_id} is unknown"
                )
                await bury_message(engine, delivery, reason)
        await sqs.delete(name, [delivery.handle for delivery in deliveries])
        imported += len(deliveries)
        log.info("dead_letters.imported", queue=queue, messages=len(deliveries))


async def _known(engine: AsyncEngine, deliveries: Sequence[Delivery]) -> set[UUID]:
    ids = [found for each in deliveries if (found := _job_id(each)) is not None]
    async with engine.connect() as conn:
        return set((await conn.execute(KNOWN_JOBS, {"ids": ids})).scalars().all())


def _job_id(delivery: Delivery) -> UUID | None:
    try:
        return parse_message(delivery.body).job_id
    except PoisonMessage:
        return None

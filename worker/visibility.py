"""Visibility: a delivery stays hidden while its job runs. Only latency hangs on it."""

from collections import defaultdict
from collections.abc import Sequence
from time import monotonic

from shared.logs import log
from shared.sqs import TRANSPORT_ERRORS, SqsClient
from shared.telling import told
from shared.types import ReceiptHandle
from worker.lease import HeldLease


async def extend_deliveries(
    sqs: SqsClient,
    held: Sequence[HeldLease],
    *,
    visibility_seconds: float,
    cap_seconds: float,
) -> None:
    """Extend what has used up a third of its visibility.

    SQS hides a message for at most 12 hours from its receive and does not clamp. Before that the
    message is deleted: the job goes on under its database lease alone.
    """
    now = monotonic()
    due: dict[str, list[HeldLease]] = defaultdict(list)
    over: dict[str, list[HeldLease]] = defaultdict(list)
    for each in held:
        if each.delivery is None:
            continue
        if now + visibility_seconds > each.received_at + cap_seconds:
            over[each.delivery.queue].append(each)
        elif now >= each.visible_set_at + visibility_seconds / 3:
            due[each.delivery.queue].append(each)
    for queue, listed in over.items():
        await _let_go(sqs, queue, listed)
    for queue, listed in due.items():
        await _extend(sqs, queue, listed, round(visibility_seconds))


async def _let_go(sqs: SqsClient, queue: str, held: Sequence[HeldLease]) -> None:
    handles = _handles(held)
    for each in held:
        each.delivery = None
    log.info("visibility.cap_reached", queue=queue, messages=len(handles))
    await sqs.delete(queue, handles)


async def _extend(sqs: SqsClient, queue: str, held: Sequence[HeldLease], seconds: int) -> None:
    now = monotonic()
    try:
        refused = await sqs.extend(queue, dict.fromkeys(_handles(held), seconds))
    except TRANSPORT_ERRORS as error:
        log.warning("visibility.not_extended", queue=queue, error=told(error))
        return
    for each in held:
        if each.delivery is not None and each.delivery.handle in refused:
            # Stale, gone or over a limit: a redelivery will end as a claim miss.
            log.info("visibility.refused", queue=queue, job_id=str(each.lease.job_id))
            each.delivery = None
        else:
            each.visible_set_at = now


def _handles(held: Sequence[HeldLease]) -> list[ReceiptHandle]:
    return [each.delivery.handle for each in held if each.delivery is not None]

"""Queues: whether each is there, with the attributes that jobs need; its dead-letter queue."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shared.doctor.finding import Finding
from shared.errors import PoisonMessage
from shared.messages import parse_message
from shared.sqs import SqsClient

MISSING = ("NonExistentQueue", "QueueDoesNotExist")
SHORTEST_RETENTION = 86_400
DEAD_RETENTION = 1_209_600
PEEKED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a queue is held to: the settings of its workers."""

    lease: float
    visibility: int
    max_attempts: int
    deployment_id: str | None


async def check_queue(sqs: SqsClient, queue: str, wanted: Wanted) -> list[Finding]:
    """One queue with its dead-letter queue; raises the transport's errors where SQS is away."""
    name = f"{sqs.prefix}-{queue}"
    mine = await _attributes(sqs, queue)
    if mine is None:
        return [_missing(name, wanted)]
    url = await sqs.url(queue)
    found = _own(name, url, mine, wanted)
    found += await _dead_letters(sqs, queue, url, mine, wanted)
    if wanted.deployment_id is not None:
        found += await _strangers(sqs, queue, wanted.deployment_id)
    return found


async def _attributes(sqs: SqsClient, queue: str) -> Mapping[str, str] | None:
    try:
        return await sqs.attributes(queue)
    except ClientError as error:
        if any(word in str(error) for word in MISSING):
            sqs.urls.pop(queue, None)
            return None
        raise


def _missing(name: str, wanted: Wanted) -> Finding:
    attributes = json.dumps({"VisibilityTimeout": str(wanted.visibility)})
    return Finding(
        code="queue-missing",
        severity="critical",
        seen=f"there is no queue {name}",
        why="its jobs stay in the outbox, and its workers wait for it",
        remedy=(f"aws sqs create-queue --queue-name {name} --attributes '{attributes}'",),
    )


def _set(url: str, **attributes: str) -> str:
    return f"aws sqs set-queue-attributes --queue-url {url} --attributes '{json.dumps(attributes)}'"


def _own(name: str, url: str, mine: Mapping[str, str], wanted: Wanted) -> list[Finding]:
    """The rules for the queue itself: code, severity, whether it is broken, seen, why, remedy."""
    visibility, retention = int(mine["VisibilityTimeout"]), int(mine["MessageRetentionPeriod"])
    encrypted = mine.get("SqsManagedSseEnabled") == "true" or bool(mine.get("KmsMasterKeyId"))
    rules: tuple[tuple[str, Any, bool, str, str, str], ...] = (
        (
            "queue-fifo",
            "critical",
            mine.get("FifoQueue") == "true",
            "is a FIFO queue",
            "a group is blocked while one of its messages is out: order is decided here, not there",
            f"aws sqs create-queue --queue-name {name.removesuffix('.fifo')}",
        ),
        (
            "queue-visibility",
            "critical",
            visibility < wanted.lease,
            f"hides a message for {visibility} s, less than the lease of {wanted.lease:g} s",
            "its jobs would be delivered again while they run; workers refuse to start on it",
            _set(url, VisibilityTimeout=str(wanted.visibility)),
        ),
        (
            "queue-retention",
            "warning",
            retention < SHORTEST_RETENTION,
            f"keeps messages for {retention:,} s",
            "what waits longer is lost there and found again by the reconciler only",
            _set(url, MessageRetentionPeriod="345600"),
        ),
        (
            "queue-delay",
            "note",
            mine.get("DelaySeconds", "0") != "0",
            f"delays each message by {mine.get('DelaySeconds')} s",
            "delays stand in the database (available_at); this one comes on top of each",
            _set(url, DelaySeconds="0"),
        ),
        (
            "queue-short-poll",
            "note",
            mine.get("ReceiveMessageWaitTimeSeconds", "0") == "0",
            "answers empty receives at once by default",
            "workers say themselves how long they wait; whoever else receives pays for each",
            _set(url, ReceiveMessageWaitTimeSeconds="20"),
        ),
        (
            "queue-unencrypted",
            "warning",
            "SqsManagedSseEnabled" in mine and not encrypted,
            "stores messages in the clear",
            "messages carry ids, kinds and brands",
            _set(url, SqsManagedSseEnabled="true"),
        ),
    )
    return [
        Finding(code=code, severity=how, seen=f"queue {name} {seen}", why=why, remedy=(remedy,))
        for code, how, broken, seen, why, remedy in rules
        if broken
    ]


async def _dead_letters(
    sqs: SqsClient, queue: str, url: str, mine: Mapping[str, str], wanted: Wanted
) -> list[Finding]:
    name, dead = f"{sqs.prefix}-{queue}", f"{sqs.prefix}-{queue}-dead"
    theirs = await _attributes(sqs, f"{queue}-dead")
    arn = mine["QueueArn"].rsplit(":", 1)[0] + ":" + dead
    receives = max(1000, 10 * wanted.max_attempts)
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": str(receives)})
    wire = _set(url, RedrivePolicy=redrive)
    make = (
        f"aws sqs create-queue --queue-name {dead} --attributes "
        f"'{json.dumps({'MessageRetentionPeriod': str(DEAD_RETENTION)})}'"
    )
    policy = json.loads(mine.get("RedrivePolicy") or "{}")
    if not policy:
        return [
            Finding(
                code="dlq-none",
                severity="warning",
                seen=f"queue {name} has no dead-letter queue",
                why="what nobody can read comes back until it expires, and nobody hears of it",
                remedy=(wire,) if theirs is not None else (make, wire),
            )
        ]
    found = []
    target = str(policy.get("deadLetterTargetArn", "")).rsplit(":", 1)[-1]
    if target != dead or theirs is None:
        found.append(
            Finding(
                code="dlq-other",
                severity="warning",
                seen=f"queue {name} moves dead letters to {target}"
                + ("" if theirs is not None else f", and there is no queue {dead}"),
                why=f"workers fetch them from {dead} only: those would be seen by nobody",
                remedy=(wire,) if theirs is not None else (make, wire),
            )
        )
    if int(policy.get("maxReceiveCount", receives)) < 10 * wanted.max_attempts:
        found.append(
            Finding(
                code="dlq-receives",
                severity="critical",
                seen=f"queue {name} gives a message up after {policy['maxReceiveCount']} receives",
                why="SQS counts receives, not attempts: good jobs' messages would be moved away; "
                "workers refuse to start on it",
                remedy=(wire,),
            )
        )
    if theirs is not None:
        found += await _dead_queue(sqs, queue, mine, theirs)
    return found


async def _dead_queue(
    sqs: SqsClient, queue: str, mine: Mapping[str, str], theirs: Mapping[str, str]
) -> list[Finding]:
    dead, url = f"{sqs.prefix}-{queue}-dead", await sqs.url(f"{queue}-dead")
    found = []
    kept, source = int(theirs["MessageRetentionPeriod"]), int(mine["MessageRetentionPeriod"])
    if kept <= source:
        found.append(
            Finding(
                code="dlq-retention",
                severity="critical",
                seen=f"queue {dead} keeps messages for {kept:,} s, its source for {source:,} s",
                why="a dead letter keeps the time it was first sent: it would expire on arrival; "
                "workers refuse to start on it",
                remedy=(_set(url, MessageRetentionPeriod=str(DEAD_RETENTION)),),
            )
        )
    allow = json.loads(theirs.get("RedriveAllowPolicy") or "{}")
    how = allow.get("redrivePermission", "allowAll")
    sources = allow.get("sourceQueueArns", [])
    if how == "denyAll" or (how == "byQueue" and mine["QueueArn"] not in sources):
        wanted = {"redrivePermission": "byQueue", "sourceQueueArns": [mine["QueueArn"]]}
        found.append(
            Finding(
                code="dlq-denies",
                severity="critical",
                seen=f"queue {dead} takes no dead letters of its source ({how})",
                why="what SQS gives up is dropped there",
                remedy=(_set(url, RedriveAllowPolicy=json.dumps(wanted)),),
            )
        )
    waiting = int(theirs.get("ApproximateNumberOfMessages", "0"))
    if waiting:
        found.append(
            Finding(
                code="dlq-holds",
                severity="warning",
                seen=f"queue {dead} holds {waiting:,} messages",
                why="workers import them each CHOT_RECONCILER_SECONDS: none has, so none is there",
                remedy=("chot workers", "chot dead-letters"),
            )
        )
    return found


async def _strangers(sqs: SqsClient, queue: str, deployment: str) -> list[Finding]:
    """Look at a few messages and leave them where they are: of which deployment they are."""
    deliveries = await sqs.receive(queue, most=PEEKED, wait_seconds=0, visibility_seconds=0)
    others = set()
    for each in deliveries:
        try:
            message = parse_message(each.body)
        except PoisonMessage:
            continue
        if str(message.deployment_id) != deployment:
            others.add(str(message.deployment_id))
    name = f"{sqs.prefix}-{queue}"
    return [
        Finding(
            code="queue-shared",
            severity="critical",
            seen=f"queue {name} holds messages of deployment {other}; this one is {deployment}",
            why="two deployments share a queue prefix, or it was restored: each gets the other's "
            "messages and leaves them lying",
            remedy=(
                "export CHOT_QUEUE_PREFIX=…   # one of its own for each deployment",
                f"aws sqs purge-queue --queue-url {await sqs.url(queue)}   # if the other is gone",
            ),
        )
        for other in sorted(others)
    ]

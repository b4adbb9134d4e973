"""Each finding about a queue, on the emulator: made, seen, mended by its remedy, gone."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from shared.doctor.queues import Wanted, check_queue
from shared.messages import JobMessage
from shared.sqs import SqsClient, open_sqs
from shared.types import JobId
from tests.protocol.doctor.remedies import codes, mend_queue

DEPLOYMENT = uuid4()
WANTED = Wanted(lease=30, visibility=60, max_attempts=5, deployment_id=str(DEPLOYMENT))
NOTES = {"queue-short-poll", "queue-unencrypted"}  # what the development stack's queues are


@pytest.fixture
async def client(queue_prefix: str) -> AsyncIterator[SqsClient]:
    """The client that processes use, on this test's queues."""
    async with open_sqs(queue_prefix, pool=2) as opened:
        yield opened


async def seen(client: SqsClient, wanted: Wanted = WANTED) -> list[Any]:
    """What is found, beside what the development stack's queues are anyway."""
    return [each for each in await check_queue(client, "default", wanted) if each.code not in NOTES]


async def test_the_queues_of_the_development_stack_are_sound(client: SqsClient) -> None:
    assert await seen(client) == []


FAULTS: dict[str, dict[str, str]] = {
    "queue-visibility": {"VisibilityTimeout": "20"},
    "queue-retention": {"MessageRetentionPeriod": "600"},
    "queue-delay": {"DelaySeconds": "5"},
}


@pytest.mark.parametrize("code", FAULTS)
async def test_an_attribute_against_the_rules(
    client: SqsClient, sqs: Any, queue_urls: dict[str, str], code: str
) -> None:
    sqs.set_queue_attributes(QueueUrl=queue_urls["default"], Attributes=FAULTS[code])
    found = await seen(client)
    assert [each.code for each in found] == [code]
    mend_queue(sqs, found[0])
    assert await seen(client) == []


async def test_a_queue_that_is_not_there_is_made(client: SqsClient, sqs: Any) -> None:
    """And what it still lacks is the next finding."""
    (found,) = await check_queue(client, "nobody", WANTED)
    assert (found.code, found.severity) == ("queue-missing", "critical")
    mend_queue(sqs, found)
    (lacks,) = [
        each for each in await check_queue(client, "nobody", WANTED) if each.code not in NOTES
    ]
    assert lacks.code == "dlq-none"
    mend_queue(sqs, lacks)
    rest = [each for each in await check_queue(client, "nobody", WANTED) if each.code not in NOTES]
    assert rest == []


async def test_a_short_poll_is_a_note_with_a_remedy(client: SqsClient, sqs: Any) -> None:
    (found,) = [
        each
        for each in await check_queue(client, "default", WANTED)
        if each.code == "queue-short-poll"
    ]
    assert found.severity == "note"
    mend_queue(sqs, found)
    assert "queue-short-poll" not in codes(await check_queue(client, "default", WANTED))


async def test_a_fifo_queue_and_one_in_the_clear_are_refused(
    client: SqsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulators make none of our names FIFO, nor say how they store: SQS's answer is played."""
    real = SqsClient.attributes

    async def attributes(self: SqsClient, queue: str) -> dict[str, str]:
        more = {} if queue.endswith("-dead") else {"FifoQueue": "true"}
        return await real(self, queue) | {"SqsManagedSseEnabled": "false"} | more

    monkeypatch.setattr(SqsClient, "attributes", attributes)
    found = codes(await check_queue(client, "default", WANTED))
    assert {"queue-fifo", "queue-unencrypted"} <= set(found)


async def test_too_few_receives_before_a_message_is_given_up(
    client: SqsClient, sqs: Any, queue_urls: dict[str, str]
) -> None:
    url = queue_urls["default"]
    policy = _policy(sqs, url) | {"maxReceiveCount": "5"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})
    (found,) = await seen(client)
    assert (found.code, found.severity) == ("dlq-receives", "critical")
    mend_queue(sqs, found)
    assert await seen(client) == []


async def test_dead_letters_that_go_where_nobody_looks(
    client: SqsClient, sqs: Any, queue_urls: dict[str, str]
) -> None:
    url = queue_urls["default"]
    policy = _policy(sqs, url)
    other = policy["deadLetterTargetArn"].replace("-default-dead", "-costing-dead")
    sqs.set_queue_attributes(
        QueueUrl=url,
        Attributes={"RedrivePolicy": json.dumps(policy | {"deadLetterTargetArn": other})},
    )
    (found,) = await seen(client)
    assert found.code == "dlq-other"
    mend_queue(sqs, found)
    assert await seen(client) == []


async def test_dead_letters_that_expire_before_they_are_seen(
    client: SqsClient, sqs: Any, queue_prefix: str
) -> None:
    dead = sqs.get_queue_url(QueueName=f"{queue_prefix}-default-dead")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"MessageRetentionPeriod": "86400"})
    (found,) = await seen(client)
    assert (found.code, found.severity) == ("dlq-retention", "critical")
    mend_queue(sqs, found)
    assert await seen(client) == []


async def test_a_dead_letter_queue_that_refuses_its_source(
    client: SqsClient, sqs: Any, queue_prefix: str
) -> None:
    dead = sqs.get_queue_url(QueueName=f"{queue_prefix}-default-dead")["QueueUrl"]
    deny = json.dumps({"redrivePermission": "denyAll"})
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": deny})
    (found,) = await seen(client)
    assert found.code == "dlq-denies"
    mend_queue(sqs, found)
    assert await seen(client) == []


async def test_dead_letters_that_nobody_has_fetched(
    client: SqsClient, sqs: Any, queue_prefix: str
) -> None:
    dead = sqs.get_queue_url(QueueName=f"{queue_prefix}-default-dead")["QueueUrl"]
    sqs.send_message(QueueUrl=dead, MessageBody="x")
    (found,) = await seen(client)
    assert found.code == "dlq-holds"


async def test_messages_of_another_deployment(
    client: SqsClient, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """Looked at and left where they are: none is taken from its receiver."""
    url = queue_urls["default"]
    for deployment in (DEPLOYMENT, uuid4()):
        message = JobMessage(
            job_id=JobId(uuid4()),
            kind="probe.write",
            brand=None,
            trace=None,
            deployment_id=deployment,
        )
        sqs.send_message(QueueUrl=url, MessageBody=message.to_body())
    (found,) = await seen(client)
    assert (found.code, found.severity) == ("queue-shared", "critical")
    left = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert len(left) == 2


def _policy(sqs: Any, url: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    found: dict[str, str] = json.loads(answer["Attributes"]["RedrivePolicy"])
    return found

"""Both emulators come up on loopback, and the queues are made as a deployment makes them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.sqs import (
    QUEUES,
    Emulator,
    QueueAttributes,
    SqsServer,
    ensure_queues,
    sqs_client,
    start_sqs,
)


@pytest.fixture(params=["ministack", "moto"])
def emulator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqsServer]:
    chosen: Emulator = "moto" if request.param == "moto" else "ministack"
    server = start_sqs(tmp_path / "log", emulator=chosen)
    yield server
    server.stop()


def test_each_queue_has_a_dead_letter_queue_that_keeps_longer(emulator: SqsServer) -> None:
    attributes = QueueAttributes(visibility=45)
    urls = ensure_queues(emulator.endpoint, "mine", attributes=attributes)
    assert urls == ensure_queues(emulator.endpoint, "mine", attributes=attributes)
    assert tuple(urls) == QUEUES
    client = sqs_client(emulator.endpoint)
    for queue, url in urls.items():
        held = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        dead_url = client.get_queue_url(QueueName=f"mine-{queue}-dead")["QueueUrl"]
        dead = client.get_queue_attributes(QueueUrl=dead_url, AttributeNames=["All"])["Attributes"]
        redrive = json.loads(held["RedrivePolicy"])
        assert held["VisibilityTimeout"] == "45"
        assert redrive["deadLetterTargetArn"] == dead["QueueArn"]
        assert int(redrive["maxReceiveCount"]) == attributes.max_receives
        assert int(dead["MessageRetentionPeriod"]) > int(held["MessageRetentionPeriod"])
    client.close()


def test_a_message_comes_back_from_the_emulator(emulator: SqsServer) -> None:
    url = ensure_queues(emulator.endpoint, "mine", ["default"])["default"]
    assert url.startswith(emulator.endpoint), "a queue's URL must be reachable as it is given"
    client = sqs_client(emulator.endpoint)
    client.send_message(QueueUrl=url, MessageBody="xin chào")
    received = client.receive_message(QueueUrl=url, WaitTimeSeconds=2)["Messages"]
    client.close()
    assert [message["Body"] for message in received] == ["xin chào"]

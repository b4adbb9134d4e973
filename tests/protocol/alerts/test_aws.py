"""SNS and CloudWatch, on the emulator: what arrives there, once a minute, from one process."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from structlog.testing import capture_logs

from dev.sqs import CREDENTIALS, REGION
from shared.alerts import load_rules
from tests.factories import execute, scalar
from tests.protocol.alerts.conftest import Watched
from tests.protocol.alerts.test_delivery import DEAD_FIRES, bury

NAMESPACE = "Chot"


@pytest.fixture
def aws(sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A maker of boto3 clients for the emulator, where the code under test looks, too."""
    for service in ("SNS", "CLOUDWATCH"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", sqs_endpoint)

    def client(service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=sqs_endpoint,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    return client


async def test_an_alert_reaches_the_topic(
    watched: Watched, aws: Any, sqs: Any, queue_prefix: str
) -> None:
    """A queue that listens to the topic gets subject, text and attributes."""
    sns = aws("sns")
    topic = sns.create_topic(Name=f"{queue_prefix}-alerts")["TopicArn"]
    url = sqs.create_queue(QueueName=f"{queue_prefix}-listens")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["QueueArn"])
    watched.alerting = await watched.open(alert_sns_topic_arn=topic)
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES], "the webhook is told as well"
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    told = json.loads(got["Body"])
    assert told["Subject"] == "Chot here: 1 firing: dead_messages"
    assert "chot dead-letters" in told["Message"]
    assert told["MessageAttributes"]["severity"]["Value"] == "warning"
    assert await scalar(watched.engine, "SELECT count(*) FROM chot.alert_notices") == 0


async def test_a_topic_that_is_not_there_keeps_the_alert(watched: Watched, aws: Any) -> None:
    """The webhook has its own notice, and is told all the same."""
    assert aws
    topic = f"arn:aws:sns:{REGION}:000000000000:nobody-made-it"
    watched.alerting = await watched.open(alert_sns_topic_arn=topic)
    await bury(watched)
    with capture_logs() as logs:
        assert await watched.step() == [DEAD_FIRES]
    (told,) = [each for each in logs if each["event"] == "alert.not_delivered"]
    assert told["channel"] == "sns"
    assert "NotFound" in told["error"]
    assert await scalar(watched.engine, "SELECT channel FROM chot.alert_notices") == "sns"


async def test_each_minute_one_process_publishes_every_number(watched: Watched, aws: Any) -> None:
    """By Deployment, and by Queue where it is about queues; kinds are no dimension."""
    for _ in range(3):
        await bury(watched)
    others = [await watched.open(cloudwatch_namespace=NAMESPACE) for _ in range(4)]
    published = await asyncio.gather(*(each.publish(*_to(each)) for each in others))
    assert sorted(published) == [False, False, False, True]
    assert not await others[0].publish(*_to(others[0])), "not twice a minute"
    await execute(watched.owner, "UPDATE chot.turns SET at = at - interval '60 s'")
    assert await others[0].publish(*_to(others[0]))
    cloudwatch = aws("cloudwatch")
    listed = cloudwatch.list_metrics(Namespace=NAMESPACE)["Metrics"]
    mine = [
        ({each["Name"]: each["Value"] for each in metric["Dimensions"]}, metric["MetricName"])
        for metric in listed
    ]
    names = {name for dimensions, name in mine if dimensions == {"Deployment": "here"}}
    assert names >= {rule.cloudwatch_metric for rule in load_rules()}
    of_queues = {(name, dims.get("Queue")) for dims, name in mine if "Queue" in dims}
    assert {("backlog_seconds", "default"), ("oldest_due", "default")} <= of_queues
    now = datetime.now(UTC)
    found = cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName="dead_messages",
        Dimensions=[{"Name": "Deployment", "Value": "here"}],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=10),
        Period=3600,
        Statistics=["Maximum"],
    )
    assert [each["Maximum"] for each in found["Datapoints"]] == [3.0]


async def test_cloudwatch_that_is_away_is_logged_and_no_more(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts go on."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", REGION)
    watched.alerting = await watched.open(cloudwatch_namespace=NAMESPACE)
    await bury(watched)
    with capture_logs() as logs:
        assert await watched.step() == [DEAD_FIRES]
    assert [each["event"] for each in logs if each["log_level"] == "error"] == [
        "alert.firing",
        "metrics.not_published",
    ]


def _to(alerting: Any) -> Any:
    assert alerting.metrics_to is not None
    return alerting.metrics_to

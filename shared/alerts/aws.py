"""AWS: alerts to an SNS topic, metrics to CloudWatch.

Beside shared/sqs.py and shared/s3.py an importer of aiobotocore. Endpoint, region and credentials
are botocore's own settings (AWS_ENDPOINT_URL_SNS, AWS_ENDPOINT_URL_CLOUDWATCH, …).
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from shared.alerts.notices import Notice
from shared.alerts.telling import headline, lines
from shared.alerts.webhook import NotDelivered
from shared.sqs import ODD_CREDENTIALS, TRANSPORT_ERRORS

CALL_SECONDS = 10.0
MOST_METRICS = 500  # of 1,000 that one PutMetricData takes


@dataclass(slots=True)
class Aws:
    """One service's client, made at its first call."""

    service: str
    stack: AsyncExitStack
    client: Any = None

    async def ask(self, call: str, **given: Any) -> Any:
        """One call, ten seconds; NotDelivered says what was wrong with it."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                if self.client is None:
                    made = get_session().create_client(
                        self.service,
                        region_name=os.environ.get("AWS_REGION") or None,
                        config=AioConfig(
                            connect_timeout=5,
                            read_timeout=CALL_SECONDS,
                            retries={"total_max_attempts": 2, "mode": "standard"},
                        ),
                    )
                    self.client = await self.stack.enter_async_context(made)
                return await getattr(self.client, call)(**given)
        except (*TRANSPORT_ERRORS, *ODD_CREDENTIALS) as error:
            said = f"{self.service} {call}: {type(error).__name__}: {error}"
            raise NotDelivered(said) from error


@asynccontextmanager
async def open_aws() -> AsyncIterator[AsyncExitStack]:
    """What holds the clients of a process; they are closed with it."""
    async with AsyncExitStack() as stack:
        yield stack


@dataclass(slots=True)
class Sns:
    """An SNS topic."""

    topic: str
    deployment: str
    aws: Aws
    name: str = "sns"

    async def send(self, notices: Sequence[Notice]) -> None:
        """Publish them as one message; NotDelivered unless SNS has taken it."""
        firing = any(each.body["status"] == "firing" for each in notices)
        worst = min(str(each.body["severity"]) for each in notices)  # critical < warning
        await self.aws.ask(
            "publish",
            TopicArn=self.topic,
            Subject=headline(self.deployment, notices),
            Message=lines(notices),
            MessageAttributes={
                "status": _text("firing" if firing else "resolved"),
                "severity": _text(worst),
            },
        )


async def put_metrics(aws: Aws, namespace: str, metrics: Sequence[dict[str, Any]]) -> None:
    """Send all of them; NotDelivered where CloudWatch did not take them."""
    for start in range(0, len(metrics), MOST_METRICS):
        await aws.ask(
            "put_metric_data",
            Namespace=namespace,
            MetricData=list(metrics[start : start + MOST_METRICS]),
        )


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}

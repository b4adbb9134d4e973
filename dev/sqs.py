"""SQS and S3 on this machine: an emulator as a child process, the queues and the bucket.

Both belong to the deployment, not to api or worker: on AWS infrastructure code creates them with
the same attributes as `ensure_queues` and `ensure_bucket` do here.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import boto3

from dev.processes import Child, Command, answers, free_port, start, wait_until

Emulator = Literal["ministack", "moto"]
QUEUES = ("costing", "posting", "migration", "default", "interactive")
REGION = "ap-southeast-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
DAY_SECONDS = 86_400
START_SECONDS = 30.0
HEALTH_PATHS = {"ministack": "/_ministack/ready", "moto": "/moto-api/data.json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsServer:
    """A running emulator; what it holds is gone when it ends."""

    port: int
    child: Child

    @property
    def endpoint(self) -> str:
        """The URL for AWS_ENDPOINT_URL_SQS and AWS_ENDPOINT_URL_S3."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it. Idempotent; there is no state worth a grace period."""
        self.child.stop(grace=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAttributes:
    """What the queues are created with, in seconds.

    SQS's own dead-letter queue is a second net only: Chốt buries jobs itself, long before a
    message has been received `max_receives` times.
    """

    visibility: int = 60
    retention: int = 4 * DAY_SECONDS
    dead_retention: int = 14 * DAY_SECONDS
    max_receives: int = 1_000


def aws_environment(endpoint: str) -> dict[str, str]:
    """Return botocore's own settings for that endpoint."""
    endpoints = {"AWS_ENDPOINT_URL_SQS": endpoint, "AWS_ENDPOINT_URL_S3": endpoint}
    return {**endpoints, "AWS_REGION": REGION, **CREDENTIALS} | {
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def start_sqs(log: Path, *, emulator: Emulator = "ministack", port: int | None = None) -> SqsServer:
    """Start the emulator on 127.0.0.1 and return once it answers; StartFailed if it does not."""
    chosen = port or free_port()
    argv, extra = _ministack(chosen) if emulator == "ministack" else _moto(chosen)
    env = {**os.environ, **extra}
    child = start(Command(name=emulator, argv=argv, env=env, log=log))
    wait_until(
        lambda: answers(chosen, HEALTH_PATHS[emulator]),
        child,
        deadline_seconds=START_SECONDS,
        what="answering",
    )
    return SqsServer(port=chosen, child=child)


def _ministack(port: int) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "ministack"], {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",  # the host in queue URLs
        "MINISTACK_REGION": REGION,
        "SERVICES": "sqs,s3,sns,cloudwatch",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "DOCKER_HOST": "unix:///nonexistent",  # it would look for containers to clean up
        "TMPDIR": tempfile.gettempdir(),
    }


def _moto(port: int) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], {}


def queue_name(prefix: str, queue: str) -> str:
    """Return the SQS name of one of our queues."""
    return f"{prefix}-{queue}"


def sqs_client(endpoint: str) -> Any:
    """Return a boto3 client for the emulator; boto3 has no types of its own."""
    return _client("sqs", endpoint)


def _client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )


def ensure_queues(
    endpoint: str,
    prefix: str,
    queues: Iterable[str] = QUEUES,
    attributes: QueueAttributes | None = None,
    client: Any = None,
) -> dict[str, str]:
    """Create each queue and its dead-letter queue `<prefix>-<queue>-dead`; return queue → URL.

    Idempotent for the same attributes; SQS refuses to create a queue again with others.
    """
    wanted = attributes or QueueAttributes()
    sqs = client or sqs_client(endpoint)
    return {queue: _ensure_queue(sqs, queue_name(prefix, queue), wanted) for queue in queues}


def bucket_name(prefix: str) -> str:
    """Return the bucket that a deployment with this queue prefix keeps uploads in, here."""
    return f"{prefix.lower().replace('_', '-')}-files"


def ensure_bucket(endpoint: str, name: str) -> None:
    """Create the bucket for uploads. Idempotent."""
    s3 = _client("s3", endpoint)
    if name not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.close()


def _ensure_queue(sqs: Any, name: str, wanted: QueueAttributes) -> str:
    dead = sqs.create_queue(
        QueueName=f"{name}-dead",
        Attributes={"MessageRetentionPeriod": str(wanted.dead_retention)},
    )["QueueUrl"]
    answer = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    redrive = {
        "deadLetterTargetArn": answer["Attributes"]["QueueArn"],
        "maxReceiveCount": wanted.max_receives,
    }
    url: str = sqs.create_queue(
        QueueName=name,
        Attributes={
            "VisibilityTimeout": str(wanted.visibility),
            "MessageRetentionPeriod": str(wanted.retention),
            "RedrivePolicy": json.dumps(redrive),
        },
    )["QueueUrl"]
    return url


def main() -> None:
    """`python -m dev.sqs --endpoint URL --prefix NAME`: create a deployment's queues and bucket."""
    parser = argparse.ArgumentParser(prog="dev.sqs", description=main.__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--prefix", default="chot")
    asked = parser.parse_args()
    for queue, url in ensure_queues(asked.endpoint, asked.prefix).items():
        print(f"{queue}: {url}")
    ensure_bucket(asked.endpoint, bucket_name(asked.prefix))
    print(f"files: {bucket_name(asked.prefix)}")


if __name__ == "__main__":
    main()

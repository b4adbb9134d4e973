"""SQS: send, receive, extend, delete. The only importer of aiobotocore.

SQS is a delivery channel that may lose, repeat, delay and reorder; nothing here is trusted for
more than latency. Three clients a process, since ten long polls use up a pool of ten connections
and a request then waits for one without any time-out: one polls, one sends, one heartbeats.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.loaders import Loader

from shared.errors import ConfigRefused
from shared.logs import log
from shared.signals import OTHER, SQS_CALLS, SQS_REFUSED
from shared.telling import told
from shared.types import ReceiptHandle

BATCH = 10
VISIBILITY_CAP_SECONDS = 43_200
CALL_TIMEOUT_SECONDS = 10.0
# What the world does to a call; everything else is a bug of ours.
TRANSPORT_ERRORS = (BotoCoreError, ClientError, HTTPClientError, OSError, TimeoutError)
# What makes no client: no region, a broken endpoint. Time mends none of it.
UNUSABLE = (*TRANSPORT_ERRORS, ValueError)
# What botocore lets through raw when it cannot read its credentials: a token file with a newline,
# an answer without a key, new credentials that have expired already.
ODD_CREDENTIALS = (LookupError, RuntimeError, TypeError, ValueError)
CREDENTIALS_SECONDS = 2.0
INVALID_ENTRY = ("InvalidMessageContents", "InvalidParameterValue", "BatchRequestTooLong")
THROTTLED = frozenset(
    {"OverLimit", "RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequests"}
)
GROUP_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,./:;<=>?@\[\\\]^_`{|}~-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One receipt of one message; a redelivery is another one, with another handle."""

    queue: str
    message_id: str
    handle: ReceiptHandle
    body: str
    receive_count: int
    attributes: Mapping[str, Any] = field(hash=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to send; `entry_id` is how the answer names it, `group` spreads fairness."""

    entry_id: str
    body: str
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What one batch did: ids that SQS took, and the others with their reason."""

    sent: frozenset[str]
    failed: Mapping[str, "EntryFailure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFailure:
    """Why one entry was not taken; `invalid` means it never will be, unchanged.

    `ours`: SQS calls it the sender's fault (no right to send, say), which time alone seldom mends.
    """

    code: str
    message: str
    invalid: bool
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What SQS itself says of a queue; None where the queue has no such setting."""

    visibility_seconds: int
    retention_seconds: int
    max_receive_count: int | None
    dead_letter_retention_seconds: int | None


@dataclass(slots=True)
class SqsClient:
    """One aiobotocore client and the queue URLs it has looked up.

    It is made at the first call that credentials can be had for. Whatever is wrong with them, a
    call raises one of TRANSPORT_ERRORS: an outage like any other, that may pass.
    """

    prefix: str
    connect: Callable[[], Awaitable[Any]]
    urls: dict[str, str] = field(default_factory=dict)
    client: Any = None
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self) -> None:
        """Make the client if credentials are there at once; what is wrong with it is raised."""
        try:
            async with asyncio.timeout(CREDENTIALS_SECONDS):
                await self._connected()
        except (CredentialRetrievalError, TimeoutError) as error:
            log.warning("sqs.no_credentials_yet", error=told(error))

    async def _connected(self) -> Any:
        async with self.connecting:
            if self.client is None:
                self.client = await self.connect()
        return self.client

    @asynccontextmanager
    async def _asking(
        self, operation: str, seconds: float = CALL_TIMEOUT_SECONDS
    ) -> AsyncIterator[Any]:
        """The client, for one call that is given up after so many seconds, and counted."""
        try:
            async with asyncio.timeout(seconds):
                try:
                    yield await self._connected()
                except ODD_CREDENTIALS as error:
                    raise _no_credentials(error) from error
        except Exception as error:
            SQS_CALLS.labels(operation, result_of(error)).inc()
            raise
        SQS_CALLS.labels(operation, "ok").inc()

    async def url(self, queue: str) -> str:
        """The queue's URL; raises the transport's error when it is not there (yet)."""
        return self.urls[queue] if queue in self.urls else await self.find(queue)

    async def find(self, queue: str) -> str:
        """The queue's URL as SQS says it now, whatever it has said before; raises as `url()`."""
        async with self._asking("url") as client:
            answer = await client.get_queue_url(QueueName=f"{self.prefix}-{queue}")
        self.urls[queue] = answer["QueueUrl"]
        return self.urls[queue]

    async def send(self, queue: str, messages: Sequence[Outgoing]) -> SendResult:
        """Send up to ten; HTTP 200 may hold failures, and an id in neither list is not sent."""
        assert 0 < len(messages) <= BATCH, "SendMessageBatch takes one to ten"
        entries = [_entry(message) for message in messages]
        url = await self.url(queue)
        async with self._asking("send") as client:
            answer = await client.send_message_batch(QueueUrl=url, Entries=entries)
        failed = {
            item["Id"]: EntryFailure(
                code=item.get("Code", ""),
                message=item.get("Message", ""),
                invalid=bool(item.get("SenderFault"))
                and item.get("Code", "").endswith(INVALID_ENTRY),
                ours=bool(item.get("SenderFault")),
            )
            for item in answer.get("Failed", [])
        }
        _note_refused("send", answer)
        sent = frozenset(item["Id"] for item in answer.get("Successful", []))
        return SendResult(sent=sent - failed.keys(), failed=failed)

    async def receive(
        self, queue: str, *, most: int, wait_seconds: int, visibility_seconds: int
    ) -> list[Delivery]:
        """Long-poll for up to `most` deliveries, invisible to others for `visibility_seconds`.

        Given up ten seconds after the wait should have ended: a poll that hangs is dropped with
        its connection. What SQS had put in flight for it comes back by visibility.
        """
        url = await self.url(queue)
        async with self._asking("receive", wait_seconds + CALL_TIMEOUT_SECONDS) as client:
            answer = await client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(most, BATCH),
                WaitTimeSeconds=wait_seconds,
                VisibilityTimeout=visibility_seconds,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
            )
        return [_delivery(queue, item) for item in answer.get("Messages", [])]

    async def extend(self, queue: str, seconds: Mapping[ReceiptHandle, int]) -> set[ReceiptHandle]:
        """Set each delivery's visibility (seconds from now); answers the handles SQS refused."""
        handles = list(seconds)
        url = await self.url(queue)
        refused: set[ReceiptHandle] = set()
        for start in range(0, len(handles), BATCH):
            chunk = handles[start : start + BATCH]
            entries = [
                {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": seconds[handle]}
                for n, handle in enumerate(chunk)
            ]
            async with self._asking("extend") as client:
                answer = await client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
            _note_refused("extend", answer)
            refused |= {chunk[int(item["Id"])] for item in answer.get("Failed", [])}
        return refused

    async def delete(self, queue: str, handles: Sequence[ReceiptHandle]) -> None:
        """Delete deliveries; what SQS does not delete comes back and ends as a claim miss."""
        url = await self.url(queue)
        for start in range(0, len(handles), BATCH):
            entries = [
                {"Id": str(n), "ReceiptHandle": handle}
                for n, handle in enumerate(handles[start : start + BATCH])
            ]
            async with self._asking("delete") as client:
                answer = await client.delete_message_batch(QueueUrl=url, Entries=entries)
            _note_refused("delete", answer)

    async def facts(self, queue: str) -> QueueFacts:
        """Read the queue's real attributes, and its dead-letter queue's retention."""
        mine = await self.attributes(queue)
        max_receive, dead_retention = None, None
        policy = mine.get("RedrivePolicy")
        if policy:
            found = re.search(r'"maxReceiveCount"\s*:\s*"?(\d+)', policy)
            max_receive = int(found.group(1)) if found else None
            try:
                dead = await self.attributes(f"{queue}-dead")
                dead_retention = int(dead["MessageRetentionPeriod"])
            except ClientError:  # a dead-letter queue of another name: nothing to compare
                dead_retention = None
        return QueueFacts(
            visibility_seconds=int(mine["VisibilityTimeout"]),
            retention_seconds=int(mine["MessageRetentionPeriod"]),
            max_receive_count=max_receive,
            dead_letter_retention_seconds=dead_retention,
        )

    async def attributes(self, queue: str) -> dict[str, str]:
        """All that SQS says of the queue, in its own words."""
        url = await self.url(queue)
        async with self._asking("attributes") as client:
            answer = await client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes


@cache
def _models() -> Loader:
    """What botocore knows of AWS's services, read from its files once a process.

    It is never written to: botocore itself has one for all clients of a session.
    """
    loader: Loader = get_session().get_component("data_loader")
    return loader


def new_session() -> AioSession:
    """A session of its own, credentials included, but without files of its own to read.

    Those are most of what a client costs: 15 of 25 ms, and a process makes several.
    """
    session = get_session()
    session.register_component("data_loader", _models())
    return session


@asynccontextmanager
async def open_sqs(
    prefix: str, *, pool: int, read_timeout: float = 30.0, attempts: int = 2
) -> AsyncIterator[SqsClient]:
    """Open one client with `pool` connections and at most `attempts` tries a call.

    Endpoint, region and credentials are botocore's own settings (AWS_ENDPOINT_URL_SQS, …); raises
    for those that make no client. Credentials that cannot be had yet are waited for by its calls.
    """
    config = AioConfig(
        max_pool_connections=pool,
        connect_timeout=5,
        read_timeout=read_timeout,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        tcp_keepalive=True,
        parameter_validation=False,  # what we send is checked by types and tests
    )
    session = new_session()
    # AWS's own runtimes set AWS_REGION; botocore itself reads AWS_DEFAULT_REGION only.
    region = os.environ.get("AWS_REGION") or None
    async with AsyncExitStack() as stack:

        async def connect() -> Any:
            try:
                await session.get_credentials()
            except (OSError, *ODD_CREDENTIALS) as error:
                raise _no_credentials(error) from error
            client = session.create_client("sqs", region_name=region, config=config)
            return await stack.enter_async_context(client)

        sqs = SqsClient(prefix=prefix, connect=connect)
        await sqs.begin()
        yield sqs


def result_of(error: Exception) -> str:
    """What came of a call, in one of the words of the metric."""
    match error:
        case ClientError():
            answer = error.response
            code = str(answer.get("Error", {}).get("Code", "")).rpartition(".")[2]
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in THROTTLED or status == 429:
                return "throttled"
            return "failed" if status >= 500 else "refused"
        case CredentialRetrievalError() | NoCredentialsError():
            return "credentials"
        case TimeoutError() | ReadTimeoutError():
            return "timeout"
        case HTTPClientError() | OSError():
            return "unreachable"
        case _:
            return OTHER


def _note_refused(operation: str, answer: Mapping[str, Any]) -> None:
    failed = len(answer.get("Failed", []))
    if failed:
        SQS_REFUSED.labels(operation).inc(failed)


def sqs_refused(error: Exception) -> ConfigRefused:
    """The refusal to start, for one of UNUSABLE that open_sqs() has raised."""
    said = f"AWS_REGION, AWS_ENDPOINT_URL_SQS and the like make no SQS client: {error}"
    return ConfigRefused(said)


def _no_credentials(error: Exception) -> CredentialRetrievalError:
    said = f"{type(error).__name__}: {error}"
    return CredentialRetrievalError(provider="botocore", error_msg=said)


def _entry(message: Outgoing) -> dict[str, str]:
    entry = {"Id": message.entry_id, "MessageBody": message.body}
    if message.group is not None:
        # A brand may be written in Vietnamese; SQS takes punctuation and ASCII only.
        named = GROUP_ID.fullmatch(message.group)
        entry["MessageGroupId"] = (
            message.group if named else hashlib.sha256(message.group.encode()).hexdigest()
        )
    return entry


def _delivery(queue: str, item: Mapping[str, Any]) -> Delivery:
    attributes = item.get("Attributes", {})
    return Delivery(
        queue=queue,
        message_id=item["MessageId"],
        handle=ReceiptHandle(item["ReceiptHandle"]),
        body=item.get("Body", ""),
        receive_count=int(attributes.get("ApproximateReceiveCount", 1)),
        attributes=attributes,
    )

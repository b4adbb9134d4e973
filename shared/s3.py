"""S3: where uploaded files lie. Beside shared/sqs.py the only importer of aiobotocore.

An object is written once under a key of its own and never changed. What it holds is checked by its
SHA-256 when it is read, so that nothing of S3 is trusted but that it keeps bytes. An upload that
was broken off leaves parts behind: they are dropped here, and by a lifecycle rule of the bucket.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError

from shared.sqs import ODD_CREDENTIALS, TRANSPORT_ERRORS, new_session

PART_BYTES = 8 << 20  # S3 takes 5 MiB at least, and 10,000 parts: 80 GB
CALL_SECONDS = 30.0
CHUNK_BYTES = 1 << 18
GONE = frozenset({"NoSuchKey", "NoSuchUpload", "404"})
# Addresses that an emulator or another store is named by; AWS's own are never set so.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class StorageUnavailable(Exception):
    """S3 did not do what it was asked for, and may do so later; the text says what was asked."""


class ObjectGone(Exception):
    """There is no such object (any more)."""


@dataclass(slots=True)
class S3Client:
    """One bucket. Whatever is wrong on the way raises StorageUnavailable."""

    bucket: str
    client: Any

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store what the chunks are together, in parts where it is large.

        Whatever `chunks` raises is raised, and nothing is stored then.
        """
        held, number, upload = bytearray(), 0, None
        parts: list[dict[str, Any]] = []
        try:
            async for chunk in chunks:
                held += chunk
                while len(held) >= PART_BYTES:
                    if upload is None:
                        upload = await self._begin(key)
                    number += 1
                    parts.append(await self._part(key, upload, number, bytes(held[:PART_BYTES])))
                    del held[:PART_BYTES]
            if upload is None:
                await self._ask("put_object", Key=key, Body=bytes(held))
                return
            if held:
                parts.append(await self._part(key, upload, number + 1, bytes(held)))
            done = {"Parts": parts}
            await self._ask(
                "complete_multipart_upload", Key=key, UploadId=upload, MultipartUpload=done
            )
        except BaseException:
            if upload is not None:
                # Shielded: a client that went away must not leave parts that nobody knows of.
                await asyncio.shield(self._abort(key, upload))
            raise

    async def get(self, key: str, *, chunk_bytes: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
        """The object's bytes; ObjectGone when it is not there."""
        answer = await self._ask("get_object", Key=key)
        try:
            async with answer["Body"] as body:
                while True:
                    async with asyncio.timeout(CALL_SECONDS):
                        chunk = await body.read(chunk_bytes)
                    if not chunk:
                        return
                    yield chunk
        except TRANSPORT_ERRORS as error:
            raise _unavailable("get_object", error) from error

    async def delete(self, key: str) -> None:
        """Remove it, and whatever uploads of it have been broken off. Idempotent."""
        await self._ask("delete_object", Key=key)
        listed = await self._ask("list_multipart_uploads", Prefix=key)
        for upload in listed.get("Uploads") or []:
            await self._abort(upload["Key"], upload["UploadId"])

    async def ready(self) -> None:
        """StorageUnavailable unless the bucket is there."""
        await self._ask("head_bucket")

    async def _begin(self, key: str) -> str:
        answer = await self._ask("create_multipart_upload", Key=key)
        return str(answer["UploadId"])

    async def _part(self, key: str, upload: str, number: int, body: bytes) -> dict[str, Any]:
        answer = await self._ask(
            "upload_part", Key=key, UploadId=upload, PartNumber=number, Body=body
        )
        return {"PartNumber": number, "ETag": answer["ETag"]}

    async def _abort(self, key: str, upload: str) -> None:
        with suppress(StorageUnavailable, ObjectGone):
            await self._ask("abort_multipart_upload", Key=key, UploadId=upload)

    async def _ask(self, call: str, **given: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer: dict[str, Any] = await getattr(self.client, call)(
                    Bucket=self.bucket, **given
                )
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code in GONE:
                raise ObjectGone(f"{call}: {code}") from error
            raise _unavailable(call, error) from error
        except (*TRANSPORT_ERRORS, *ODD_CREDENTIALS) as error:
            raise _unavailable(call, error) from error
        return answer


@dataclass(slots=True)
class S3:
    """The bucket as a process holds it open: its client is made at the first call."""

    bucket: str
    connect: Callable[[], Awaitable[Any]]
    client: S3Client | None = None
    connecting: asyncio.Lock | None = None

    async def connected(self) -> S3Client:
        """The client; StorageUnavailable where none can be made (yet): no region, credentials."""
        self.connecting = self.connecting or asyncio.Lock()
        async with self.connecting:
            if self.client is None:
                try:
                    async with asyncio.timeout(CALL_SECONDS):
                        self.client = S3Client(self.bucket, await self.connect())
                except (*TRANSPORT_ERRORS, *ODD_CREDENTIALS) as error:
                    raise _unavailable("connecting", error) from error
        return self.client


@asynccontextmanager
async def open_s3(bucket: str, *, pool: int = 10, attempts: int = 3) -> AsyncIterator[S3]:
    """Open nothing yet: the first call does. Endpoint, region and credentials are botocore's own
    settings (AWS_ENDPOINT_URL_S3, …).
    """
    own = any(os.environ.get(name) for name in ENDPOINTS)
    config = AioConfig(
        max_pool_connections=pool,
        connect_timeout=5,
        read_timeout=CALL_SECONDS,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        tcp_keepalive=True,
        # Another store is seldom reached by the name of a bucket, nor knows AWS's newest headers.
        s3={"addressing_style": "path" if own else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    region = os.environ.get("AWS_REGION") or None
    async with AsyncExitStack() as stack:

        async def connect() -> Any:
            client = new_session().create_client("s3", region_name=region, config=config)
            return await stack.enter_async_context(client)

        yield S3(bucket, connect)


def _unavailable(call: str, error: BaseException) -> StorageUnavailable:
    return StorageUnavailable(f"S3 {call}: {type(error).__name__}: {error}")

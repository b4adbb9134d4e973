"""Take a file: its bytes go on to S3 as they arrive, hashed on the way, and never lie here whole.

The row comes first, so that whatever is broken off is known and removed. The same bytes sent again
by the same account under the same name are the file that is there already: a client whose answer
was lost sends it again, and asks for the same work.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import UUID

from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import text
from starlette.requests import ClientDisconnect

from api.authentication import Caller
from api.bodies import Code
from api.gate import too_large
from api.problems import Problem, ProblemRaised, field_problem
from api.queries import refuse_nul
from api.resources import Resources
from api.submission import NOT_YOURS
from shared.s3 import S3, ObjectGone, StorageUnavailable
from shared.uploads import Upload, begin_upload, expire_upload, find_twin, finish_upload

CHUNK_SECONDS = 30.0  # who sends nothing for so long only holds a connection
UPLOADS_AT_ONCE = 16  # of a process; each holds one part (8 MiB)
CLOSE = {"Connection": "close"}
MEDIA_TYPE = "application/octet-stream"
PLACE_IS_KNOWN = text("""
    SELECT EXISTS (SELECT FROM books.companies WHERE code = :company) AS company,
           CAST(:brand AS text) IS NULL
           OR EXISTS (SELECT FROM books.brands
                       WHERE company = :company AND code = CAST(:brand AS text)) AS brand""")


def _plain_name(name: str) -> str:
    refuse_nul(name)
    if not name.isprintable() or "/" in name or "\\" in name or '"' in name or name != name.strip():
        raise ValueError("must be a file's name alone: printable, without / \\ or quotes")
    return name


class UploadQuery(BaseModel):
    """Whose file it is, and what it is called."""

    model_config = ConfigDict(extra="forbid")

    company: Code
    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain_name)]
    brand: Code | None = Field(None, description="of this brand only; null: of the whole company")
    sha256: Annotated[
        str | None,
        Field(pattern=r"^[0-9a-f]{64}$", description="of the body; one that differs is refused"),
    ] = None


@dataclass(slots=True)
class Places:
    """How many files are arriving at this process."""

    most: int
    taken: int = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place; ProblemRaised where none is free."""
        if self.taken >= self.most:
            detail = "too many files are arriving at this moment; send it again"
            raise ProblemRaised(Problem(slug="overloaded", detail=detail, headers=CLOSE))
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


PLACES = Places(UPLOADS_AT_ONCE)


@dataclass(slots=True)
class _Arriving:
    """A body on its way: what it counts and hashes is what S3 is given."""

    request: Request
    most: int
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body; ProblemRaised for one that is too large or stops arriving."""
        stream = self.request.stream()
        while True:
            try:
                async with asyncio.timeout(CHUNK_SECONDS):
                    chunk = await anext(stream, None)
            except TimeoutError:
                detail = f"nothing of the body has arrived for {CHUNK_SECONDS:g} s"
                raise ProblemRaised(
                    Problem(slug="body-too-slow", detail=detail, headers=CLOSE)
                ) from None
            except ClientDisconnect:
                # For the log: nobody hears it, and it is no error of ours.
                detail = "the client went away before its file was whole"
                raise ProblemRaised(Problem(slug="bad-request", detail=detail)) from None
            if chunk is None:
                return
            self.size += len(chunk)
            if self.size > self.most:
                raise ProblemRaised(too_large(self.most))
            self.digest.update(chunk)
            yield chunk


async def take_upload(
    request: Request, resources: Resources, query: UploadQuery, who: Caller
) -> tuple[Upload, bool]:
    """Store the body as a file; True: it is new. ProblemRaised with nothing left behind."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        detail = "send the file as it is, without Content-Encoding; a .gz stays one"
        raise ProblemRaised(Problem(slug="unsupported-media-type", detail=detail, headers=CLOSE))
    s3 = required_storage(resources)
    await _refuse_unknown_place(resources, query, who)
    with PLACES.one():
        upload_id, key = await resources.finish(
            _begin(resources, request, query, who), name="begin upload"
        )
        try:
            arriving = _Arriving(request, resources.settings.upload_bytes)
            try:
                await (await s3.connected()).put(key, arriving.chunks())
            except (StorageUnavailable, ObjectGone) as error:
                raise ProblemRaised(storage_unavailable(error)) from error
            _refuse_wrong(query, arriving)
            return await resources.finish(
                _finish(resources, upload_id, query, who, arriving), name="finish upload"
            )
        except BaseException:
            await resources.finish(_give_up(resources, upload_id), name="give up upload")
            raise


def required_storage(resources: Resources) -> S3:
    """Where files lie; ProblemRaised of an api that has no such place."""
    if resources.s3 is None:
        detail = "CHOT_FILES_BUCKET is not set: this api takes no files"
        raise ProblemRaised(Problem(slug="storage-unavailable", detail=detail, headers=CLOSE))
    return resources.s3


def storage_unavailable(error: Exception) -> Problem:
    """The 503: nothing is stored, and the same file may be sent again."""
    detail = f"files cannot be stored or read at this moment ({error}); send the request again"
    return Problem(slug="storage-unavailable", detail=detail, headers=CLOSE)


async def _refuse_unknown_place(resources: Resources, query: UploadQuery, who: Caller) -> None:
    """ProblemRaised for a company or brand that is none, or none of the account's."""
    binds = {"company": query.company, "brand": query.brand}
    async with resources.reading() as conn:
        known = (await conn.execute(PLACE_IS_KNOWN, binds)).one()
    value: str | None
    if not (known.company and who.scope.covers_company(query.company)):
        slug, member, value = "unknown-company", "company", query.company
    elif not (known.brand and who.scope.covers(query.company, query.brand)):
        slug, member, value = "unknown-brand", "brand", query.brand
    else:
        return
    if value is None:
        rule = (
            "is missing: this account has some brands only, and a file of no brand is the company's"
        )
        problem = field_problem("invalid-request", member, rule)
    else:
        problem = field_problem(slug, member, NOT_YOURS[slug], value)
    raise ProblemRaised(
        Problem(slug=slug, detail=problem.detail, errors=problem.errors, headers=CLOSE)
    )


def _refuse_wrong(query: UploadQuery, arriving: _Arriving) -> None:
    if not arriving.size:
        raise ProblemRaised(
            field_problem("invalid-request", "body", "must be the file; it is empty")
        )
    found = arriving.digest.hexdigest()
    if query.sha256 not in {None, found}:
        rule = f"is not that of the body, which is {found}; send the file again"
        raise ProblemRaised(field_problem("invalid-request", "sha256", rule, query.sha256))


async def _begin(
    resources: Resources, request: Request, query: UploadQuery, who: Caller
) -> tuple[UUID, str]:
    async with resources.transaction() as conn:
        return await begin_upload(
            conn,
            company=query.company,
            brand=query.brand,
            principal=who.principal,
            name=query.name,
            media_type=request.headers.get("content-type", MEDIA_TYPE)[:200],
        )


async def _finish(
    resources: Resources, upload_id: UUID, query: UploadQuery, who: Caller, arriving: _Arriving
) -> tuple[Upload, bool]:
    keep = resources.settings.upload_days * 86_400
    digest = arriving.digest.digest()
    async with resources.transaction() as conn:
        twin = await find_twin(
            conn,
            company=query.company,
            brand=query.brand,
            principal=who.principal,
            name=query.name,
            sha256=digest,
            keep=keep,
        )
        if twin is not None:
            await expire_upload(conn, upload_id)
            return twin, False
        done = await finish_upload(conn, upload_id, size=arriving.size, sha256=digest, keep=keep)
        return done, True


async def _give_up(resources: Resources, upload_id: UUID) -> None:
    async with resources.transaction() as conn:
        await expire_upload(conn, upload_id)

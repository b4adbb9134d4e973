"""Files that clients send: whole or not at all, of whoever may see them, and gone in the end."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api import uploads
from api.settings import ApiSettings
from dev.processes import free_port
from dev.sqs import ensure_bucket
from shared.access import Role
from shared.s3 import PART_BYTES, ObjectGone, open_s3
from shared.uploads import remove_expired_upload
from tests.factories import autocommit, execute, fetch, scalar
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key

ASK = "/v1/files?company=ACME&name=nh%E1%BA%ADp.csv"
CONTENT = b"doc_id\nPN1\n"


@pytest.fixture
def bucket(sqs_endpoint: str) -> str:
    name = f"t-{secrets.token_hex(6)}"
    ensure_bucket(sqs_endpoint, name)
    return name


@pytest.fixture
async def files(settings: ApiSettings, bucket: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an api that takes files."""
    async with serving(settings.model_copy(update={"files_bucket": bucket})) as ready:
        yield ready


async def parts_of(content: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def stored(engine: AsyncEngine, bucket: str) -> list[tuple[str, bytes | None]]:
    """Each row's state, and what its object holds."""
    found: list[tuple[str, bytes | None]] = []
    async with open_s3(bucket) as s3:
        client = await s3.connected()
        for row in await fetch(engine, "SELECT state, object_key FROM chot.uploads ORDER BY id"):
            try:
                content = b"".join([part async for part in client.get(row.object_key)])
            except ObjectGone:
                content = None
            found.append((row.state, content))
    return found


@pytest.mark.parametrize("size", [1, PART_BYTES, 2 * PART_BYTES + 1])
async def test_what_was_sent_is_had_again_to_the_byte(files: httpx.AsyncClient, size: int) -> None:
    """In one part or in many; its hash, size and name are told."""
    content = secrets.token_bytes(size)
    digest = hashlib.sha256(content).hexdigest()
    sent = await files.post(f"{ASK}&sha256={digest}", content=parts_of(content))
    assert sent.status_code == 201, sent.text
    told = sent.json()
    assert (told["size"], told["sha256"], told["name"]) == (size, digest, "nhập.csv")
    assert sent.headers["location"] == told["url"]
    got = await files.get(told["url"])
    assert got.content == content
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''nh%E1%BA%ADp.csv"
    looked = await files.head(told["url"])
    assert looked.headers["etag"] == f'"{digest}"'
    known = await files.get(told["url"], headers={"If-None-Match": looked.headers["etag"]})
    assert known.status_code == 304


async def test_the_same_file_sent_again_is_the_one_that_is_there(
    files: httpx.AsyncClient, engine: AsyncEngine, bucket: str
) -> None:
    """Also when both arrive at once, or the first answer was lost; its bytes lie there once."""
    first = await files.post(ASK, content=CONTENT)
    again = await files.post(ASK, content=CONTENT)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = await files.post(ASK.replace("csv", "txt"), content=CONTENT)
    assert other.status_code == 201
    assert [state for state, _ in await stored(engine, bucket)] == ["ready", "removed", "ready"]


@pytest.mark.parametrize(
    ("query", "slug", "status"),
    [
        ("company=NONE&name=a.csv", "unknown-company", 422),
        ("company=ACME&brand=NONE&name=a.csv", "unknown-brand", 422),
        ("company=ACME&name=a%2Fb.csv", "invalid-request", 422),
        ("company=ACME&name=a%00b.csv", "invalid-request", 422),
        ("company=ACME", "invalid-request", 422),
        ("company=ACME&name=a.csv&sha256=00", "invalid-request", 422),
        (f"company=ACME&name=a.csv&sha256={'0' * 64}", "invalid-request", 422),
        ("company=ACME&name=a.csv&other=1", "invalid-request", 422),
    ],
)
async def test_what_is_no_file_of_anybody_is_refused(
    files: httpx.AsyncClient, query: str, slug: str, status: int
) -> None:
    """With the member and the rule."""
    problem_of(await files.post(f"/v1/files?{query}", content=CONTENT), status, slug)


async def test_empty_encoded_and_too_large_bodies_are_refused(
    settings: ApiSettings, bucket: str, engine: AsyncEngine
) -> None:
    """As announced, or as it turns out; nothing of them is kept."""
    small = settings.model_copy(update={"files_bucket": bucket, "upload_bytes": 1 << 20})
    async with serving(small) as files:
        problem_of(await files.post(ASK, content=b""), 422, "invalid-request")
        packed = await files.post(ASK, content=b"x", headers={"Content-Encoding": "gzip"})
        problem_of(packed, 415, "unsupported-media-type")
        for content in (bytes((1 << 20) + 1), parts_of(bytes((1 << 20) + 1))):
            problem_of(await files.post(ASK, content=content), 413, "too-large")
    assert {content for _, content in await stored(engine, bucket)} <= {None, b""}


async def test_a_file_is_of_its_company_and_brand(
    settings: ApiSettings, bucket: str, owner_engine: AsyncEngine
) -> None:
    """404 for all others, in the words of an id that nobody has; nor may they remove it."""
    await execute(owner_engine, SEED_OTHER)
    secured = settings.model_copy(update={"files_bucket": bucket, "api_open": False})
    roles = (Role.SUBMIT, Role.READ)
    keys = {
        name: await make_key(owner_engine, *roles, scope=scope, principal=name)
        for name, scope in (("acme", ACME), ("red", RED), ("blue", BLUE), ("other", OTHER))
    }
    async with serving(secured) as files:
        files.headers.update(bearer(keys["acme"]))
        whole = (await files.post(ASK, content=CONTENT)).json()["url"]
        asked = f"{ASK}&brand=RED"
        red = (await files.post(asked, content=CONTENT, headers=bearer(keys["red"]))).json()["url"]
        refused = await files.post(ASK, content=CONTENT, headers=bearer(keys["red"]))
        problem = problem_of(refused, 422, "unknown-brand")
        assert problem["errors"][0]["rule"].startswith("is missing: this account has some brands")
        elsewhere = await files.post(ASK, content=CONTENT, headers=bearer(keys["other"]))
        problem_of(elsewhere, 422, "unknown-company")
        seen = {
            name: [(await files.get(url, headers=bearer(key))).status_code for url in (whole, red)]
            for name, key in keys.items()
        }
        assert seen == {
            "acme": [200, 200],
            "red": [404, 200],
            "blue": [404, 404],
            "other": [404, 404],
        }
        gone = await files.delete(whole, headers=bearer(keys["other"]))
        problem_of(gone, 404, "file-not-found")
        assert (await files.delete(whole)).json()["url"] == whole
        problem_of(await files.get(whole), 404, "file-not-found")


async def test_while_s3_is_away_files_are_503_and_leave_nothing(
    settings: ApiSettings, monkeypatch: pytest.MonkeyPatch, engine: AsyncEngine
) -> None:
    """All else is served; an api without a bucket says so."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    async with serving(settings.model_copy(update={"files_bucket": "nowhere"})) as files:
        answer = await files.post(ASK, content=CONTENT)
        problem_of(answer, 503, "storage-unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await files.get("/v1/jobs")).status_code == 200
    assert await scalar(engine, "SELECT count(*) FROM chot.uploads WHERE state = 'ready'") == 0
    async with serving(settings) as files:
        refused = problem_of(await files.post(ASK, content=CONTENT), 503, "storage-unavailable")
        assert "CHOT_FILES_BUCKET" in refused["detail"]


async def test_a_body_that_stops_arriving_is_given_up(
    files: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, engine: AsyncEngine, bucket: str
) -> None:
    """408, and its parts are dropped."""
    monkeypatch.setattr(uploads, "CHUNK_SECONDS", 0.2)
    held = asyncio.Event()

    async def stops() -> AsyncIterator[bytes]:
        yield bytes(PART_BYTES + 1)
        await held.wait()

    answer = await files.post(ASK, content=stops())
    held.set()
    problem_of(answer, 408, "body-too-slow")
    assert await stored(engine, bucket) == [("removed", None)]


async def test_expired_files_are_removed_with_their_bytes(
    files: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine, bucket: str
) -> None:
    """Found by nobody at once, removed after the grace; those that never arrived too."""
    url = (await files.post(ASK, content=CONTENT)).json()["url"]
    key = await scalar(engine, "SELECT object_key FROM chot.uploads")
    await execute(
        owner_engine, "UPDATE chot.uploads SET expires_at = clock_timestamp() - interval '1 hour'"
    )
    problem_of(await files.get(url), 404, "file-not-found")
    async with open_s3(bucket) as s3:
        auto = autocommit(engine)
        assert not await remove_expired_upload(auto, s3, grace=7200)
        assert await remove_expired_upload(auto, s3, grace=60)
        assert not await remove_expired_upload(auto, s3, grace=60)
    async with open_s3(bucket) as s3:
        with pytest.raises(ObjectGone):
            await anext((await s3.connected()).get(key))

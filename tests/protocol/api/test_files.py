"""Files over HTTP: whole and byte for byte, of whoever may have them, however slowly they are taken."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, MutableMapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api import file_stream
from api.app import create_app
from api.settings import ApiSettings
from shared.access import Role
from shared.files import CHUNK_BYTES, read_chunk
from tests.cost_run_rows import write_file
from tests.factories import execute
from tests.protocol.api.app import client_of, problem_of, serving, until_ready
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key

CONTENT = os.urandom(2 * CHUNK_BYTES + 17)


async def test_a_file_is_what_was_stored_to_the_byte(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Length, type, name and hash stand in its head, for GET and HEAD alike."""
    file_id = await write_file(owner_engine, CONTENT)
    got = await client.get(f"/v1/files/{file_id}")
    assert got.status_code == 200
    assert got.content == CONTENT
    looked = await client.head(f"/v1/files/{file_id}")
    for answer in (got, looked):
        assert answer.headers["content-length"] == str(len(CONTENT))
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="costs.csv"'
        assert answer.headers["etag"] == f'"{hashlib.sha256(CONTENT).hexdigest()}"'
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert looked.content == b""


async def test_who_has_it_gets_304(client: httpx.AsyncClient, owner_engine: AsyncEngine) -> None:
    """By any of the tags sent; another tag gets it whole."""
    file_id = await write_file(owner_engine, b"abc")
    etag = (await client.head(f"/v1/files/{file_id}")).headers["etag"]
    for known in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        answer = await client.get(f"/v1/files/{file_id}", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == etag
    answer = await client.get(f"/v1/files/{file_id}", headers={"If-None-Match": '"x"'})
    assert (answer.status_code, answer.content) == (200, b"abc")


async def test_an_empty_file_is_one(client: httpx.AsyncClient, owner_engine: AsyncEngine) -> None:
    """Without any chunk."""
    file_id = await write_file(owner_engine, b"")
    answer = await client.get(f"/v1/files/{file_id}")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")


async def test_what_is_being_written_and_what_has_expired_is_none(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """404, in the words of an id that nobody has."""
    building = await write_file(owner_engine, b"half", state="building")
    expired = await write_file(owner_engine, b"old", seconds=-1)
    for file_id in (building, expired, uuid4(), "no-uuid"):
        for ask in (client.get, client.head):
            answer = await ask(f"/v1/files/{file_id}")
            assert answer.status_code == 404
        problem_of(await client.get(f"/v1/files/{file_id}"), 404, "file-not-found")


async def test_a_file_is_of_its_brand_or_of_the_whole_company(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """A file of the whole company holds what a brand's key must not see."""
    await execute(owner_engine, SEED_OTHER)
    red = await write_file(owner_engine, b"red", brand="RED")
    whole = await write_file(owner_engine, b"whole")
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        for scope, sees in ((RED, {red}), (BLUE, set()), (OTHER, set()), (ACME, {red, whole})):
            key = bearer(await make_key(owner_engine, Role.READ, scope=scope))
            for file_id in (red, whole):
                answer = await client.get(f"/v1/files/{file_id}", headers=key)
                if file_id in sees:
                    assert answer.status_code == 200
                    continue
                problem = problem_of(answer, 404, "file-not-found")
                none = uuid4()
                other = problem_of(
                    await client.get(f"/v1/files/{none}", headers=key), 404, "file-not-found"
                )
                assert problem["detail"].replace(str(file_id), "") == other["detail"].replace(
                    str(none), ""
                )
                assert (await client.head(f"/v1/files/{file_id}", headers=key)).status_code == 404
        writer = bearer(await make_key(owner_engine, Role.SUBMIT))
        problem_of(await client.get(f"/v1/files/{red}", headers=writer), 403, "forbidden")


class SlowClient:
    """An ASGI client whose socket takes one message at a time, when it is told to."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []
        self.room = asyncio.Semaphore(1)
        self.came = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.room.acquire()
        self.messages.append(message)
        self.came.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


@pytest.fixture
async def chunks_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the chunks that the api has read."""
    read: list[int] = []

    async def counted(conn: Any, file_id: UUID, number: int) -> bytes | None:
        read.append(number)
        return await read_chunk(conn, file_id, number)

    monkeypatch.setattr(file_stream, "read_chunk", counted)
    return read


@pytest.fixture
async def raw(settings: ApiSettings) -> AsyncIterator[Any]:
    """Ask for a path as an ASGI server would; answers the task that serves it."""
    app = create_app(settings)
    tasks: list[asyncio.Task[None]] = []

    def ask(path: str, client: SlowClient) -> asyncio.Task[None]:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"api.test")],
            "client": ("127.0.0.1", 1),
            "server": ("api.test", 80),
        }
        tasks.append(asyncio.create_task(app(scope, client.receive, client.send)))
        return tasks[-1]

    async with app.router.lifespan_context(app), client_of(app) as ready:
        await until_ready(ready)
        yield ask
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_slow_client_holds_one_chunk_and_no_connection(
    raw: Any, owner_engine: AsyncEngine, chunks_read: list[int]
) -> None:
    """What it has not taken has not been read, whatever the file's size; in the end it has all."""
    content = os.urandom(40 * 1000)
    file_id = await write_file(owner_engine, content, chunk=1000)
    slow = SlowClient()
    serving_it = raw(f"/v1/files/{file_id}", slow)
    await slow.came.wait()  # the head is out, and the first chunk waits for room
    for taken in range(1, 40):
        slow.came.clear()
        slow.room.release()
        await slow.came.wait()
        assert len(slow.messages) == 1 + taken
        # One is in hand, and the next may be, while the socket says that it took the last one.
        assert len(chunks_read) <= taken + 1, "no chunk is read before the last one is taken"
    slow.room.release()
    slow.room.release()
    await serving_it
    assert slow.body == content
    assert chunks_read == list(range(40))


async def test_a_client_that_goes_away_ends_the_reading(
    raw: Any, owner_engine: AsyncEngine, chunks_read: list[int]
) -> None:
    """The rest of the file is not read for nobody."""
    file_id = await write_file(owner_engine, os.urandom(5000), chunk=1000)
    slow = SlowClient()
    serving_it = raw(f"/v1/files/{file_id}", slow)
    await slow.came.wait()
    slow.gone.set()
    await serving_it
    assert len(chunks_read) <= 2


async def test_a_client_that_takes_nothing_is_let_go(
    raw: Any, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an end to its answer, so that it knows that it has not all of it."""
    monkeypatch.setattr(file_stream, "STALLED_SECONDS", 0.05)
    file_id = await write_file(owner_engine, os.urandom(5000), chunk=1000)
    slow = SlowClient()
    await raw(f"/v1/files/{file_id}", slow)
    assert [message["type"] for message in slow.messages] == ["http.response.start"]


async def test_a_file_that_is_removed_under_a_download_ends_it_as_broken(
    raw: Any, owner_engine: AsyncEngine
) -> None:
    """Its end never comes: a client compares the length, and has no half file for a whole one."""
    file_id = await write_file(owner_engine, os.urandom(5000), chunk=1000)
    slow = SlowClient()
    serving_it = raw(f"/v1/files/{file_id}", slow)
    await slow.came.wait()
    await execute(owner_engine, "DELETE FROM chot.file_chunks WHERE number = 2")
    for _ in range(10):
        slow.room.release()
    with pytest.raises(file_stream.FileCut):
        await serving_it
    assert all(message.get("more_body", True) for message in slow.messages)

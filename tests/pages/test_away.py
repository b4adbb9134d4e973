"""Pages while SQS or PostgreSQL is away: they say so in words, and come back by themselves."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx
import pytest
from playwright.async_api import expect

from dev.postgres import TEST_SETTINGS, PostgresServer, start_postgres
from dev.sqs import SqsServer, sqs_client, start_sqs
from tests.factories import eventually
from tests.pages.browsing import text_of, token_in
from tests.pages.chromium import open_window, shot
from tests.pages.stack import Stack, open_stack
from tests.services import DatabaseServer, start_private_postgres

pytestmark = [pytest.mark.long, pytest.mark.pages]


@dataclass(frozen=True, slots=True)
class Ground:
    """The stack's own servers, which a test may stop."""

    stack: Stack
    postgres: PostgresServer
    sqs: SqsServer


@pytest.fixture
def ground(services_home: Path, tmp_path: Path) -> Iterator[Ground]:
    """A stack that shares nothing with other tests."""
    home = services_home / f"own{secrets.token_hex(4)}"
    home.mkdir(mode=0o755)
    postgres, sqs = start_private_postgres(home / "postgres"), start_sqs(home / "sqs.log")
    databases = DatabaseServer(postgres.url())
    try:
        databases.prepare()
        mine = databases.create()
        client = sqs_client(sqs.endpoint)
        with open_stack(mine, "away", sqs.endpoint, tmp_path, client) as stack:
            yield Ground(stack, postgres, sqs)
        client.close()
    finally:
        sqs.stop()
        postgres.stop()


@pytest.fixture
async def reader(ground: Ground) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who may everything, logged in."""
    cookies = {"chot_session": ground.stack.cookie("admin")}
    async with httpx.AsyncClient(base_url=ground.stack.url, cookies=cookies, timeout=30) as client:
        yield client


# An hour has passed, and it is time to try again.
LATE = """
    UPDATE chot.outbox SET created_at = created_at - interval '1 hour',
           next_send_at = clock_timestamp()"""


async def test_with_sqs_away_every_page_answers_and_says_what_waits(
    ground: Ground, reader: httpx.AsyncClient
) -> None:
    """Work is taken in and dead work is run again all the same; the pages tell what it waits for."""
    stack = ground.stack
    ground.sqs.stop()
    waiting = stack.submit({})
    places = ["/ui/", "/ui/jobs", "/ui/dead-letters", "/ui/runs", "/ui/simulator"]
    places += [f"/ui/jobs/{each}" for each in (*stack.jobs.values(), waiting)]
    for place in places:
        page = await reader.get(place)
        assert page.status_code == 200, (place, text_of(page.text))
    letters = await reader.get("/ui/dead-letters")
    form = {"csrf": token_in(letters.text), "ids": stack.jobs["dead"]}
    done = await reader.post("/ui/dead-letters/redrive", data=form)
    assert done.status_code == 200, text_of(done.text)

    await until_said(reader, f"/ui/jobs/{waiting}", "SQS")
    connection = await asyncpg.connect(stack.database.superuser_url)
    await connection.execute(LATE)
    await connection.close()
    await until_said(reader, "/ui/", "Messages wait for SQS: the oldest for 1 h")
    assert stack.fleet.events(stack.fleet.children[0], "request.failed") == []


async def until_said(reader: httpx.AsyncClient, place: str, words: str) -> None:
    """Look at a page until it says that."""
    seen = ""

    async def said() -> bool:
        nonlocal seen
        page = await reader.get(place)
        seen = text_of(page.text)
        return page.status_code == 200 and words in seen

    try:
        await eventually(said, seconds=60, every=0.5)
    except AssertionError as error:
        raise AssertionError(f"{place}: {seen}") from error


async def test_with_postgresql_away_pages_say_so_and_come_back_by_themselves(
    ground: Ground,
) -> None:
    """An open page says that it shows what was; a page that is asked for asks again by itself."""
    async with open_window(ground.stack) as window:
        watched, asked = await window.open("/ui/"), await window.open("/ui/jobs")
        await watched.locator("#live.on").wait_for()
        await asyncio.to_thread(ground.postgres.crash)
        await expect(watched.locator("#live")).to_contain_text(
            "the database does not answer", timeout=30_000
        )
        await expect(watched.locator("#queue-default")).to_be_visible()
        answer = await asked.reload()
        assert answer is not None
        assert answer.status == 503
        await expect(asked.locator("main")).to_contain_text("The database cannot be reached")
        await shot(asked, "database-away")
        back = await asyncio.to_thread(again, ground.postgres)
        try:
            await expect(watched.locator("#live.on")).to_be_visible(timeout=30_000)
            await expect(asked.locator("h1")).to_have_text("Jobs", timeout=30_000)
            window.complaints.clear()  # of the 503, which was asked for
        finally:
            back.stop()


def again(postgres: PostgresServer) -> PostgresServer:
    """The same server once more, on its port."""
    chosen = os.environ.get("CHOT_TEST_POSTGRES_BIN")
    bin_dir = Path(chosen) if chosen else None
    return start_postgres(
        postgres.data, bin_dir=bin_dir, port=postgres.port, settings=TEST_SETTINGS
    )

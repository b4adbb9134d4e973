"""Sessions have a row: what is signed is not enough, and what is ended is ended everywhere."""

import asyncio
import secrets
from datetime import timedelta
from time import time
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from api.authentication import OWNER
from api.resources import open_resources
from api.settings import ApiSettings
from api.ui.paths import HOME
from api.ui.session import COOKIE, OF_BEFORE_SECONDS, SESSION_SECONDS, Sessions
from shared.access import Role
from shared.api_keys import key_id_of
from shared.database import open_engine
from shared.restored import mark_restored
from shared.sessions import MOST_OF_A_KEY, TOKEN_BYTES, begin_session, token_hash_of
from tests.factories import autocommit, execute, fetch, scalar
from tests.pages.browsing import guarded, log_in, token_in
from tests.protocol.api.keys import make_key
from worker.retention import Retention

OVER = SESSION_SECONDS + OF_BEFORE_SECONDS
ROWS = "SELECT count(*) FROM chot.sessions"


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look asks the database, so that what has ended is seen at once."""
    monkeypatch.setattr("api.ui.session.CACHE_SECONDS", 0.0)


async def opens(client: httpx.AsyncClient, cookie: str) -> bool:
    """Whether this cookie opens the overview, whatever else the browser has."""
    page = await client.get(HOME, headers={"Cookie": f"{COOKIE}={cookie}"})
    assert page.status_code in {200, 303}, page.text
    return page.status_code == 200


def sessions_of(client: httpx.AsyncClient) -> Sessions:
    """The sessions of the api that this client talks to."""
    transport: Any = client._transport
    found: Sessions = transport.app.state.sessions
    return found


async def signed(client: httpx.AsyncClient, account: str, seed: str, began: float) -> str:
    """A cookie as whoever has the secrets of the database may make it: a dump's reader, an old api."""
    return await sessions_of(client).signer.sign([account, int(began), seed])


async def since(engine: AsyncEngine, ago: float) -> None:
    """Sessions have had rows for so many seconds."""
    change = """UPDATE chot.deployment
                   SET sessions_since = clock_timestamp() - make_interval(secs => :ago)"""
    await execute(engine, change, ago=ago)


async def test_of_a_session_the_database_keeps_a_hash(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """256 bits in the cookie; its SHA-256, the key and two times in the database."""
    key = await make_key(owner_engine, Role.READ)
    await log_in(visitor, key)
    cookie = visitor.cookies[COOKIE]
    account, _, token = await sessions_of(visitor).signer.read(cookie)
    assert account == key_id_of(key)
    assert len(token) == 43, "256 bits, six in a character"
    (row,) = await fetch(owner_engine, "SELECT * FROM chot.sessions")
    assert (row.token_hash, row.key_id) == (token_hash_of(token), account)
    assert (
        timedelta(0) <= row.expires_at - row.issued_at - timedelta(hours=12) < timedelta(seconds=5)
    )
    assert token not in str(row)


async def test_a_dump_forges_no_session(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """All that PostgreSQL holds, secrets and hashes, makes no cookie that is believed."""
    key = await make_key(owner_engine, Role.ADMIN)
    await log_in(visitor, key)
    assert await opens(visitor, visitor.cookies[COOKIE])
    await since(owner_engine, OVER)
    account = str(key_id_of(key))
    (row,) = await fetch(owner_engine, "SELECT token_hash FROM chot.sessions")
    for seed in (
        secrets.token_urlsafe(TOKEN_BYTES),
        secrets.token_urlsafe(16),  # as short as the version before had them
        bytes(row.token_hash).hex(),
        "x",
    ):
        for began in (time(), time() - SESSION_SECONDS + 60):
            assert not await opens(visitor, await signed(visitor, account, seed, began)), seed
    strange = await signed(visitor, "\0", secrets.token_urlsafe(TOKEN_BYTES), time())
    assert not await opens(visitor, strange), "no query is asked about what no cookie of ours says"


async def test_a_session_is_of_the_key_that_it_was_begun_by(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """With the secrets of a dump a small key's own session makes no admin."""
    small = await make_key(owner_engine, Role.READ)
    admin = await make_key(owner_engine, Role.ADMIN)
    await log_in(visitor, small)
    _, began, token = await sessions_of(visitor).signer.read(visitor.cookies[COOKIE])
    await since(owner_engine, OVER)
    assert not await opens(visitor, await signed(visitor, str(key_id_of(admin)), token, began))


async def test_logging_out_ends_every_copy(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, settings: ApiSettings
) -> None:
    """A copied cookie is worth nothing in any process; another session of the key goes on."""
    key = await make_key(owner_engine, Role.READ)
    async with guarded(settings) as elsewhere:
        await log_in(elsewhere, key)
        await log_in(visitor, key)
        copy, other = visitor.cookies[COOKIE], elsewhere.cookies[COOKIE]
        assert await opens(elsewhere, copy)
        page = await visitor.get(HOME)
        done = await visitor.post("/ui/logout", data={"csrf": token_in(page.text)})
        assert done.headers["location"] == "/ui/login?bye=1"
        assert not await opens(visitor, copy)
        assert not await opens(elsewhere, copy)
        assert await opens(elsewhere, other)
    assert await scalar(owner_engine, ROWS) == 1


async def test_logging_out_everywhere_ends_the_keys_sessions(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, settings: ApiSettings
) -> None:
    """All of this key's, none of another's; the audit says who did it and how many they were."""
    key, other = [
        await make_key(owner_engine, Role.READ, principal=name) for name in ("night", "day")
    ]
    async with guarded(settings) as second, guarded(settings) as third:
        for client, who in ((visitor, key), (second, key), (third, other)):
            await log_in(client, who)
        copies = [each.cookies[COOKIE] for each in (visitor, second)]
        others = third.cookies[COOKIE]
        page = await visitor.get(HOME)
        sent = {"csrf": token_in(page.text), "everywhere": "1"}
        assert 'name="everywhere"' in page.text
        await visitor.post("/ui/logout", data=sent)
        for copy in copies:
            assert not await opens(third, copy)
        assert await opens(third, others)
    (act,) = await fetch(owner_engine, "SELECT * FROM chot.audit WHERE action = 'key.logout'")
    assert (act.principal, act.target) == ("night", key_id_of(key))
    assert act.facts == {"account": "night", "sessions": 2}


async def test_logging_out_everywhere_with_the_deployments_token(settings: ApiSettings) -> None:
    """Its sessions are a key's, too; those of stored keys stay."""
    token = "the-deployments-own-token"  # noqa: S105 - of this test
    known = settings.model_copy(update={"token": SecretStr(token)})
    async with guarded(known) as first, guarded(known) as second:
        await log_in(first, token)
        await log_in(second, token)
        copies = [first.cookies[COOKIE], second.cookies[COOKIE]]
        page = await first.get(HOME)
        await first.post("/ui/logout", data={"csrf": token_in(page.text), "everywhere": "1"})
        for copy in copies:
            assert not await opens(second, copy)


async def test_an_older_api_and_a_newer_one_log_nobody_out(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """What each of them signs the other one believes, within the hour of a deployment."""
    key = await make_key(owner_engine, Role.READ)
    await log_in(visitor, key)
    account, mine = str(key_id_of(key)), visitor.cookies[COOKIE]
    # The older one wants a text, a whole number and a text, signed with the same secrets.
    read = await sessions_of(visitor).signer.read(mine)
    assert [type(each) for each in read] == [str, int, str]
    assert len(mine) < 300
    seed = secrets.token_urlsafe(16)
    old = await signed(visitor, account, seed, time() - 3600)
    assert await opens(visitor, old)
    assert await scalar(owner_engine, "SELECT sessions_since FROM chot.deployment") is not None
    await since(owner_engine, OF_BEFORE_SECONDS - 60)
    assert await opens(visitor, await signed(visitor, account, seed, time()))
    await since(owner_engine, OF_BEFORE_SECONDS + 60)
    assert not await opens(visitor, await signed(visitor, account, seed, time()))
    assert await opens(visitor, old), "it began before"
    await since(owner_engine, OVER)
    assert not await opens(visitor, old)
    assert await opens(visitor, mine)


async def test_a_logout_within_that_hour_is_one_all_the_same(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A session that had a row is none of the version before."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    copy = visitor.cookies[COOKIE]
    assert await opens(visitor, copy)
    await since(owner_engine, 0)
    await execute(owner_engine, "DELETE FROM chot.sessions")
    assert not await opens(visitor, copy)


async def test_a_row_that_is_over_is_none(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, engine: AsyncEngine
) -> None:
    """By the database's clock, too; and retention removes it, in batches, and no other."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    async with engine.begin() as conn:
        for _ in range(3):
            await begin_session(conn, secrets.token_urlsafe(TOKEN_BYTES), "elsewhere")
    age = """UPDATE chot.sessions SET issued_at = issued_at - interval '13 hours',
                    expires_at = expires_at - interval '13 hours' WHERE key_id <> 'elsewhere'"""
    await execute(owner_engine, age)
    assert not await opens(visitor, visitor.cookies[COOKIE])
    many = """INSERT INTO chot.sessions (token_hash, key_id, issued_at, expires_at)
              SELECT sha256(n::text::bytea), 'old', clock_timestamp() - interval '1 day',
                     clock_timestamp() - interval '1 hour' FROM generate_series(1, 1200) AS n"""
    await execute(owner_engine, many)
    await Retention(archive_after_days=0, archive_keep_days=0).step(autocommit(engine))
    rows = await fetch(owner_engine, "SELECT DISTINCT key_id FROM chot.sessions")
    assert [row.key_id for row in rows] == ["elsewhere"]


async def test_a_key_has_so_many_sessions_and_the_oldest_end(
    engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A script that logs in for ever fills no table."""
    tokens = [f"token {n}" for n in range(MOST_OF_A_KEY + 3)]
    for token in tokens:
        async with engine.begin() as conn:
            await begin_session(conn, token, "busy")
            await begin_session(conn, f"{token} of another", "other")
    rows = await fetch(owner_engine, "SELECT token_hash FROM chot.sessions WHERE key_id = 'busy'")
    kept = {bytes(row.token_hash) for row in rows}
    assert kept == {token_hash_of(token) for token in tokens[3:]}


async def test_a_restored_copy_has_no_sessions(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """`chot doctor --restored` ends all of them, rows and secrets."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    cookie = visitor.cookies[COOKIE]
    async for _ in mark_restored(owner_engine):
        pass
    assert not await opens(visitor, cookie)
    assert await scalar(owner_engine, ROWS) == 0


async def test_three_hundred_streams_are_one_query(
    settings: ApiSettings, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a session of its own: together they ask once in CACHE_SECONDS, and get their own."""
    monkeypatch.undo()
    closed = settings.model_copy(update={"api_open": False})
    keys = [
        str(key_id_of(await make_key(owner_engine, Role.READ, principal=f"p{n}"))) for n in (1, 2)
    ]
    async with open_resources(closed, {}) as resources:
        resources.unready = None
        sessions = Sessions(resources)
        cookies = [
            await sessions.signer.sign([keys[n % 2], int(time()), f"{n:043d}"]) for n in range(300)
        ]
        rows = [{"h": token_hash_of(f"{n:043d}"), "k": keys[n % 2]} for n in range(299)]
        for row in rows:
            await execute(
                resources.engine,
                """INSERT INTO chot.sessions (token_hash, key_id, expires_at)
                   VALUES (:h, :k, clock_timestamp() + interval '1 hour')""",
                **row,
            )
        for _ in range(3):  # looks of a page, of which only the first one asks
            found = await asyncio.gather(*(sessions.read(each) for each in cookies))
            said = [each.caller.principal if each else None for each in found]
            assert said == [f"p{1 + n % 2}" for n in range(299)] + [None]
        # The first look is one; who has no row is asked again each time, together with nobody.
        assert sessions.rows.queries <= 3 + 1


async def test_a_database_that_is_away_is_told_to_all_who_ask(settings: ApiSettings) -> None:
    """They share the failure as they share the query; nobody waits for one after the other."""
    closed = settings.model_copy(update={"api_open": False})
    async with open_resources(closed, {}) as resources:
        resources.unready = None
        sessions = Sessions(resources)
        cookies = [await sessions.begin(OWNER) for _ in range(20)]
        resources.engine = open_engine("postgresql://chot_app@127.0.0.1:1/none", pool_size=1)
        found = await asyncio.gather(
            *(sessions.read(each) for each in cookies), return_exceptions=True
        )
        assert all(isinstance(each, OSError) for each in found), found[0]
        assert sessions.rows.queries == 1
        await resources.engine.dispose()

"""Login: a key becomes a session, and nothing else does; the session is worth what the key is."""

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from itsdangerous import URLSafeSerializer
from pydantic import SecretStr
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from api.ui.paths import HOME, safe_place
from api.ui.routes.login import WRONG_BURST
from api.ui.session import COOKIE, SESSION_SECONDS
from shared.access import Role
from shared.api_keys import key_id_of, new_key, revoke_key
from tests.factories import eventually, execute, scalar
from tests.pages.browsing import guarded, log_in, text_of, token_in
from tests.protocol.api.app import serving
from tests.protocol.api.keys import RED, bearer, make_key

PRIVATE = [
    "/ui/",
    "/ui/events",
    "/ui/jobs",
    "/ui/dead-letters",
    "/ui/simulator",
    "/ui/nowhere",
    "/ui",
]


def cookie_line(answer: httpx.Response, name: str) -> str:
    """The Set-Cookie of this name."""
    (found,) = [
        each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{name}=")
    ]
    return str(found)


async def is_in(client: httpx.AsyncClient) -> bool:
    """Whether the overview opens; otherwise it must send to the login page."""
    page = await client.get(HOME)
    assert page.status_code in {200, 303}, text_of(page.text)
    if page.status_code == 303:
        assert page.headers["location"].startswith("/ui/login")
    return page.status_code == 200


async def test_a_key_opens_the_overview(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """The way in, and what it leaves in the browser: not the key."""
    assert not await is_in(visitor)
    key = await make_key(owner_engine, Role.READ, principal="night")
    done = await log_in(visitor, key)
    assert (done.status_code, done.headers["location"]) == (303, HOME), text_of(done.text)
    page = await visitor.get(HOME)
    assert page.status_code == 200
    assert "night" in page.text
    assert key not in page.text + str(dict(visitor.cookies))


async def test_the_cookie_is_for_us_alone(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """No script reads it, no other path and no other site's POST sends it, and it ends."""
    done = await log_in(visitor, await make_key(owner_engine, Role.READ))
    said = {part.strip().lower() for part in cookie_line(done, COOKIE).split(";")[1:]}
    assert said == {"httponly", "path=/ui", "samesite=lax", f"max-age={SESSION_SECONDS}"}
    form = cookie_line(await visitor.get("/ui/login?x", headers={"Cookie": ""}), "chot_form")
    assert "samesite=strict" in form.lower()
    assert "httponly" in form.lower()


@pytest.mark.parametrize(
    ("url", "headers", "secure"),
    [
        ("http://127.0.0.1:8000", {}, False),
        ("http://localhost", {}, False),
        ("http://[::1]", {}, False),
        ("http://10.0.0.5", {}, True),
        ("http://chot.internal", {}, True),
        ("http://localhost.evil.example", {}, True),
        # A proxy beside us that speaks https outside and http to 127.0.0.1.
        ("http://127.0.0.1:8000", {"X-Forwarded-For": "10.1.2.3"}, True),
    ],
)
async def test_cookies_are_for_https_but_on_this_very_machine(
    settings: ApiSettings, url: str, headers: dict[str, str], *, secure: bool
) -> None:
    """A cookie that went over a network in the clear would be anybody's."""
    closed = settings.model_copy(update={"api_open": False})
    async with serving(closed) as client:
        page = await client.get(f"{url}/ui/login", headers=headers)
    assert ("secure" in cookie_line(page, "chot_form").lower()) == secure


async def test_a_browser_that_keeps_no_cookie_is_told_why(visitor: httpx.AsyncClient) -> None:
    """Over plain http a Secure cookie never comes back: say so instead of asking again."""
    page = await visitor.get("/ui/login")
    visitor.cookies.clear()
    answer = await visitor.post("/ui/login", data={"csrf": token_in(page.text), "key": "x"})
    assert answer.status_code == 403
    assert "CHOT_UI_PLAIN_HTTP" in answer.text


@pytest.mark.parametrize("path", PRIVATE)
async def test_without_a_session_nothing_is_shown(visitor: httpx.AsyncClient, path: str) -> None:
    """Each address sends to the login page, and back."""
    answer = await visitor.get(path)
    assert answer.status_code == 303
    place = answer.headers["location"]
    wanted = "" if path in {HOME, "/ui"} else f"?next={path.replace('/', '%2F')}"
    assert place == f"/ui/login{wanted}"
    stream = await visitor.get(path, headers={"Accept": "text/event-stream"})
    assert (stream.status_code, stream.headers["content-type"]) == (401, "application/problem+json")


async def test_a_bearer_token_opens_no_page_and_a_cookie_no_route(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Two ways to say who one is, each where it belongs: /v1 can be sent no forged request."""
    key = await make_key(owner_engine, Role.ADMIN)
    assert (await visitor.get(HOME, headers=bearer(key))).status_code == 303
    await log_in(visitor, key)
    assert await is_in(visitor)
    cookie = f"{COOKIE}={visitor.cookies[COOKIE]}"
    for path in ("/v1/jobs", "/metrics", "/openapi.json"):
        answer = await visitor.get(path, headers={"Cookie": cookie})
        assert answer.status_code == 401, path


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/ui/",
        "/\\evil.example",
        "/ui/\\..\\..\\evil",
        "/ui//evil.example",
        "/ui/../v1/jobs",
        "/ui/%2e%2e/v1/jobs",
        "/ui/.%2E/v1/jobs",
        "/v1/jobs",
        "javascript:alert(1)",
        "/ui/\nSet-Cookie: a=b",
        "/ui/login?next=/ui/",
        "/ui/logout",
        "/ui/" + "x" * 3000,
        "ui/",
        "/ui/ä",
        "",
    ],
)
async def test_a_login_leads_nowhere_else(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, wanted: str
) -> None:
    """?next= is an address of ours or the overview."""
    assert safe_place(wanted) == HOME
    done = await log_in(visitor, await make_key(owner_engine, Role.READ), place=wanted)
    assert done.headers["location"] == HOME


async def test_a_login_leads_back_to_where_one_was_going(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """With its query, through the form of the login page itself."""
    away = await visitor.get("/ui/jobs?state=dead&kind=a%26b")
    page = await visitor.get(away.headers["location"])
    assert 'name="next" value="/ui/jobs?state=dead&amp;kind=a%26b"' in page.text
    key = await make_key(owner_engine, Role.READ)
    done = await log_in(visitor, key, place="/ui/jobs?state=dead&kind=a%26b")
    assert done.headers["location"] == "/ui/jobs?state=dead&kind=a%26b"


async def test_wrong_keys_are_refused_and_then_not_looked_at(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A few guesses, then a wait; nothing tells a key that never was from a revoked one."""
    key = await make_key(owner_engine, Role.READ)
    async with owner_engine.begin() as conn:
        await revoke_key(conn, str(key_id_of(key)))
    said = set()
    for guess in (key, new_key(), "nonsense", "", "x" * 5000):
        answer = await log_in(visitor, guess)
        assert answer.status_code == 403
        said.add(text_of(answer.text))
        assert guess == "" or guess not in answer.text
    assert len(said) == 1
    answers = [await log_in(visitor, new_key()) for _ in range(WRONG_BURST)]
    assert answers[-1].status_code == 429
    # Whoever is told to wait is not even looked up: a good key waits as well.
    good = await log_in(visitor, await make_key(owner_engine, Role.READ))
    assert good.status_code == 429
    assert not await is_in(visitor)


async def test_logins_are_told_and_keys_are_not(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """The log says who came in from where, and who did not; never with what."""
    key, wrong = await make_key(owner_engine, Role.READ, principal="night"), new_key()
    with structlog.testing.capture_logs() as lines:
        await log_in(visitor, wrong)
        await log_in(visitor, key)
    told = {line["event"]: line for line in lines}
    assert told["ui.login"]["principal"] == "night"
    assert told["ui.login"]["key"] == key_id_of(key)
    assert "source" in told["ui.login_refused"]
    assert key not in str(lines)
    assert wrong not in str(lines)


async def test_a_session_ends_with_its_key(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revoked: the next look (within CACHE_SECONDS) sends to the login page, which says why."""
    monkeypatch.setattr("api.ui.session.CACHE_SECONDS", 0.0)
    key = await make_key(owner_engine, Role.READ)
    await log_in(visitor, key)
    assert await is_in(visitor)
    async with owner_engine.begin() as conn:
        await revoke_key(conn, str(key_id_of(key)))
    answer = await visitor.get("/ui/jobs")
    assert answer.status_code == 303
    assert "ended=1" in answer.headers["location"]
    page = await visitor.get(answer.headers["location"])
    assert "Your session has ended" in page.text
    assert COOKIE not in visitor.cookies


async def test_a_session_ends_when_its_key_expires(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its roles are those the key has now."""
    monkeypatch.setattr("api.ui.session.CACHE_SECONDS", 0.0)
    key = await make_key(owner_engine, Role.READ, days=1)
    await log_in(visitor, key)
    assert await is_in(visitor)
    change = "UPDATE chot.api_keys SET roles = '{submit}' WHERE key_id = :k"
    await execute(owner_engine, change, k=key_id_of(key))
    assert (await visitor.get(HOME)).status_code == 403
    expire = "UPDATE chot.api_keys SET expires_at = clock_timestamp() WHERE key_id = :k"
    await execute(owner_engine, expire, k=key_id_of(key))
    assert not await is_in(visitor)


async def test_a_session_lasts_twelve_hours(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the browser keeps: the time is inside what is signed."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    from time import time  # noqa: PLC0415 - the clock that is turned below

    for hours, lasts in ((11.9, True), (12.1, False)):
        passed = timedelta(hours=hours).total_seconds()
        monkeypatch.setattr("api.ui.session.time", lambda passed=passed: time() + passed)
        cookie = {"Cookie": f"{COOKIE}={visitor.cookies.get(COOKIE, '')}"}
        assert ((await visitor.get(HOME, headers=cookie)).status_code == 200) == lasts


async def test_a_cookie_that_was_touched_is_nobodys(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Another account, another secret, garbage: to the login page, each time."""
    mine = await make_key(owner_engine, Role.READ)
    admin = await make_key(owner_engine, Role.ADMIN)
    await log_in(visitor, mine)
    cookie = visitor.cookies[COOKIE]
    payload, _, mark = cookie.rpartition(".")
    forged = URLSafeSerializer(
        secrets.token_bytes(32), salt="chot.session", signer_kwargs={"key_derivation": "hmac"}
    ).dumps([key_id_of(admin), 1, "seed"])
    visitor.cookies.clear()
    for each in (payload, f"{payload}.", f"{payload[:-2]}AA.{mark}", forged, "x", "." * 900):
        answer = await visitor.get(HOME, headers={"Cookie": f"{COOKIE}={each}"})
        assert answer.status_code == 303, each


async def test_a_session_of_the_deployments_token_ends_with_it(settings: ApiSettings) -> None:
    """Another CHOT_TOKEN, and none at all: the cookie that the old one signed is worth nothing."""
    first, second = "first-token-of-the-deployment", "another-token"
    cookies: Any = None
    for token, lets_in in ((first, True), (second, False), (None, False), (first, True)):
        secret = None if token is None else SecretStr(token)
        async with guarded(settings.model_copy(update={"token": secret})) as client:
            if cookies is None:
                done = await log_in(client, first)
                assert done.status_code == 303, text_of(done.text)
                cookies = client.cookies
                assert first not in str(dict(cookies))
            client.cookies = cookies
            answer = await client.get(HOME)
            assert (answer.status_code == 200) == lets_in, token
            cookies = httpx.Cookies({COOKIE: cookies[COOKIE]})


async def test_all_api_processes_believe_each_other(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """Two processes that start at once make one secret, and know each other's sessions."""
    key = await make_key(owner_engine, Role.READ)
    async with guarded(settings) as first, guarded(settings) as second:
        done = await asyncio.gather(log_in(first, key), log_in(second, key))
        assert [each.status_code for each in done] == [303, 303]
        first.cookies, second.cookies = second.cookies, first.cookies
        assert await is_in(first)
        assert await is_in(second)
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.session_secrets") == 1


async def test_a_secret_is_replaced_and_the_old_one_still_read(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """After 30 days a new one signs; one that is older than any session is gone."""
    key = await make_key(owner_engine, Role.READ)
    age = "UPDATE chot.session_secrets SET created_at = created_at - make_interval(hours => :h)"
    async with guarded(settings) as client:
        await log_in(client, key)
        old = client.cookies[COOKIE]
    await execute(owner_engine, age, h=30 * 24 + 1)
    async with guarded(settings) as client:
        assert (await client.get(HOME, headers={"Cookie": f"{COOKIE}={old}"})).status_code == 200
        await log_in(client, key)
        assert await scalar(owner_engine, "SELECT count(*) FROM chot.session_secrets") == 2
        new = client.cookies[COOKIE]
    await execute(owner_engine, age, h=13)
    async with guarded(settings) as client:
        for cookie, lets_in in ((old, False), (new, True)):
            answer = await client.get(HOME, headers={"Cookie": f"{COOKIE}={cookie}"})
            assert (answer.status_code == 200) == lets_in


async def test_role_read_cannot_forge_a_session(
    read_engine: AsyncEngine, visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Whoever may read metrics and jobs sees no secret; nor does whoever may only enqueue."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    with pytest.raises(DBAPIError, match="permission denied"):
        await scalar(read_engine, "SELECT count(*) FROM chot.session_secrets")
    granted = await scalar(
        owner_engine,
        """SELECT array_agg(DISTINCT grantee::text) FROM information_schema.role_table_grants
            WHERE table_schema = 'chot' AND table_name = 'session_secrets'""",
    )
    assert set(granted) == {"chot_owner", "chot_app"}


async def test_logging_out_takes_a_form(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """No link and no other site logs anybody out; the form does."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    assert (await visitor.get("/ui/logout")).status_code == 405
    assert (await visitor.post("/ui/logout", data={"x": "y"})).status_code == 403
    assert await is_in(visitor)
    page = await visitor.get(HOME)
    done = await visitor.post("/ui/logout", data={"csrf": token_in(page.text)})
    assert done.headers["location"] == "/ui/login?bye=1"
    assert not await is_in(visitor)


async def test_a_login_begins_a_session_that_nobody_has_known(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Nothing that a browser had before is part of it; each login is another."""
    key = await make_key(owner_engine, Role.READ)
    visitor.cookies.set(COOKIE, "planted", domain="api.test", path="/ui")
    page = await visitor.get("/ui/login")
    before = token_in(page.text)
    await visitor.post("/ui/login", data={"csrf": before, "key": key})
    first = visitor.cookies[COOKIE]
    assert first != "planted"
    assert token_in((await visitor.get(HOME)).text) != before
    visitor.cookies.clear()
    await log_in(visitor, key)
    assert visitor.cookies[COOKIE] != first


async def test_an_open_api_asks_for_no_login(settings: ApiSettings) -> None:
    """On loopback, for development; its forms are guarded all the same."""
    async with serving(settings) as client:
        # A site whose name was made to point here would be of our origin, forms and all.
        assert (await client.get(HOME)).status_code == 403
        assert (await client.get(HOME, headers={"Host": "localhost.evil"})).status_code == 403
        client.base_url = httpx.URL("http://localhost")
        page = await client.get(HOME)
        assert page.status_code == 200
        assert "open api" in page.text
        assert (await client.get("/ui/login")).headers["location"] == HOME
        path = "/ui/queues/default/pause"
        assert (await client.post(path, data={"x": "y"})).status_code == 403
        token = token_in(page.text)
        assert (await client.post(path, data={"csrf": token})).status_code == 303
        client.cookies.clear()
        assert (await client.post(path, data={"csrf": token})).status_code == 403


async def test_a_brands_key_sees_its_brand(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """What belongs to no company is left out, and the page says so."""
    await log_in(visitor, await make_key(owner_engine, Role.READ, Role.OPERATE, scope=RED))
    page = await visitor.get(HOME)
    assert "shown to keys of all companies" in page.text
    assert 'formaction="/ui/queues/' not in page.text


async def test_an_expired_session_in_the_way_of_a_post_does_nothing(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, engine: AsyncEngine
) -> None:
    """A form that comes too late is told so; it is not done, and not done after the login."""
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    token = token_in((await visitor.get(HOME)).text)
    visitor.cookies.delete(COOKIE)
    answer = await visitor.post("/ui/queues/default/pause", data={"csrf": token})
    assert answer.status_code == 401
    assert "Nothing was done" in answer.text

    async def paused() -> bool:
        found = await scalar(engine, "SELECT paused FROM chot.queues WHERE name = 'default'")
        return found is False

    await eventually(paused)


def test_the_form_has_no_other_way_in() -> None:
    """The key is never part of an address, and never filled in again."""
    page = (Path(__file__).parents[2] / "api/ui/templates/login.html").read_text()
    assert 'method="post"' in page
    assert "{{ key" not in page

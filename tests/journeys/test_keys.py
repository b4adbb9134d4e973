"""`chot keys` against a real database and api: the first key, what it may do, its end."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from api.authentication import CACHE_SECONDS
from shared.api_keys import key_id_of
from tests.factories import eventually
from tests.fleet import Fleet
from tests.journeys.test_cli import Chot, environment
from tests.pages.browsing import log_in


@pytest.fixture
async def owner(fleet: Fleet) -> Chot:
    """The command line of whoever owns the database, beside an api that knows no token at all."""
    _, url = await asyncio.to_thread(fleet.api, CHOT_API_OPEN="false")
    urls = {"CHOT_MIGRATE_DATABASE_URL": fleet.database.superuser_url, "CHOT_API_URL": url}
    return Chot(environment(**urls))


async def test_a_key_from_its_making_to_its_end(owner: Chot) -> None:
    """Printed once, listed by id with its last use, refused within seconds after its revocation."""
    stranger = await owner("list")
    assert (stranger.returncode, "chot keys create" in stranger.stderr) == (4, True)
    words = ("--role", "read", "--role", "submit", "--company", "ACME", "--brand", "RED")
    done = await owner("keys", "create", "shop-1", *words)
    assert done.returncode == 0, done.stderr
    key = done.stdout.strip()
    key_id = key_id_of(key)
    assert key_id is not None
    assert key not in done.stderr
    holder = Chot(owner.env | {"CHOT_TOKEN": key})
    assert await holder.json("list") == {"jobs": [], "more": False}
    refused = await holder("cancel", "0190163d-8694-739b-aea5-966c26f8ad91")
    assert (refused.returncode, "operate" in refused.stderr) == (4, True)
    (listed,) = (await owner.json("keys", "list"))["keys"]
    assert listed["last_used_at"].endswith("Z")
    expected: dict[str, Any] = {
        "key_id": key_id,
        "principal": "shop-1",
        "roles": ["read", "submit"],
    }
    expected |= {"company": "ACME", "brands": ["RED"], "state": "active", "revoked_at": None}
    assert {name: listed[name] for name in expected} == expected
    assert key.split("_", 2)[2] not in json.dumps(listed)
    shown = (await owner("keys", "list")).stdout
    assert key_id in shown
    assert key not in shown
    for _ in range(2):  # by the id or, of a key that has leaked, by itself; and again
        assert (await owner("keys", "revoke", key_id)).returncode == 0
    assert (await owner("keys", "revoke", key)).returncode == 0

    async def stopped() -> bool:
        return (await holder("list")).returncode == 4

    await eventually(stopped, seconds=CACHE_SECONDS + 10)
    (listed,) = (await owner.json("keys", "list"))["keys"]
    assert listed["state"] == "revoked"


async def test_what_keys_refuse(owner: Chot, fleet: Fleet) -> None:
    """The widest scope must be said; codes nobody has, ids nobody has, and role app are refused."""
    wrong = (
        ("a", "--role", "read"),
        ("a", "--role", "read", "--company", "ACME", "--all-companies"),
        ("a", "--role", "read", "--all-companies", "--brand", "RED"),
        ("a", "--all-companies"),
        ("A b", "--role", "read", "--all-companies"),
    )
    told = await asyncio.gather(*(owner("keys", "create", *words) for words in wrong))
    assert [done.returncode for done in told] == [2] * len(wrong)
    for strange in (("--company", "NONE"), ("--company", "ACME", "--brand", "NONE")):
        done = await owner("keys", "create", "a", "--role", "read", *strange)
        assert (done.returncode, "there is no" in done.stderr) == (4, True)
    assert (await owner("keys", "revoke", "000000000000")).returncode == 3
    app = Chot(owner.env | {"CHOT_MIGRATE_DATABASE_URL": fleet.database.app_url})
    done = await app("keys", "create", "a", "--role", "admin", "--all-companies")
    assert (done.returncode, "owner" in done.stderr) == (4, True)
    made = await owner.json("keys", "create", "ops", "--role", "admin", "--all-companies")
    assert (made["company"], made["brands"], key_id_of(made["key"])) == (None, None, made["key_id"])
    forever = ("--role", "read", "--all-companies", "--no-expiry")
    assert (await owner.json("keys", "create", "b", *forever))["expires_at"] is None


async def test_sessions_of_a_key_are_ended_and_the_key_stays_good(owner: Chot) -> None:
    """In every browser, within seconds; an id that nobody has is told, and none is no error."""
    made = await owner.json("keys", "create", "ops", "--role", "read", "--all-companies")
    url = owner.env["CHOT_API_URL"]
    async with (
        httpx.AsyncClient(base_url=url, timeout=10) as browser,
        httpx.AsyncClient(base_url=url, timeout=10) as other,
    ):
        for each in (browser, other):
            assert (await log_in(each, made["key"])).status_code == 303
            assert (await each.get("/ui/")).status_code == 200
        assert await owner.json("keys", "logout", made["key_id"]) == {
            "key_id": made["key_id"],
            "sessions": 2,
        }

        async def ended() -> bool:
            pages = [await each.get("/ui/") for each in (browser, other)]
            return [page.status_code for page in pages] == [303, 303]

        await eventually(ended, seconds=CACHE_SECONDS + 10)
        assert (await log_in(browser, made["key"])).status_code == 303
    done = await owner("keys", "logout", made["key"])
    assert (done.returncode, "1 session of" in done.stdout) == (0, True)
    assert "0 sessions of" in (await owner("keys", "logout", made["key_id"])).stdout
    assert (await owner("keys", "logout", "000000000000")).returncode == 3

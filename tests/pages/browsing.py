"""A browser without a screen for tests of what is said over HTTP: cookies, forms, pages."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape

import httpx

from api.settings import ApiSettings
from tests.protocol.api.app import serving

HOST = "http://api.test"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


@asynccontextmanager
async def guarded(settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an api that asks everybody who they are; it keeps cookies as a browser does."""
    closed = settings.model_copy(update={"api_open": False, "ui_plain_http": True})
    async with serving(closed) as client:
        yield client


def token_in(page: str) -> str:
    """The token that a page's forms bring back."""
    found = TOKEN.search(page)
    assert found is not None, "the page has no form"
    return found[1]


def text_of(page: str) -> str:
    """What a page says, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


async def log_in(client: httpx.AsyncClient, key: str, *, place: str = "/ui/") -> httpx.Response:
    """What a person does: open the login page, give the key, send the form."""
    page = await client.get("/ui/login")
    fields = {"key": key, "next": place}
    if page.status_code == 200:
        fields["csrf"] = token_in(page.text)
    return await client.post("/ui/login", data=fields)

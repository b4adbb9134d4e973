"""A real Chromium for the pages' tests: found, started, and looked at while it works.

CHOT_TEST_CHROMIUM names another binary; CHOT_TEST_SHOTS a directory that pictures are written to.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    async_playwright,
)

from tests.pages.stack import Stack

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MISSING = (
    "the pages are tested in a real Chromium and there is none: apt-get install chromium (Debian), "
    "or name one by CHOT_TEST_CHROMIUM; `make test` leaves these tests out where there is none, "
    "and says so"
)
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 740}
SECONDS = 10_000  # of Playwright, in its milliseconds
# How far the page reaches beyond its window; what scrolls in a box of its own does not count.
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Names that links of the page share though they lead to different places: nobody could tell them
# apart in a list of links.
SHARED_NAMES = """() => {
  const places = new Map();
  for (const link of document.querySelectorAll("main a[href]")) {
    const name = (link.ariaLabel || link.textContent).replace(/\\s+/g, " ").trim();
    places.set(name, (places.get(name) || new Set()).add(link.href));
  }
  return [...places].filter(([, hrefs]) => hrefs.size > 1).map(([name]) => name);
}"""
Theme = Literal["light", "dark"]


def chromium_path() -> str | None:
    """Where a Chromium is, or None."""
    named = os.environ.get("CHOT_TEST_CHROMIUM")
    found = (shutil.which(each) for each in ((named,) if named else NAMES))
    return next((each for each in found if each), None)


@dataclass(slots=True)
class Window:
    """Opens pages of a stack, logged in; whatever a page complains of fails the test.

    `complaints` are console errors, broken policies included: a test that provokes one clears it.
    """

    browser: Browser
    stack: Stack
    complaints: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    async def open(
        self,
        path: str,
        *,
        who: str | None = "admin",
        phone: bool = False,
        lang: str = "en",
        theme: Theme = "light",
        script: bool = True,
    ) -> Page:
        """A page in a browser of its own (cookies, cache); `who` is one of stack.keys, or None."""
        context = await self.browser.new_context(
            base_url=self.stack.url,
            viewport=PHONE if phone else WIDE,
            device_scale_factor=2 if phone else 1,
            has_touch=phone,
            locale={"en": "en-GB", "vi": "vi-VN"}[lang],
            color_scheme=theme,
            java_script_enabled=script,
        )
        self.contexts.append(context)
        context.set_default_timeout(SECONDS)
        if who is not None:
            cookie: Any = {"name": "chot_session", "value": self.stack.cookie(who)}
            await context.add_cookies(
                [cookie | {"domain": "127.0.0.1", "path": "/ui", "httpOnly": True}]
            )
        page = await context.new_page()
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self._hear("error", str(error)))
        await page.goto(path, wait_until="load")
        return page

    def _hear(self, kind: str, said: str) -> None:
        if kind == "error":
            self.complaints.append(said)


async def sideways(page: Page) -> int:
    """By how many pixels a page has to be scrolled sideways to see all of it."""
    return int(await page.evaluate(SIDEWAYS))


async def shared_names(page: Page) -> list[str]:
    """Names that links to different places share."""
    found: list[str] = await page.evaluate(SHARED_NAMES)
    return found


async def shot(page: Page, name: str) -> None:
    """A picture of the whole page, where CHOT_TEST_SHOTS says so: for people."""
    place = os.environ.get("CHOT_TEST_SHOTS")
    if place:
        await page.screenshot(path=Path(place) / f"{name}.png", full_page=True)


@asynccontextmanager
async def open_window(stack: Stack) -> AsyncIterator[Window]:
    """A Chromium on a stack; AssertionError with what is to be installed where there is none."""
    path = chromium_path()
    assert path is not None, MISSING
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        window = Window(browser, stack)
        try:
            yield window
        finally:
            for context in window.contexts:
                await context.close()
            await browser.close()
    assert window.complaints == [], "the pages complain"

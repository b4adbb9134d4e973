"""The overview in a real browser: at a glance, by keyboard, on a phone, live."""

import pytest

from tests.pages.chromium import Theme, Window, shot, sideways

pytestmark = pytest.mark.pages


@pytest.mark.parametrize("lang", ["en", "vi"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("phone", [False, True])
async def test_the_overview_fits(window: Window, lang: str, theme: Theme, *, phone: bool) -> None:
    """In both languages and themes, on a desk and on a phone, nothing hangs over."""
    page = await window.open("/ui/", phone=phone, lang=lang, theme=theme)
    assert await page.locator("html").get_attribute("lang") == lang
    await page.locator("#live.on").wait_for()
    await shot(page, f"overview-{lang}-{theme}-{'phone' if phone else 'desk'}")
    assert await sideways(page) == 0

"""The simulator in a real browser: played, stepped, broken on purpose, by keyboard, on a phone."""

import asyncio
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.async_api import Page, expect

from api.ui.simulator import NEW_BURST
from shared.model.timed.plan import LIMITS, Plan
from shared.model.timed.play import BEAT, play
from shared.model.timed.stories import STORIES
from tests.pages.chromium import Theme, Window, shot, sideways
from tests.pages.stack import Stack

pytestmark = pytest.mark.pages
TRACE = "/ui/simulator/trace"


async def ready(window: Window, query: str = "", **how: Any) -> Page:
    """The page with a trace that can be played."""
    page = await window.open(f"/ui/simulator{query}", **how)
    await page.locator("#sim-play:not([disabled])").wait_for()
    return page


async def place(page: Page) -> int:
    """How many steps have happened."""
    return int(await page.locator("#sim-place").input_value())


async def test_it_plays_by_itself_and_pauses(window: Window) -> None:
    page = await ready(window)
    await page.get_by_label("Speed").select_option("30")
    await page.get_by_role("button", name="Play", exact=True).click()
    await expect(page.locator("#sim-says")).not_to_have_text("Nothing has happened yet.")
    await page.get_by_role("button", name="Pause").click()
    there = await place(page)
    assert there > 0
    await page.evaluate("() => new Promise((done) => setTimeout(done, 400))")
    assert await place(page) == there
    await expect(page.locator("tr[aria-current]")).to_have_count(1)


async def test_the_steps_are_those_of_the_model(window: Window) -> None:
    """The script draws what the server has played, and adds nothing."""
    page = await ready(window)
    told = await page.locator("#sim-rows tr:not(.k-beat) td:last-child code").all_inner_texts()
    # Hidden rows are told, too: what counts is the order of the model's own actions.
    played = [entry.action for entry in play(Plan()).entries if entry.action != BEAT]
    assert told == played
    await expect(page.locator("#sim-verdict .good")).to_contain_text("All 17 promises")


async def test_every_step_goes_by_keyboard(window: Window) -> None:
    page = await ready(window)
    await page.locator("#sim-stage").focus()
    for _ in range(3):
        await page.keyboard.press("ArrowRight")
    assert await place(page) == 3
    await expect(page.locator("#sim-heard")).to_have_text(
        await page.locator("#sim-says").inner_text()
    )
    await page.keyboard.press("ArrowLeft")
    assert await place(page) == 2
    await page.keyboard.press("End")
    assert await place(page) == await page.locator("#sim-rows tr").count()
    await page.keyboard.press("Home")
    assert await place(page) == 0
    await page.keyboard.press("Space")
    await expect(page.locator("#sim-play")).to_have_text("Pause")
    await page.keyboard.press("Space")
    await expect(page.locator("#sim-play")).to_have_text("Play")


async def test_removing_the_fence_shows_the_double_write(window: Window) -> None:
    page = await ready(window)
    await page.get_by_role("switch", name="Remove the fence").check()
    says = page.locator("#sim-says.broken")
    await expect(says).to_contain_text("DOUBLE WRITE", timeout=20_000)
    await expect(page.locator("#sim-stage rect.piece.twice")).to_have_count(1)
    await expect(page.locator("#sim-verdict")).to_contain_text("No piece is written twice.")
    await shot(page, "simulator-double-en-light-desk")
    await page.get_by_role("switch", name="Remove the fence").uncheck()
    await expect(page.locator("#sim-verdict .good")).to_contain_text("hold in each")
    await expect(page.locator("#sim-stage rect.piece.twice")).to_have_count(0)


async def test_the_shortest_way_has_thirteen_steps(window: Window) -> None:
    page = await ready(window, "?fence=off")
    await page.get_by_role("button", name="Show the shortest way").click()
    await expect(page.locator("#sim-rows tr")).to_have_count(13)
    await page.get_by_role("button", name="Pause").click()
    await page.locator("#sim-stage").focus()
    await page.keyboard.press("End")
    await expect(page.locator("#sim-says.broken")).to_contain_text("DOUBLE WRITE")


async def test_the_tour_tells_a_job_a_crash_and_a_zombie(window: Window) -> None:
    """In five steps, each with a run of its own that plays."""
    page = await ready(window)
    ends = ("Job 1 is done", "crashes in the middle", "comes too late", "DOUBLE WRITE")
    for number, end in enumerate(ends, 2):
        async with page.expect_response(re.compile(TRACE)):
            await page.locator("#tour-next").click()
        await expect(page.locator("#tour-at")).to_have_text(f"Step {number} of 5")
        await expect(page.locator("#sim-rows")).to_contain_text(end, ignore_case=True)
    await expect(page.locator("#tour-next")).to_be_disabled()


async def test_two_tabs_with_the_same_numbers_get_the_same_trace(
    window: Window, stack: Stack
) -> None:
    numbers = urlencode({"workers": 2, "jobs": 2, "seed": 77, "pause": 40})
    one = await window.open("/ui/login", who="reader")
    other = await window.open("/ui/login", who="operator")
    first = await one.request.get(f"{stack.url}{TRACE}?{numbers}")
    again = await other.request.get(f"{stack.url}{TRACE}?{numbers}")
    assert (first.headers["chot-trace"], again.headers["chot-trace"]) == ("made", "known")
    assert first.headers["etag"] == again.headers["etag"]
    assert await first.body() == await again.body()
    # The other order of the same numbers, and what is usual said aloud: the same trace.
    plan: dict[str, int] = {name: getattr(Plan(), name) for name in sorted(LIMITS)}
    plan |= {"workers": 2, "jobs": 2, "seed": 77, "pause": 40}
    whole = await one.request.get(f"{stack.url}{TRACE}?{urlencode(plan)}")
    assert whole.headers["chot-trace"] == "known"


async def test_what_cannot_be_played_is_refused_by_field_value_and_rule(
    window: Window, stack: Stack
) -> None:
    page = await ready(window)
    await page.get_by_label("Workers", exact=True).fill("99")
    await page.locator("#sim-form").evaluate("(form) => { form.noValidate = true; }")
    await page.get_by_role("button", name="Make a new run").click()
    await expect(page.locator("#sim-error")).to_contain_text(
        "workers: must be a whole number from 1 to 6"
    )
    await expect(page.locator("#f-workers")).to_have_attribute("aria-invalid", "true")
    window.complaints.clear()  # the browser tells of the 422
    for query, field, rule in (
        ("lease=1", "lease", "must be a whole number from 2 to 300"),
        ("lease=1e3", "lease", "must be a whole number from 2 to 300"),
        ("fence=maybe", "fence", "must be on or off"),
        ("story=none", "story", "must be one of normal, crash, zombie, nofence, shortest"),
        ("story=crash&seed=2", "seed", "does not go with story, which has its own plan"),
        ("speed=2", "speed", "is no parameter of the simulator"),
        ("seed=1&seed=2", "seed", "is there more than once"),
    ):
        answer = await page.request.get(
            f"{stack.url}{TRACE}?{query}", headers={"Sec-Fetch-Mode": "cors"}
        )
        assert answer.status == 422, query
        (error,) = (await answer.json())["errors"]
        assert error["field"] == field
        assert rule in error["rule"]


async def test_a_session_that_asks_for_too_much_waits_and_others_do_not(
    window: Window, stack: Stack
) -> None:
    page = await window.open("/ui/login", who="submitter")
    window.complaints.clear()  # who may only submit is not shown the overview
    assert (await page.request.get(f"{stack.url}/ui/simulator")).status == 403
    greedy = await window.open("/ui/login", who="red")
    asking = [
        greedy.request.get(
            f"{stack.url}{TRACE}?jobs=1&workers=1&seed={500_000 + n}",
            headers={"Sec-Fetch-Mode": "cors"},
        )
        for n in range(NEW_BURST + 15)
    ]
    answers = await asyncio.gather(*asking)
    refused = [answer for answer in answers if answer.status == 429]
    assert 1 <= len(refused) <= 16
    assert int(refused[0].headers["retry-after"]) >= 1
    assert (await refused[0].json())["type"].endswith("rate-limited")
    known = await greedy.request.get(f"{stack.url}{TRACE}?jobs=1&workers=1&seed=500000")
    assert known.status in {200, 429}
    other = await window.open("/ui/login", who="operator")
    assert (await other.request.get(f"{stack.url}{TRACE}?jobs=1&seed=9")).status == 200


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_fits_a_phone_in_vietnamese(window: Window, theme: Theme) -> None:
    page = await ready(window, phone=True, lang="vi", theme=theme)
    assert await sideways(page) == 0
    await page.locator("#sim-place").fill("60")
    await expect(page.locator("#sim-clock")).to_contain_text("bước 60")
    await expect(page.locator("#sim-stage svg text").first).to_be_visible()
    await shot(page, f"simulator-vi-{theme}-phone")
    for text in await page.locator("#sim-stage text").all():
        box = await text.bounding_box()
        assert box is None or box["x"] + box["width"] <= 375


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_is_looked_at_on_a_desk(window: Window, theme: Theme) -> None:
    page = await ready(window, theme=theme)
    await page.locator("#sim-place").fill("55")
    await shot(page, f"simulator-en-{theme}-desk")
    assert await sideways(page) == 0


async def test_nothing_flies_where_motion_is_not_wanted(window: Window) -> None:
    page = await ready(window)
    await page.emulate_media(reduced_motion="reduce")
    await page.locator("#sim-stage").focus()
    for _ in range(4):
        await page.keyboard.press("ArrowRight")
        assert await page.locator("#sim-stage .fly").count() == 0
    await page.emulate_media(reduced_motion="no-preference")
    await page.keyboard.press("ArrowRight")
    assert await page.locator("#sim-stage .fly").count() == 1


async def test_without_a_script_the_steps_are_a_table(window: Window) -> None:
    page = await window.open("/ui/simulator?story=zombie&plain=1", script=False)
    rows = page.locator("#sim-rows tr")
    assert await rows.count() == len(play(STORIES["zombie"]).entries)
    await expect(page.locator("#sim-rows")).to_contain_text("comes too late")

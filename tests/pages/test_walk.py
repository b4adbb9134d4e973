"""The overview in a real browser: at a glance, by keyboard, on a phone, live, and let go."""

import re

import pytest
from playwright.async_api import Page, Route, expect

from shared.access import Role
from shared.api_keys import key_id_of, revoke_key
from shared.database import open_engine
from tests.pages.chromium import Theme, Window, shared_names, shot, sideways
from tests.protocol.api.keys import make_key

pytestmark = pytest.mark.pages

# Contrast of each text against what lies behind it, by the formula of WCAG 2: the worst there is.
CONTRAST = """() => {
  const parse = (said) => (said.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
      if (a === 1 && r !== undefined) return [r, g, b];
    }
    return [255, 255, 255];
  };
  let worst = [21, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    if (!own || !element.checkVisibility() || element.closest(".hidden, .skip, [disabled]")) continue;
    const a = light(parse(getComputedStyle(element).color)), b = light(ground(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, element.textContent.trim().slice(0, 40)];
  }
  return worst;
}"""
# What can be reached with Tab should be all that can be clicked and is to be seen.
REACHABLE = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter((e) => e.checkVisibility() && !e.disabled).length"""
FOCUSED = "() => document.activeElement.outerHTML.slice(0, 200)"


@pytest.mark.parametrize("lang", ["en", "vi"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("phone", [False, True])
async def test_the_overview_fits_and_can_be_read(
    window: Window, lang: str, theme: Theme, *, phone: bool
) -> None:
    """In both languages and themes, on a desk and on a phone: nothing hangs over, nothing pales."""
    page = await window.open("/ui/", phone=phone, lang=lang, theme=theme)
    assert await page.locator("html").get_attribute("lang") == lang
    await page.locator("#live.on").wait_for()
    await shot(page, f"overview-{lang}-{theme}-{'phone' if phone else 'desk'}")
    assert await sideways(page) == 0
    ratio, said = await page.evaluate(CONTRAST)
    assert ratio >= 4.5, said


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_login_and_the_errors_fit_and_can_be_read(window: Window, theme: Theme) -> None:
    """The page one sees first, and the one nobody wants to see."""
    for path, who in (("/ui/login?ended=1", None), ("/ui/nowhere", "admin"), ("/ui/", "submitter")):
        page = await window.open(path, who=who, phone=True, lang="vi", theme=theme)
        await shot(page, f"{'login' if who is None else 'error-' + who}-{theme}")
        assert await sideways(page) == 0
        ratio, said = await page.evaluate(CONTRAST)
        assert ratio >= 4.5, said
    window.complaints.clear()  # of a 404 and a 403, which were asked for


async def test_a_person_logs_in_and_out(window: Window) -> None:
    """By keyboard alone: the key's field has the focus, Enter sends it, and the way back is kept."""
    page = await window.open("/ui/jobs?state=dead", who=None)
    await expect(page).to_have_url(window.stack.url + "/ui/login?next=%2Fui%2Fjobs%3Fstate%3Ddead")
    await page.keyboard.type("chot_wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("Nobody has this key")
    await shot(page, "login-refused")
    window.complaints.clear()  # of the 403
    await page.keyboard.type(window.stack.keys["operator"])
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(window.stack.url + "/ui/jobs?state=dead")
    cookies = {each["name"]: each for each in await page.context.cookies()}
    assert cookies["chot_session"]["httpOnly"]
    assert cookies["chot_session"]["sameSite"] == "Lax"
    assert await page.evaluate("document.cookie") == ""
    await page.get_by_role("button", name="Log out", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("You are logged out")
    await page.go_back()
    await page.reload()
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_logging_out_everywhere_asks_first(window: Window) -> None:
    """Below a page as in a job's dialog: what it will do, and a way out of it."""
    stack = window.stack
    owner = open_engine(stack.database.owner_url, pool_size=1)
    key = await make_key(owner, Role.READ, principal="night")
    await owner.dispose()
    page = await window.open("/ui/", who=None)
    await page.get_by_label("API key").fill(key)
    await page.keyboard.press("Enter")
    await expect(page.locator("#live")).to_be_visible()
    fold = page.locator(".foot details.confirm")
    await fold.locator("summary").click()
    await expect(fold).to_contain_text("End every session of this key")
    await fold.get_by_role("button", name="No, leave it").click()
    await expect(fold.locator(".dialog")).to_be_hidden()
    await page.goto(f"/ui/jobs/{stack.jobs['finished']}")
    await page.locator("#logout-everywhere").click()
    asked = page.locator(".foot dialog")
    await expect(asked).to_contain_text("End every session of this key")
    await asked.get_by_role("button", name="No, leave it").click()
    await expect(asked).to_be_hidden()
    await expect(page.locator("#logout-everywhere")).to_be_focused()
    await page.locator("#logout-everywhere").click()
    await asked.get_by_role("button", name="Yes, do it").click()
    await expect(page.get_by_role("alert")).to_contain_text("You are logged out")


async def test_everything_is_reached_by_keyboard(window: Window) -> None:
    """The first Tab offers to skip the menu; each further one gets to what can be used, visibly."""
    page = await window.open("/ui/")
    await page.locator("#live.on").wait_for()
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    wanted = int(await page.evaluate(REACHABLE))
    seen = [str(await page.evaluate(FOCUSED))]
    for _ in range(wanted - 1):
        await page.keyboard.press("Tab")
        seen.append(str(await page.evaluate(FOCUSED)))
        ring = await page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", seen[-1]
    assert len(set(seen)) == wanted
    await skip.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()


async def mark(page: Page) -> None:
    """Something that a reload would lose."""
    await page.evaluate("window.here = true")


async def test_the_overview_follows_what_happens(window: Window) -> None:
    """Without a reload, without losing the focus, an open fold or what is being selected."""
    page = await window.open("/ui/")
    await page.locator("#live.on").wait_for()
    await mark(page)
    tile = page.locator(".tile", has_text="Dead").first.locator(".tile-value")
    before = int(await tile.inner_text())
    fold = page.locator("#queue-default details")
    await fold.locator("summary").click()
    await fold.get_by_role("button", name="No, leave it").focus()
    await page.evaluate(
        "() => getSelection().selectAllChildren(document.querySelector('#workers code'))"
    )
    selected = await page.evaluate("() => String(getSelection())")
    dying = window.stack.submit({"how": "raise_permanent"}, "probe.misbehave")
    window.stack.until(dying, "dead")
    await expect(tile).to_have_text(str(before + 1))
    await expect(page.locator("#verdict")).to_contain_text(f"Dead jobs: {before + 1}")
    assert await page.evaluate("window.here")
    assert await fold.evaluate("fold => fold.open")
    await expect(fold.get_by_role("button", name="No, leave it")).to_be_focused()
    assert await page.evaluate("() => String(getSelection())") == selected != ""


async def test_kinds_stay_folded_until_somebody_opens_them(window: Window) -> None:
    """On a phone and a desk, also while a kind is paused and what is live arrives; it says so on top."""
    operator = await window.open("/ui/", who="operator")
    await operator.locator("#fold-kinds summary").first.click()
    await operator.get_by_role("link", name="All kinds of jobs").click()
    row = operator.locator("[id='kind-probe.write']")
    await row.locator("summary").click()
    await row.get_by_role("button", name="Yes, do it").click()
    await operator.goto("/ui/")
    await expect(operator.locator("#verdict")).to_contain_text("Kind probe.write is paused")
    pages = [await window.open("/ui/", phone=phone) for phone in (True, False)]
    for page in pages:
        await page.locator("#live.on").wait_for()
        assert not await page.locator("#fold-kinds").evaluate("fold => fold.open")
        await expect(page.locator("[id='kind-probe.write']")).to_be_hidden()
        assert await sideways(page) == 0
    page = pages[-1]
    await page.locator("#verdict li", has_text="probe.write").get_by_role("link").click()
    await shot(page, "kinds-en-light-desk")
    await page.get_by_role("button", name="Resume: probe.write").click()
    await expect(page.locator(".flash.ok")).to_contain_text("Kind probe.write goes on.")
    await expect(page).to_have_url(window.stack.url + "/ui/kinds")


FULL = "event: full\ndata: {}\n\n"


async def test_a_page_without_a_place_says_so_and_reads_itself(window: Window) -> None:
    """No live stream is left for this account: the words stand there, and what is new comes."""
    page = await window.open("/ui/", who="reader", lang="en")
    asked = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        if "once=1" in route.request.url:
            await route.continue_()
        else:
            await route.fulfill(status=200, content_type="text/event-stream", body=FULL)

    await page.route("**/ui/events**", answer)
    await page.reload()
    said = "many pages of this account are open: this one is read every 10 s"
    await expect(page.locator("#live")).to_contain_text(said)
    await page.wait_for_function(
        "document.querySelector('#live').classList.contains('off') === false"
    )
    assert any("once=1" in each for each in asked)
    tile = page.locator(".tile", has_text="Dead").first.locator(".tile-value")
    before = int(await tile.inner_text())
    dying = window.stack.submit({"how": "raise_permanent"}, "probe.misbehave")
    window.stack.until(dying, "dead")
    await expect(tile).to_have_text(str(before + 1), timeout=25_000)
    await shot(page, "full-en-light-desk")


async def test_a_queue_is_paused_after_a_question(window: Window) -> None:
    """The button asks first; No leaves it, Yes does it, and the same place resumes it."""
    page = await window.open("/ui/", who="operator")
    row = page.locator("#queue-posting")
    await row.locator("summary").click()
    await expect(row).to_contain_text("Nothing of queue posting will start")
    await row.get_by_role("button", name="No, leave it").click()
    await expect(row.locator("summary")).to_be_focused()
    await row.locator("summary").click()
    await row.get_by_role("button", name="Yes, do it").click()
    await expect(page.locator(".flash.ok")).to_contain_text("Queue posting is paused.")
    await expect(page.locator("#verdict")).to_contain_text("Queue posting is paused")
    await shot(page, "overview-paused")
    named = page.get_by_role("link", name=re.compile("Look ?: Queue posting is paused"))
    await expect(named).to_have_attribute("href", "/ui/queues?name=posting")
    await expect(page.get_by_role("link", name=re.compile("Look ?: Dead jobs"))).to_be_visible()
    assert await shared_names(page) == []
    await row.get_by_role("button", name="Resume: posting").click()
    await expect(page.locator(".flash.ok")).to_contain_text("Queue posting goes on.")
    reader = await window.open("/ui/", who="reader")
    await expect(reader.locator("#queue-posting")).to_be_visible()
    assert await reader.locator("#queue-posting button").count() == 0


async def test_a_page_says_when_its_session_has_ended(window: Window) -> None:
    """A revoked key is told on the open page within seconds, with the way back in."""
    stack = window.stack
    page = await window.open("/ui/", who="reader")
    await page.locator("#live.on").wait_for()
    owner = open_engine(stack.database.owner_url, pool_size=1)
    async with owner.begin() as conn:
        await revoke_key(conn, str(key_id_of(stack.keys["reader"])))
    await owner.dispose()
    await expect(page.locator("#live")).to_contain_text("Your session has ended.", timeout=15_000)
    await expect(page.get_by_role("link", name="Log in again")).to_be_visible()


async def test_it_reads_without_a_script(window: Window) -> None:
    """All of it is in the page that the server sends."""
    page = await window.open("/ui/", script=False)
    for part in ("#verdict", "#tiles", "#charts", "#queues", "#workers"):
        await expect(page.locator(part)).not_to_be_empty()
    # Nobody has lost a connection that nobody tries to make.
    await expect(page.locator("#live")).to_have_text("as it was when the page was opened")
    await page.locator("#queue-default summary").click()
    await expect(page.locator("#queue-default")).to_contain_text("Nothing of queue default")


async def test_a_brand_sees_the_overview_of_its_jobs(window: Window) -> None:
    """The numbers are its own; the reason why some are missing stands there."""
    page = await window.open("/ui/", who="red")
    await page.locator("#live.on").wait_for()
    await expect(page.locator("main")).to_contain_text("shown to keys of all companies")
    assert await page.locator("#alerts").count() == 0
    assert await page.locator("#queues button").count() == 0

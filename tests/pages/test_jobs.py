"""Jobs, one job and dead letters in a real browser: by mouse, by keyboard, on a phone, live."""

import re
from uuid import UUID

import pytest
from playwright.async_api import Page, expect
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.factories import eventually
from tests.pages.chromium import Theme, Window, shot, sideways
from tests.pages.stack import Stack
from tests.protocol.api.test_archive import age, archive

pytestmark = pytest.mark.pages
PAGES = ("/ui/jobs", "/ui/jobs/{running}", "/ui/jobs/{dead}", "/ui/dead-letters")


def place(stack: Stack, path: str) -> str:
    """The address of a page, with the id of the stack's job that it names."""
    return path.format(**stack.jobs)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("lang", ["en", "vi"])
@pytest.mark.parametrize("phone", [False, True])
async def test_every_page_fits(window: Window, path: str, lang: str, *, phone: bool) -> None:
    """In both themes and languages nothing hangs over, and every control has a name."""
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        page = await window.open(
            place(window.stack, path),
            phone=phone,
            lang=lang,
            theme=theme,
        )
        assert await page.locator("html").get_attribute("lang") == lang
        assert await sideways(page) == 0
        nameless = """[...document.querySelectorAll('main a, main button, main input')].filter(
            e => !(e.innerText || e.ariaLabel || e.labels?.length || e.type === 'hidden')).length"""
        assert await page.evaluate(nameless) == 0
        name = re.sub(r"\W+", "-", path).strip("-")
        await shot(page, f"{name}-{lang}-{theme}-{'phone' if phone else 'desk'}")


async def test_a_phone_opens_the_timeline_where_something_happens(window: Window) -> None:
    """At what runs now, and at the newest end of what is over; the label of its lane is far left."""
    page = await window.open(place(window.stack, "/ui/jobs/{running}"), phone=True)
    drawing = page.locator(".drawing")
    frame, now = await drawing.bounding_box(), await page.locator(".timeline .now").bounding_box()
    assert frame is not None
    assert now is not None
    assert frame["x"] < now["x"] < frame["x"] + frame["width"]
    page = await window.open(place(window.stack, "/ui/jobs/{finished}"), phone=True)
    at, rest = await page.locator(".drawing").evaluate(
        "d => [d.scrollLeft, d.scrollWidth - d.clientWidth - d.scrollLeft]"
    )
    assert at > 0
    assert rest <= 1


async def test_a_phone_has_a_job_of_the_list_in_two_lines(window: Window) -> None:
    """Id, kind and state; whose and since when: nothing of a third line for what is over and well."""
    page = await window.open("/ui/jobs?state=succeeded", phone=True)
    row = page.locator("tr", has=page.locator(f"a[href$='{window.stack.jobs['finished']}']"))
    line = await page.evaluate("parseFloat(getComputedStyle(document.body).lineHeight)")
    box = await row.bounding_box()
    assert box is not None
    assert box["height"] < 3 * line
    for said in ("probe.write", "succeeded", "ACME / RED"):
        await expect(row.get_by_text(said, exact=True)).to_be_visible()


async def test_progress_moves_without_a_reload_and_focus_stays(window: Window) -> None:
    """The bar, the words and the drawing are new; what one was at is not lost."""
    job_id = window.stack.submit({"chunks": 100, "seconds": 0.5})
    window.stack.until(job_id, "running")
    page = await window.open(f"/ui/jobs/{job_id}")
    await page.locator("#live.on").wait_for()
    await page.locator("#progress-words").wait_for()
    await page.evaluate("window.kept = true")
    await page.locator(".places a").first.focus()
    await page.locator(".why details summary").click()
    await page.locator(".places a").first.focus()
    before = await page.locator("#progress-words").inner_text()
    drawn = await page.locator(".timeline .bar.running").get_attribute("width")
    await expect(page.locator("#progress-words")).not_to_have_text(before, timeout=15_000)
    await expect(page.locator(".timeline .bar.running")).not_to_have_attribute(
        "width", drawn or "", timeout=15_000
    )
    assert await page.evaluate("window.kept")
    assert await page.evaluate("document.activeElement.closest('.places') !== null")
    assert await page.locator(".why details").get_attribute("open") is not None


async def test_a_list_tells_of_a_job_that_ends(window: Window) -> None:
    """Its state changes where it stands; a filter and a page further lead on by keys."""
    stack = window.stack
    # Longer than a busy machine takes to open a page.
    job_id = stack.submit({"chunks": 10, "seconds": 1.0})
    page = await window.open("/ui/jobs?state=pending&state=running")
    state = page.locator(f"[id='state-{job_id}']")
    await expect(state).to_have_text(re.compile("pending|running"))
    await expect(state).to_have_text("succeeded", timeout=40_000)
    await page.get_by_role("link", name=job_id[-12:]).click()
    await expect(page.locator("h1")).to_contain_text(job_id)
    await page.goto("/ui/jobs?kind=no.such.kind")
    await expect(page.get_by_role("alert")).to_contain_text("no kind that was ever declared")
    window.complaints.clear()  # of a browser about the 422, which is meant
    await page.goto("/ui/jobs")
    await page.get_by_label("dead", exact=True).check()
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text("TOLD: told to be wrong")


async def test_a_job_is_cancelled_by_mouse(window: Window) -> None:
    """The question says what will happen; the audit names the person; the button goes."""
    stack = window.stack
    job_id = stack.submit({"chunks": 100, "seconds": 1.0})
    stack.until(job_id, "running")
    page = await window.open(f"/ui/jobs/{job_id}")
    await page.get_by_role("button", name="Cancel the job").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("nothing of it is written any more")
    await expect(dialog).to_contain_text("The audit will name you: admin")
    await shot(page, "cancel-asks")
    await dialog.get_by_role("button", name="No, leave it").click()
    await expect(dialog).to_be_hidden()
    assert stack.job(job_id)["state"] == "running"
    await page.get_by_role("button", name="Cancel the job").click()
    await dialog.get_by_role("button", name="Yes, do it").click()
    await expect(page.locator(".flash")).to_contain_text("The job is cancelled")
    assert stack.job(job_id)["state"] == "cancelled"
    await expect(page.locator("#job-state")).to_have_text("cancelled")
    await expect(page.locator("#job-acts")).to_contain_text("job.cancel")
    await expect(page.get_by_role("button", name="Cancel the job")).to_be_hidden()


async def test_a_job_is_cancelled_and_redriven_by_keyboard_alone(window: Window) -> None:
    """Tab, Enter and Escape; focus comes back to where it was."""
    stack = window.stack
    job_id = stack.submit({"chunks": 100, "seconds": 1.0})
    page = await window.open(f"/ui/jobs/{job_id}")
    cancel = page.get_by_role("button", name="Cancel the job")
    await reach(page, "Cancel the job")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(cancel).to_be_focused()
    await page.keyboard.press("Enter")
    await reach(page, "Yes, do it")
    await page.keyboard.press("Enter")
    await expect(page.locator(".flash")).to_contain_text("The job is cancelled")
    dead = stack.submit({"how": "raise_permanent"}, "probe.misbehave")
    shown = stack.until(dead, "dead")
    await until_clean(stack, dead)
    await page.goto(f"/ui/jobs/{dead}")
    await reach(page, "Run it again")
    await page.keyboard.press("Enter")
    await reach(page, "Yes, do it")
    await page.keyboard.press("Enter")
    await expect(page.locator(".flash")).to_contain_text("waits to run again")
    again = stack.until(dead, "dead")
    assert again["attempt"] > shown["attempt"]
    assert again["redriven"]["by"] == "admin"
    await expect(page.locator("#job-acts")).to_contain_text("job.redrive")


async def reach(page: Page, name: str) -> None:
    """Go on by Tab until what is called so has the focus."""
    said = "document.activeElement.innerText.trim()"
    for _ in range(60):
        if await page.evaluate(said) == name:
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{name} cannot be reached by Tab")


async def until_clean(stack: Stack, job_id: str) -> None:
    """Once what a dead job has left is removed."""

    async def clean() -> bool:
        return not stack.job(job_id)["cleanup_pending"]

    await eventually(clean)


async def test_without_script_questions_are_folds_and_all_of_it_works(window: Window) -> None:
    """The same forms, opened by a summary."""
    stack = window.stack
    job_id = stack.submit({"chunks": 100, "seconds": 1.0})
    stack.until(job_id, "running")
    page = await window.open(f"/ui/jobs/{job_id}", script=False)
    await expect(page.locator(".sentence")).to_contain_text("has been running attempt 1")
    await page.locator("#cancel > summary").click()
    await page.locator("#cancel button.danger").click()
    await expect(page.locator(".flash")).to_contain_text("The job is cancelled")
    assert stack.job(job_id)["state"] == "cancelled"


async def test_a_reader_sees_no_buttons_and_a_forged_form_does_nothing(window: Window) -> None:
    """Without role operate; and with it, but without the token of a page of ours."""
    stack = window.stack
    job_id = stack.submit({"chunks": 100, "seconds": 1.0})
    stack.until(job_id, "running")
    page = await window.open(f"/ui/jobs/{job_id}", who="reader")
    await expect(page.locator(".sentence")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    await expect(page.locator("#job-acts")).to_contain_text("The audit is for role admin")
    await expect(page.locator(".menu")).not_to_contain_text("Dead letters")
    for who in ("reader", "operator", "admin"):
        page = await window.open(f"/ui/jobs/{job_id}", who=who)
        for fields in ("csrf=00", ""):
            answer = await page.request.post(
                f"{stack.url}/ui/jobs/{job_id}/cancel",
                data=fields,
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
            assert answer.status == 403
    assert stack.job(job_id)["state"] == "running"


async def test_somebody_elses_job_is_not_there(window: Window) -> None:
    """The same page as for an id that nobody has, and no stream, outcomes or act either."""
    stack = window.stack
    theirs = stack.submit({}, brand="BLUE")
    nobody = str(UUID(int=0x019A8F3E1A2B7C3D8E4F5A6B7C8D9E0F))
    said = []
    for job_id in (theirs, nobody):
        page = await window.open("/ui/jobs", who="red")
        await expect(page.locator("main")).not_to_contain_text(theirs[-12:])
        for path in ("", "/live", "/outcomes"):
            answer = await page.request.get(f"{stack.url}/ui/jobs/{job_id}{path}")
            assert answer.status == 404, (job_id, path)
            body = re.sub(r"<dd><code>.*?</code></dd>", "", await answer.text())
            said.append((path, body.replace(job_id, "ID")))
    assert said[:3] == said[3:]


async def test_a_job_in_the_archive_answers_too(window: Window) -> None:
    """By its id: result, attempts and payload, without buttons and without a stream."""
    stack = window.stack
    job_id = stack.submit({"chunks": 2})
    stack.until(job_id, "succeeded")
    await archived(stack, job_id)
    page = await window.open(f"/ui/jobs/{job_id}")
    await expect(page.locator("h1 + small")).to_have_text("from the archive")
    await expect(page.locator(".sentence")).to_contain_text("succeeded at")
    await expect(page.locator("#job-attempts tbody tr")).to_have_count(1)
    await expect(page.locator("#payload-text")).to_contain_text('"chunks": 2')
    await expect(page.locator("[data-stream]")).to_have_count(0)
    await expect(page.locator(".timeline .bar.succeeded")).to_have_count(1)


async def archived(stack: Stack, job_id: str) -> None:
    """Have the job ended long ago, and retention move it."""
    engine: AsyncEngine = open_engine(stack.database.app_url, pool_size=1)
    try:
        await age(engine, {"succeeded": job_id})
        await archive(engine)
    finally:
        await engine.dispose()

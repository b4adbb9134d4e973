"""Dead letters in a real browser: counted by cause, run again by one, by cause or all, and raw."""

import json
import re

import pytest
from playwright.async_api import expect
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.jobs.dead_letters import store_dead_message
from tests.factories import execute
from tests.pages.chromium import Window, shot, sideways
from tests.pages.stack import Stack
from tests.pages.test_jobs import until_clean

pytestmark = pytest.mark.pages
EVIL = "</script><script>window.hit=1</script><img src=x onerror=window.hit=2>"


async def died(stack: Stack, how: str = "raise_permanent", **payload: object) -> str:
    """A job that is dead, and cleaned up after."""
    job_id = stack.submit({"how": how, **payload}, "probe.misbehave")
    stack.until(job_id, "dead")
    await until_clean(stack, job_id)
    return job_id


async def test_a_cause_is_run_again_and_each_job_says_what_became_of_it(window: Window) -> None:
    """A twin that is active blocks only itself, and is shown with a link."""
    stack = window.stack
    await until_clean(stack, stack.jobs["dead"])
    blocked = await died(stack, number=77)
    twin = stack.submit({"how": "sleep", "seconds": 100, "number": 77}, "probe.misbehave")
    stack.until(twin, "running")
    other = await died(stack, "raise_odd")
    page = await window.open("/ui/dead-letters")
    causes = page.get_by_role("table", name="By cause")
    mine = causes.locator("tr", has_text="told to be wrong")
    await expect(mine.locator("td").first).to_have_text("2")
    await expect(causes.locator("tbody tr")).to_have_count(2)
    await mine.get_by_role("button", name="Run these again").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Run all 2 jobs of this cause again?")
    await expect(dialog).to_contain_text("The audit will name you: admin")
    await shot(page, "dead-letters-asks")
    await dialog.get_by_role("button", name="Yes, do it").click()
    await expect(page.get_by_role("status")).to_contain_text("1 wait to run again, 1 stay")
    await shot(page, "dead-letters-report")
    refused = page.get_by_role("table", name="Not run again").locator("tbody tr")
    await expect(refused).to_contain_text(blocked[-12:])
    await expect(refused).to_contain_text("the same work is active as another job")
    await refused.get_by_role("link", name=twin[-12:]).click()
    await expect(page.locator("h1")).to_contain_text(twin)
    assert stack.job(blocked)["state"] == "dead"
    assert stack.job(other)["redriven"] is None
    assert stack.until(stack.jobs["dead"], "dead")["redriven"]["by"] == "admin"


async def test_one_is_run_again_from_the_list_and_a_cause_leads_to_its_jobs(window: Window) -> None:
    """By keyboard, on a phone, and without script, too."""
    stack = window.stack
    job_id = await died(stack, "raise_odd")
    page = await window.open("/ui/dead-letters", phone=True, who="operator", script=False)
    row = page.get_by_role("table", name="By cause").locator("tr", has_text="OddError")
    count = row.locator("td").first.get_by_role("link")
    await count.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**cause=**")
    listed = page.get_by_role("table", name="Dead jobs").locator("tbody tr")
    await expect(listed.first).to_contain_text(job_id[-12:])
    assert await sideways(page) == 0
    await listed.first.locator("summary.button").click()
    await listed.first.get_by_role("button", name="Yes, do it").click()
    await expect(page.get_by_role("status")).to_contain_text("1 wait to run again, 0 stay")
    assert stack.until(job_id, "dead")["redriven"]["by"] == "operator"
    await expect(page.locator("main")).not_to_contain_text("Dead messages")


async def test_raw_messages_are_for_an_admin_of_all_and_are_text(window: Window) -> None:
    """Body, attributes, reason; what is in them does nothing."""
    stack = window.stack
    engine: AsyncEngine = open_engine(stack.database.app_url, pool_size=1)
    async with engine.begin() as conn:
        for name, body in (("evil", EVIL.encode()), ("bytes", b"\xff\xfe\x00")):
            assert await store_dead_message(
                conn,
                queue="default",
                message_id=name,
                body=body,
                attributes=json.dumps({"a": EVIL}),
                reason=f"no JSON object: {EVIL}",
                receive_count=3,
            )
    await engine.dispose()
    page = await window.open("/ui/dead-letters")
    message = page.locator("article", has_text="70 bytes")
    await message.locator("summary").click()
    await expect(message.locator("pre").first).to_have_text(EVIL)
    await expect(page.locator("#messages")).to_contain_text("base64")
    assert await page.evaluate("window.hit") is None
    await shot(page, "dead-messages")
    page = await window.open("/ui/dead-letters", who="red")
    await expect(page.locator("#messages")).to_have_count(0)


async def test_markup_in_payload_error_brand_and_kind_does_nothing(window: Window) -> None:
    """Whatever somebody sends is text, on every page and in what arrives live."""
    stack = window.stack
    job_id = await died(stack)
    error = {"type": EVIL, "code": EVIL, "message": EVIL, "where": [EVIL], "details": {EVIL: EVIL}}
    owner: AsyncEngine = open_engine(stack.database.owner_url, pool_size=1)
    binds = {"job_id": job_id, "evil": EVIL, "error": json.dumps(error)}
    for statement in (
        """UPDATE chot.jobs SET kind = :evil, brand = :evil, company = :evil, principal = :evil
            WHERE id = CAST(:job_id AS uuid) AND :error <> ''""",
        """UPDATE chot.job_outputs SET error = CAST(:error AS jsonb)
            WHERE job_id = CAST(:job_id AS uuid) AND :evil <> ''""",
        """UPDATE chot.attempts SET error = CAST(:error AS jsonb), worker_id = :evil
            WHERE job_id = CAST(:job_id AS uuid)""",
        """UPDATE chot.job_payloads SET payload = jsonb_build_object(CAST(:evil AS text),
                  CAST(:evil AS text)) WHERE job_id = CAST(:job_id AS uuid) AND :error <> ''""",
    ):
        named = {name: value for name, value in binds.items() if f":{name}" in statement}
        await execute(owner, statement, **named)
    await owner.dispose()
    page = await window.open("/ui/")
    for path in ("/ui/jobs", f"/ui/jobs/{job_id}", "/ui/dead-letters"):
        await page.goto(path)
        await expect(page.locator("main")).to_contain_text("window.hit=1")
        if "letters" not in path:
            await page.locator("#live.on").wait_for()
        assert await page.evaluate("window.hit") is None
        assert await page.locator("main img, main script").count() == 0
        assert await sideways(page) == 0
    await shot(page, "markup")


async def test_a_key_without_operate_is_told_which_role_it_takes(window: Window) -> None:
    """The menu does not offer the page; who types its address gets no list."""
    page = await window.open("/ui/dead-letters", who="reader")
    await expect(page.locator("main")).to_contain_text(re.compile("role “operate”"))
    window.complaints.clear()  # of a browser about the 403, which is meant

"""A redrive that another account approves, in a real browser: the field, the refusals, the act."""

import asyncio
import re
import secrets
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.async_api import Page, expect

from dev.sqs import SqsServer
from tests.pages.chromium import Window, shot, sideways
from tests.pages.stack import Stack, open_stack
from tests.pages.test_jobs import until_clean
from tests.protocol.api.keys import bearer
from tests.services import DatabaseServer

pytestmark = pytest.mark.pages
REFUSED = re.compile(r"approv", re.IGNORECASE)


@pytest.fixture(scope="module")
def stack(
    postgres: DatabaseServer,
    sqs_server: SqsServer,
    sqs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """As everywhere here, where a redrive asks for another account's approval."""
    mine = postgres.create()
    prefix, logs = f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("stack")
    asks = {"CHOT_APPROVALS": "job.redrive"}
    with open_stack(mine, prefix, sqs_server.endpoint, logs, sqs, **asks) as opened:
        yield opened
    postgres.drop(mine)


def approve(stack: Stack, job_id: str, who: str) -> str:
    """What `chot approve job.redrive` does; the approval's id."""
    body = {"action": "job.redrive", "target": job_id, "reason": "looked at"}
    url, key = f"{stack.url}/v1/approvals", bearer(stack.keys[who])
    made = httpx.post(url, json=body, headers=key)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def send(page: Page, approval: str) -> None:
    """Open the question, fill the field in, say yes."""
    await page.get_by_role("button", name="Run it again").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Approval").fill(approval)
    await dialog.get_by_role("button", name="Yes, do it").click()


async def test_a_redrive_is_done_with_anothers_approval_alone(window: Window) -> None:
    """The form asks for it and says how to get one; a wrong one, and one's own, do nothing."""
    stack = window.stack
    job_id = stack.jobs["dead"]
    await until_clean(stack, job_id)
    own = await asyncio.to_thread(approve, stack, job_id, "operator")
    other = await asyncio.to_thread(approve, stack, job_id, "admin")
    page = await window.open(f"/ui/jobs/{job_id}", who="operator", phone=True)
    await page.get_by_role("button", name="Run it again").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Approval")
    await expect(field).to_have_attribute("required", "")
    await expect(dialog).to_contain_text(f"chot approve job.redrive {job_id}")
    assert await sideways(page) == 0
    await shot(page, "approval-en-light-phone")
    await dialog.get_by_role("button", name="No, leave it").click()
    for wrong in (str(uuid4()), own):
        await send(page, wrong)
        await expect(page.locator("main")).to_contain_text(REFUSED)
        await page.goto(f"/ui/jobs/{job_id}")
        assert stack.job(job_id)["redriven"] is None
    await send(page, other)
    await expect(page.locator(".flash.ok")).to_be_visible()
    again = stack.until(job_id, "dead", "pending", "running")["redriven"]
    assert (again["by"], again["approver"]) == ("operator", "admin")
    window.complaints.clear()  # of a refusal that the browser was told by its status, if any


async def test_dead_letters_lead_to_each_jobs_own_page(window: Window) -> None:
    """No button for a cause or all: one approval is for one job."""
    page = await window.open("/ui/dead-letters", lang="vi")
    await expect(page.locator("main")).to_contain_text("Ở đây chạy lại cần tài khoản khác duyệt")
    assert await page.locator("details.confirm").count() == 0
    row = page.locator("#jobs tbody tr").first
    await expect(row.locator("td").last.get_by_role("link")).to_have_attribute(
        "href", f"/ui/jobs/{window.stack.jobs['dead']}"
    )

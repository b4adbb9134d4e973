"""A newcomer in front of a job that is stuck: from its page alone, what is wrong and where to go.

No worker runs: each cause is brought about by the functions that do it in earnest.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from playwright.async_api import Page, expect
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.jobs.reasons import Reason
from tests.factories import claimed_again, execute, expire_lease, make_job, prepare_probes
from tests.pages.chromium import Window, open_window, shot, sideways
from tests.protocol.api.live import served
from tests.protocol.reasons import SETUPS, crew
from tests.protocol.test_why import clear

pytestmark = pytest.mark.pages


@dataclass(frozen=True, slots=True)
class Cause:
    """What the page has to say, the link that it offers, and what is to be seen behind it."""

    says: str
    link: str | None = None
    behind: str | None = None


CAUSES = {
    Reason.NO_WORKER: Cause("No live worker serves queue default", "Workers, and", "Workers"),
    Reason.KIND_UNKNOWN: Cause("knows kind probe.write", "Workers, and", "Workers"),
    Reason.QUEUE_PAUSED: Cause("Queue default is paused", "Queue default", "default"),
    Reason.KIND_PAUSED: Cause("Kind probe.write is paused", "to resume it", "Resume"),
    Reason.LOCK_HELD: Cause("holds books for itself", "The job in the way", "running"),
    Reason.LIMIT_REACHED: Cause("is reached (2 run, 2 may)", "Those that run", "running"),
    Reason.BACKOFF: Cause("is tried again in", "Attempt 1", "period is open"),
    Reason.SCHEDULED: Cause("is not to start before"),
    Reason.WINDOW_FULL: Cause("waits for its turn behind", "Those in the same line", "pending"),
    Reason.BOOKS_FROZEN: Cause("have been frozen since", "Jobs of ACME", "pending"),
    Reason.DEAD: Cause("refused until its leftovers are removed", "Workers, and", "Workers"),
    Reason.JOB_PAUSED: Cause("has been paused since", "What people did with it", "job.submit"),
    Reason.WORKER_SILENT: Cause("has not been heard of for", "Workers, and", "Workers"),
    Reason.LEASE_EXPIRED: Cause("without being renewed", "Workers, and", "Workers"),
}


@dataclass(frozen=True, slots=True)
class Open:
    """An api that asks for no key, in the place of a stack."""

    url: str

    def cookie(self, who: str) -> str:
        """Nobody logs in here."""
        raise AssertionError(who)


@pytest.fixture
async def probes(owner_engine: AsyncEngine, engine: AsyncEngine, company: str) -> AsyncEngine:
    """Role app's engine, on a database that knows company ACME and the probe kinds."""
    assert company == "ACME"
    await prepare_probes(owner_engine, engine)
    return engine


@pytest.fixture
async def alone(probes: AsyncEngine, settings: ApiSettings) -> AsyncIterator[Window]:
    """A Chromium in front of an api without workers."""
    assert probes is not None
    known = settings.model_copy(update={"kind_modules": "tests.probes.kinds"})
    async with (
        served(known) as api,
        open_window(Open(f"http://127.0.0.1:{api.port}")) as window,  # type: ignore[arg-type]
    ):
        yield window


@pytest.mark.long
async def test_every_cause_is_found_on_the_page_and_its_link_leads_there(
    alone: Window, probes: AsyncEngine
) -> None:
    """The sentence, what to do, and behind the link what is in the way."""
    page = await alone.open("/ui/", who=None)
    for reason, cause in CAUSES.items():
        job_id = await SETUPS[reason](probes)
        await page.goto(f"/ui/jobs/{job_id}")
        await expect(page.locator(".sentence")).to_contain_text(cause.says)
        await expect(page.locator(".sentence")).to_have_attribute("data-reason", reason)
        await expect(page.locator(".advice")).not_to_be_empty()
        await shot(page, f"why-{reason}")
        if cause.link is not None:
            await _follow(page, cause)
        await clear(probes)


async def _follow(page: Page, cause: Cause) -> None:
    await page.locator(".places a").filter(has_text=cause.link).first.click()
    await page.wait_for_load_state("load")
    target = page.url.partition("#")[2]
    if target:
        await expect(page.locator(f"[id='{target}']")).to_be_visible()
    await expect(page.locator("main")).to_contain_text(cause.behind or "")


async def test_a_reason_that_goes_is_gone_from_the_page_without_a_reload(
    alone: Window, probes: AsyncEngine
) -> None:
    """The sentence is a live one, and on a phone it is what one sees first."""
    job_id = await SETUPS[Reason.QUEUE_PAUSED](probes)
    page = await alone.open(f"/ui/jobs/{job_id}", who=None, phone=True)
    await page.locator("#live.on").wait_for()
    await expect(page.locator(".sentence")).to_have_attribute("data-reason", "queue-paused")
    assert await sideways(page) == 0
    await page.evaluate("window.kept = true")
    await clear(probes)
    await expect(page.locator(".sentence")).to_have_attribute("data-reason", "no-worker")
    assert await page.evaluate("window.kept")


async def test_a_takeover_is_drawn_where_one_fence_ends_and_the_next_begins(
    alone: Window, probes: AsyncEngine
) -> None:
    """The zombie's bar ends, a line leads to the next owner's, and the table says the same."""
    await crew(probes)
    first = await claimed_again(probes, await make_job(probes), worker="zombie")
    job_id = first.lease.job_id
    await execute(
        probes,
        "UPDATE chot.attempts SET started_at = started_at - interval '20 s' WHERE job_id = :id",
        id=job_id,
    )
    await expire_lease(probes, job_id)
    await claimed_again(probes, job_id, worker="w")
    for phone in (False, True):
        page = await alone.open(f"/ui/jobs/{job_id}", who=None, phone=phone)
        drawing = page.locator("svg.timeline")
        await expect(drawing.locator(".bar.lost_lease")).to_have_count(1)
        await expect(drawing.locator(".bar.running")).to_have_count(1)
        await expect(drawing.locator(".bar.lease")).to_have_count(1)
        await expect(drawing).to_contain_text("fence 1 ends, 2 takes over")
        lost = await drawing.locator(".bar.lost_lease").bounding_box()
        runs = await drawing.locator(".bar.running").bounding_box()
        assert lost is not None
        assert runs is not None
        assert abs(lost["x"] + lost["width"] - runs["x"]) < 8
        await page.locator("#h-time ~ details summary").click()
        events = page.get_by_role("table", name="The same as a table of events")
        await expect(events).to_contain_text("whatever that worker still writes is refused")
        assert await sideways(page) == 0
        await shot(page, f"takeover-{'phone' if phone else 'desk'}")

"""More dead jobs than one step of a redrive takes, in a real browser: it goes on where it ended."""

import pytest
from playwright.async_api import expect
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.dead_letters import MOST_REDRIVES
from shared.database import open_engine
from shared.jobs.pause import pause_queue
from tests.factories import execute, scalar
from tests.pages.chromium import Window, shot

pytestmark = [pytest.mark.pages, pytest.mark.long]
MANY = MOST_REDRIVES + 30
STEP_MS = 120_000  # a thousand jobs, each in a transaction of its own
# As they die in earnest, with what a redrive looks at: payload, error and row.
SEED = """
    WITH dead AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, state, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal,
               deployment_id, created_at, finished_at, attempt, fence)
        SELECT chot.uuid7(), j.kind, j.company, j.brand, j.queue, 'dead', 5, 5, j.available_at,
               sha256(convert_to('many ' || n, 'UTF8')), 'join', j.payload_version, 'seed',
               j.deployment_id, j.created_at, clock_timestamp(), 1, 1
          FROM chot.jobs j, generate_series(1, CAST(:many AS integer)) AS n
         WHERE j.id = CAST(:job_id AS uuid)
        RETURNING id),
    paid AS (
        INSERT INTO chot.job_payloads (job_id, payload)
        SELECT d.id, p.payload FROM dead d, chot.job_payloads p
         WHERE p.job_id = CAST(:job_id AS uuid))
    INSERT INTO chot.job_outputs (job_id, error)
    SELECT id, '{"type": "ValueError", "code": "FAILED", "message": "the oven is cold"}' FROM dead"""


async def test_a_redrive_of_more_than_a_step_takes_goes_on(window: Window) -> None:
    """The first thousand, then what is left, by the button of the report; nobody is left dead."""
    stack = window.stack
    owner: AsyncEngine = open_engine(stack.database.owner_url, pool_size=2)
    try:
        async with owner.begin() as conn:
            await pause_queue(conn, "default")  # so that they are where they were put
        await execute(owner, SEED, many=MANY, job_id=stack.jobs["finished"])
        page = await window.open("/ui/dead-letters")
        page.set_default_timeout(STEP_MS)
        mine = page.get_by_role("table", name="By cause").locator("tr", has_text="oven is cold")
        await expect(mine.locator("td").first).to_have_text(f"{MANY:,}")
        await mine.get_by_role("button", name="Run these again").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text(f"Run all {MANY:,} jobs of this cause again?")
        await dialog.get_by_role("button", name="Yes, do it").click()
        said = page.get_by_role("status")
        await expect(said).to_contain_text(
            f"{MOST_REDRIVES:,} wait to run again, 0 stay", timeout=STEP_MS
        )
        await expect(page.locator("main")).to_contain_text("There are more")
        await shot(page, "redrive-goes-on")
        await page.get_by_role("button", name="Go on with the next").click()
        left = MANY - MOST_REDRIVES
        await expect(said).to_contain_text(f"{left} wait to run again, 0 stay", timeout=STEP_MS)
        assert await page.get_by_role("button", name="Go on with the next").count() == 0
        dead = "SELECT count(*) FROM chot.jobs WHERE principal = 'seed' AND state = 'dead'"
        assert await scalar(owner, dead) == 0
        redriven = (
            "SELECT count(*) FROM chot.jobs WHERE principal = 'seed' AND redriven_by = 'admin'"
        )
        assert await scalar(owner, redriven) == MANY
    finally:
        await owner.dispose()

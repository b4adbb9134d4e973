"""The page of examples is what happens: every command runs, every answer is the one printed."""

import asyncio
import os
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from api.rights import RULES
from dev.sample_company import load_sample
from dev.sqs import bucket_name, ensure_bucket
from shared.access import Role
from tests.fleet import Fleet
from tests.journeys.examples import MOVEMENTS, STEPS, make_page, without_what_varies
from tests.protocol.api.keys import make_key

PAGE = Path(__file__).parents[2] / "docs" / "examples.md"


def test_every_route_has_an_example() -> None:
    """A new one fails here until somebody shows it."""
    assert {step.route for step in STEPS} == {" ".join(rule) for rule in RULES}


async def test_every_example_is_true(fleet: Fleet, owner_engine: AsyncEngine) -> None:
    """Run in order against an api, a worker and the sample company, as a reader would."""
    await load_sample(fleet.database.app_url, movements=MOVEMENTS)
    key = await make_key(owner_engine, Role.ADMIN, principal="you")
    own = {"CHOT_KIND_MODULES": "", "CHOT_HANDLER_MODULES": "", "CHOT_QUEUES": ""}
    own["CHOT_FILES_BUCKET"] = bucket_name(fleet.prefix)
    own["CHOT_ALERT_SECONDS"] = "0.3"  # so that the dead jobs of the page are found by then
    ensure_bucket(fleet.endpoint, own["CHOT_FILES_BUCKET"])
    fleet.worker(**own)
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_API_OPEN="false", **own))
    page = await make_page(url, key)
    if os.environ.get("CHOT_TEST_WRITE_EXAMPLES"):
        PAGE.write_text(page)
    assert without_what_varies(PAGE.read_text()) == without_what_varies(page)

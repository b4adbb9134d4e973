"""Open pages of jobs: one look an interval for all of them, and a bound for each account."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from api.ui.following import Following, waits
from shared.access import EVERYTHING, Role, Scope
from shared.jobs.cancel import cancel_job
from shared.jobs.pause import pause_queue
from shared.jobs.reasons import Reason
from tests.factories import eventually, make_job
from tests.pages.browsing import guarded, log_in, text_of
from tests.pages.test_live import events_of
from tests.protocol.api.keys import RED, make_key
from tests.protocol.reasons import SETUPS, crew, why

STREAM = {"Accept": "text/event-stream"}
PAGES = 30
LOOK, DETAILS = "crews AS MATERIALIZED", "'[]') AS attempts"


class Statements:
    """Counts what is asked of the database, by a part of its text."""

    def __init__(self, *engines: AsyncEngine) -> None:
        self.said: list[str] = []
        for engine in engines:
            event.listen(engine.sync_engine, "before_cursor_execute", self._hear)

    def _hear(self, _conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.said.append(statement)

    def count(self, part: str) -> int:
        """How many had it."""
        return sum(part in statement for statement in self.said)


async def test_pages_of_many_jobs_are_one_statement_an_interval(
    probes: AsyncEngine,
    settings: ApiSettings,
    owner_engine: AsyncEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thirty jobs, each with a page of its own: a look is one statement, details are read once."""
    monkeypatch.setattr("api.ui.job_look.DETAILS_SECONDS", 1000.0)
    jobs = [await make_job(probes) for _ in range(PAGES)]
    async with guarded(settings) as client:
        await log_in(client, await make_key(owner_engine, Role.READ))
        state = client._transport.app.state  # type: ignore[attr-defined]
        following: Following = state.following
        resources = following.resources
        said = Statements(resources.background, resources.engine)
        streams = [
            asyncio.create_task(client.get(f"/ui/jobs/{job_id}/live", headers=STREAM))
            for job_id in jobs
        ]

        async def looked() -> bool:
            return following.looks >= 4 and all(
                feed.number >= 3 for feed in state.feeds._feeds.values()
            )

        await eventually(looked, seconds=30)
        assert len(state.feeds._feeds) == PAGES
        # The first may come in two looks; each look is one statement.
        assert said.count(LOOK) - PAGES <= following.looks <= 8  # and one for each page's opening
        resources.stopping.set()
        answers = await asyncio.wait_for(asyncio.gather(*streams), 20)
        assert said.count(DETAILS) == 2 * PAGES  # when a page is opened, and when its feed begins
        for answer in answers:
            parts = events_of(answer.text)[0][1]
            assert "job-why" in parts
        resources.stopping.clear()


async def test_a_page_sees_what_changes_without_waiting_for_its_details(
    probes: AsyncEngine, settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """A pause is no change of the job, and the next look has it; so has a cancel its attempts."""
    await crew(probes)
    job_id = await make_job(probes)
    async with guarded(settings) as client:
        await log_in(client, await make_key(owner_engine, Role.READ))
        state = client._transport.app.state  # type: ignore[attr-defined]
        stream = asyncio.create_task(client.get(f"/ui/jobs/{job_id}/live", headers=STREAM))

        async def numbered(least: int) -> None:
            async def looked() -> bool:
                return any(feed.number >= least for feed in state.feeds._feeds.values())

            await eventually(looked, seconds=20)

        await numbered(1)
        async with probes.begin() as conn:
            await pause_queue(conn, "default")
        await numbered(3)
        async with probes.begin() as conn:
            await cancel_job(conn, job_id)
        await numbered(5)
        state.feeds.resources.stopping.set()
        answer = await asyncio.wait_for(stream, 20)
        said = [
            text_of(parts["job-why"]) for _, parts in events_of(answer.text) if "job-why" in parts
        ]
        assert any("Queue default is paused" in each for each in said)
        assert "was cancelled" in said[-1]
        state.feeds.resources.stopping.clear()


async def test_an_account_has_so_many_live_pages_and_the_others_read_themselves(
    probes: AsyncEngine, settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """The third is told so by its stream, and gets all parts by asking; another account is not."""
    job_id = await make_job(probes)
    bounded = settings.model_copy(update={"live_pages": 2})
    async with guarded(bounded) as client:
        state = client._transport.app.state  # type: ignore[attr-defined]
        await log_in(client, await make_key(owner_engine, Role.READ, principal="many"))
        places = [f"/ui/jobs/{job_id}/live", "/ui/events"]
        tasks = [asyncio.create_task(client.get(place, headers=STREAM)) for place in places]

        async def open_() -> bool:
            return [feed.number >= 1 for feed in state.feeds._feeds.values()] == [True, True]

        await eventually(open_, seconds=20)
        full = await client.get(f"/ui/jobs-live?ids={job_id}", headers=STREAM)
        assert (full.status_code, events_of(full.text)) == (200, [("full", {})])
        once = await client.get(f"/ui/jobs-live?ids={job_id}&once=1")
        assert once.headers["content-type"] == "application/json"
        assert once.headers["cache-control"] == "no-store"
        assert set(once.json()) == {f"{part}-{job_id}" for part in ("state", "progress", "waits")}
        assert set((await client.get("/ui/events?once=1")).json()) >= {"verdict", "queues"}
        client.cookies.clear()
        await log_in(client, await make_key(owner_engine, Role.READ, principal="other"))
        tasks.append(asyncio.create_task(client.get(places[1] + "?span=day", headers=STREAM)))

        async def three() -> bool:
            return bool(state.feeds._of_account.total() == 3)

        await eventually(three, seconds=20)
        state.feeds.resources.stopping.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*tasks), 20)
        state.feeds.resources.stopping.clear()


@pytest.mark.parametrize("reason", Reason)
async def test_the_list_says_why_each_job_waits(
    probes: AsyncEngine, settings: ApiSettings, owner_engine: AsyncEngine, reason: Reason
) -> None:
    """The reason of /why in few words, in both languages; of what does not wait, none."""
    job_id = await SETUPS[reason](probes)
    pending = (await why(probes, job_id))["state"] == "pending"
    async with guarded(settings) as client:
        await log_in(client, await make_key(owner_engine, Role.READ))
        said = []
        for language in ("en", "vi"):
            page = (await client.get(f"/ui/jobs?lang={language}")).text
            cell = page.partition(f'id="waits-{job_id}">')[2].partition("</span>")[0]
            said.append(text_of(cell))
        assert all(said) == pending, said
        assert "None" not in "".join(said)
        assert said[0] != said[1] or not pending


async def test_a_page_of_fifty_is_asked_why_by_one_statement(
    probes: AsyncEngine, settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """Of different queues and kinds; outside of an account's scope nothing is told."""
    jobs = [await make_job(probes, kind=("probe.write", "probe.merge")[n % 2]) for n in range(50)]
    async with guarded(settings) as client:
        await log_in(client, await make_key(owner_engine, Role.READ, scope=RED))
        resources = client._transport.app.state.feeds.resources  # type: ignore[attr-defined]
        said = Statements(resources.engine)
        page = (await client.get("/ui/jobs")).text
        assert said.count(LOOK) == 1
        assert page.count("no worker serves its queue") == 50
        assert json.dumps(jobs[0], default=str).strip('"') in page


async def test_one_statement_for_many_says_of_each_what_the_one_for_one_says(
    probes: AsyncEngine,
) -> None:
    """Whoever asks, and whatever of it is counted."""
    jobs = [await make_job(probes) for _ in range(3)]
    await cancel_job_of(probes, jobs[1])
    following = Following(_Resources(probes))  # type: ignore[arg-type]
    for scope in (EVERYTHING, Scope(company="ACME", brands=("RED",))):
        for job_id in jobs:
            one, many = await why(probes, job_id, scope), await following.page(job_id, scope)
            assert many is not None
            differing = {
                name for name in one if one[name] != many[name] and not isinstance(one[name], float)
            }
            assert differing <= {"read_at"}
    blue = await following.page(jobs[0], Scope(company="ACME", brands=("BLUE",)))
    assert blue is None
    assert [waits(reason) is None for _, reason in await following.listed(jobs)] == [
        False,
        True,
        False,
    ]


class _Resources:
    """What a look needs of the api's resources."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.background = engine


async def cancel_job_of(engine: AsyncEngine, job_id: Any) -> None:
    """Cancel it, as its owner would."""
    async with engine.begin() as conn:
        await cancel_job(conn, job_id)

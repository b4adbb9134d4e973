"""Whatever there is, what comes live stays small: the rest stands on pages of its own."""

import asyncio
import json
import re

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.ui.live import Feeds
from api.ui.paths import HOME
from shared.access import Role
from tests.factories import eventually, execute
from tests.pages.browsing import log_in, text_of, token_in
from tests.pages.test_live import events_of
from tests.protocol.api.keys import RED, make_key

MOST_BYTES = 40_000
CROWD = (
    """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, seen_at,
                                  live_until)
       SELECT format('ip-10-0-%s-%s.ap-southeast-1.compute.internal-%s-%s', n / 250, n % 250, n,
                     left(md5(n::text), 8)), 'host', n, '0.1.0+' || left(md5((n % 9)::text), 12),
              '{}', CASE n % 10 WHEN 0 THEN 'draining' ELSE 'working' END,
              clock_timestamp() - CASE WHEN n % 20 = 1 THEN interval '5 minutes'
                                       ELSE interval '1 second' END,
              clock_timestamp() + CASE WHEN n % 20 = 1 THEN interval '-4 minutes'
                                       ELSE interval '1 hour' END
         FROM generate_series(1, 1000) AS n""",
    """INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots)
       SELECT worker_id, 'default', 8, pid % 9 FROM chot.workers""",
    """INSERT INTO chot.queues (name, paused)
       SELECT 'queue_of_shop_' || n, n % 3 = 0 FROM generate_series(1, 400) AS n""",
    """INSERT INTO chot.kinds (name, queue, payload_version, fingerprint_fields, on_duplicate,
                                max_attempts, max_attempts_cap, timeout_seconds, paused)
       SELECT 'shop.of_number_' || n, 'default', 1, '{}', 'join', 5, 5, 60, n % 4 = 0
         FROM generate_series(1, 400) AS n""",
    """INSERT INTO chot.alerts (rule, subject, severity, incident, value, since, fired_at)
       SELECT 'oldest_due', 'queue_of_shop_' || n, 'critical', gen_random_uuid(), n,
              clock_timestamp(), clock_timestamp() FROM generate_series(1, 100) AS n""",
    """INSERT INTO chot.job_minutes (minute, queue, company, brand, state, jobs)
       SELECT date_trunc('minute', clock_timestamp()) - make_interval(mins => n), 'default', 'ACME',
              'RED', s, CASE s WHEN 'sampled' THEN 1 ELSE 1000 + n * n % 997 END
         FROM generate_series(1, 1440) AS n,
              unnest('{sampled,pending,running,dead,succeeded,cancelled}'::text[]) AS s""",
)


@pytest.fixture
async def crowd(owner_engine: AsyncEngine, visitor: httpx.AsyncClient) -> None:
    """A thousand workers, four hundred queues and kinds, a hundred alerts; a third is paused."""
    for statement in CROWD:
        await execute(owner_engine, statement)
    await log_in(visitor, await make_key(owner_engine, Role.READ, Role.OPERATE))


async def first_parts(client: httpx.AsyncClient, path: str, language: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    """What a stream tells at first: its bytes, and its parts. Then the api ends."""
    header = {"Accept": "text/event-stream", "Accept-Language": language}
    state = client._transport.app.state  # type: ignore[attr-defined]
    feeds: Feeds = state.feeds
    stream = asyncio.create_task(client.get(path, headers=header))

    async def looked() -> bool:
        return any(feed.number >= 1 for feed in feeds._feeds.values())

    await eventually(looked)
    feeds.resources.stopping.set()
    answer = await asyncio.wait_for(stream, 20)
    feeds.resources.stopping.clear()
    name, parts = events_of(answer.text)[0]
    assert name == "parts"
    return len(json.dumps(parts, ensure_ascii=False).encode()), parts


@pytest.mark.parametrize("language", ["en", "vi"])
@pytest.mark.usefixtures("crowd")
async def test_a_live_fragment_stays_small(visitor: httpx.AsyncClient, language: str) -> None:
    """All parts of the overview together, with a thousand workers: the sums are exact."""
    size, parts = await first_parts(visitor, "/ui/events?span=day", language)
    assert size < MOST_BYTES, {name: len(html) for name, html in parts.items()}
    told = text_of(parts["tiles"])
    assert "950" in told  # 50 of 1,000 are lost
    assert parts["workers"].count("<tr ") == 10
    assert parts["queues"].count("<tr ") == 10
    assert "kinds" not in parts  # they stand in a fold
    lost = {"en": "lost", "vi": "mất liên lạc"}[language]
    assert lost in text_of(parts["workers"])
    counts = re.findall(r'<strong class="number">([0-9]+)</strong>', parts["crew"])
    assert (len(counts), sum(map(int, counts))) == (7, 1000)
    queues = sum(
        part.isdigit() and int(part) >= 390 for part in text_of(parts["more-queues"]).split()
    )
    assert queues == 1


@pytest.mark.usefixtures("crowd")
async def test_all_of_them_stand_on_pages(visitor: httpx.AsyncClient) -> None:
    """By name and state, a hundred a page; each once."""
    home = (await visitor.get(HOME)).text
    assert len(home) < 80_000
    seen: list[str] = []
    for page in range(1, 12):
        answer = await visitor.get(f"/ui/workers?page={page}")
        seen += [part.split('"', 1)[0] for part in answer.text.split('<tr data-key="')[1:]]
        if 'rel="next"' not in answer.text:
            break
    assert page == 10
    assert len(seen) == len(set(seen)) == 1000
    lost = (await visitor.get("/ui/workers?state=lost")).text
    assert lost.count("<tr data-key=") == 50
    named = (await visitor.get("/ui/queues?name=queue_of_shop_7")).text
    rows = [part.split('"', 1)[0] for part in named.split('<tr id="queue-')[1:]]
    assert rows[0] == "queue_of_shop_7"
    assert len(rows) == 11  # 7, 70 to 79
    assert (await visitor.get("/ui/kinds?name=shop.of_number_4")).text.count("<tr id=") == 12
    assert (await visitor.get("/ui/workers?page=0")).status_code == 422
    assert (await visitor.get("/ui/workers?state=odd")).status_code == 422


@pytest.mark.usefixtures("crowd")
async def test_where_workers_are_is_for_keys_of_all_companies(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Others see the end of each id, on the overview and on the list."""
    visitor.cookies.clear()
    await log_in(visitor, await make_key(owner_engine, Role.READ, scope=RED))
    for path in (HOME, "/ui/workers", "/ui/workers?page=2"):
        page = (await visitor.get(path)).text
        assert page.count("<tr data-key=") >= 10
        assert "compute.internal" not in page


@pytest.mark.usefixtures("crowd")
async def test_a_queue_is_resumed_where_one_looks(visitor: httpx.AsyncClient) -> None:
    """The way back is the list, and no other place that a form may name."""
    page = (await visitor.get("/ui/queues?name=queue_of_shop_3")).text
    form = {"csrf": token_in(page), "back": "/ui/queues"}
    done = await visitor.post("/ui/queues/queue_of_shop_3/resume", data=form)
    assert (done.status_code, done.headers["location"]) == (303, "/ui/queues")
    form["back"] = "https://evil.example/"
    done = await visitor.post("/ui/queues/queue_of_shop_6/resume", data=form)
    assert done.headers["location"] == HOME

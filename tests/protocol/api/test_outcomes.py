"""GET /v1/jobs/{id}/outcomes: page by page, by outcome, of an archived job too, and whose."""

import json
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.jobs.enqueue import Submit, enqueue
from tests.document_books import one, sale
from tests.factories import autocommit, execute
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key
from worker.retention import Retention

LIST = """
    INSERT INTO books.posting_items (job_id, document_id, seq, version, done, outcome, codes, detail)
    SELECT :job_id, o.document_id, o.seq, 1, o.outcome IS NOT NULL, o.outcome,
           CASE WHEN o.outcome IN ('POSTED') OR o.outcome IS NULL THEN '{}'
                ELSE ARRAY[o.outcome] END, 'why'
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS o (document_id bigint, seq int, outcome text)"""


async def listed(
    engine: AsyncEngine,
    *outcomes: str | None,
    documents: list[int] | None = None,
    brand: str | None = "RED",
) -> str:
    """A posting of ACME whose documents ended so; None: not yet."""
    job = Submit(kind="posting.post", company="ACME", brand=brand, payload={"types": ["sale"]})
    async with engine.begin() as conn:
        job_id = (await enqueue(conn, job)).job_id
    ids = documents or [900_000 + n for n in range(len(outcomes))]
    rows = [
        {"document_id": ids[n], "seq": n + 1, "outcome": outcome}
        for n, outcome in enumerate(outcomes)
    ]
    await execute(engine, LIST, job_id=job_id, rows=json.dumps(rows))
    return str(job_id)


async def page_of(client: httpx.AsyncClient, job_id: str, **asked: Any) -> dict[str, Any]:
    """One page."""
    answer = await client.get(f"/v1/jobs/{job_id}/outcomes", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def every(client: httpx.AsyncClient, job_id: str, **asked: Any) -> list[dict[str, Any]]:
    """All pages."""
    found, cursor = [], None
    while True:
        asked |= {} if cursor is None else {"cursor": cursor}
        page = await page_of(client, job_id, **asked)
        found += page["outcomes"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


async def test_every_document_is_told_once_in_the_order_of_the_list(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    ends = ["POSTED", "PERIOD_CLOSED", None, "ALREADY_POSTED", "UNBALANCED"]
    job_id = await listed(engine, *ends)
    for limit in (1, 2, 5, 200):
        rows = await every(client, job_id, limit=limit)
        assert [row["place"] for row in rows] == [1, 2, 3, 4, 5]
        assert [row["outcome"] for row in rows] == ends
        closed = rows[1]
        assert (closed["codes"], closed["detail"]) == (["PERIOD_CLOSED"], "why")


async def test_filters(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    job_id = await listed(
        engine, "POSTED", "PERIOD_CLOSED", None, "ALREADY_POSTED", "UNBALANCED", "POSTED"
    )

    async def places(**asked: Any) -> list[int]:
        return [row["place"] for row in await every(client, job_id, limit=1, **asked)]

    assert await places(outcome="POSTED") == [1, 6]
    assert await places(outcome="UNBALANCED,PERIOD_CLOSED") == [2, 5]
    assert await places(failed=True) == [2, 5]
    assert await places(failed=True, outcome="POSTED") == []
    assert await places(outcome="NO_SUCH") == []


@pytest.mark.parametrize(
    "query", ["outcome=posted", "outcome=", "cursor=x", "limit=0", "failed=perhaps", "state=dead"]
)
async def test_a_query_that_means_nothing(
    client: httpx.AsyncClient, engine: AsyncEngine, query: str
) -> None:
    job_id = await listed(engine, "POSTED")
    problem_of(await client.get(f"/v1/jobs/{job_id}/outcomes?{query}"), 422, "invalid-request")


async def test_a_document_is_named_to_who_sees_the_books_of_the_job(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Of an id that is another brand's the job says what became of it, and nothing else."""
    bare: dict[str, Any] = {"lines": [], "total": None, "vat_total": None}
    red = await one(engine, sale("HD-1", **bare))
    assert red.document_id is not None
    ids = [red.document_id, 999_999]
    of_red = await listed(engine, "POSTED", "NOT_FOUND", documents=ids)
    of_blue = await listed(engine, "WRONG_BRAND", "NOT_FOUND", documents=ids, brand="BLUE")
    named = [(row["type"], row["doc_no"]) for row in await every(client, of_red)]
    assert named == [("sale", "HD-1"), (None, None)]
    named = [(row["type"], row["doc_no"]) for row in await every(client, of_blue)]
    assert named == [(None, None), (None, None)]


async def test_whose_jobs_are_told(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    await execute(owner_engine, SEED_OTHER)
    of_red, of_all = await listed(engine, "POSTED"), await listed(engine, "POSTED", brand=None)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        for scope, seen in (
            (RED, {of_red}),
            (ACME, {of_red, of_all}),
            (BLUE, set()),
            (OTHER, set()),
        ):
            key = await make_key(owner_engine, Role.READ, scope=scope)
            for job_id in (of_red, of_all):
                answer = await client.get(f"/v1/jobs/{job_id}/outcomes", headers=bearer(key))
                if job_id in seen:
                    assert len(answer.json()["outcomes"]) == 1
                else:
                    problem_of(answer, 404, "job-not-found")
        key = await make_key(owner_engine, Role.SUBMIT)
        answer = await client.get(f"/v1/jobs/{of_red}/outcomes", headers=bearer(key))
        problem_of(answer, 403, "forbidden")


async def test_an_archived_job_and_one_without_a_list(
    client: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The list is there as long as the job is known."""
    job_id = await listed(engine, "POSTED", "BUSY")
    await execute(
        engine,
        """UPDATE chot.jobs SET state = 'succeeded', cleanup_due = false,
                  finished_at = clock_timestamp() WHERE id = :id""",
        id=UUID(job_id),
    )
    auto = autocommit(engine)
    await Retention(archive_after_days=1e-9, archive_keep_days=0).step(auto)
    assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 200
    assert [row["outcome"] for row in await every(client, job_id)] == ["POSTED", "BUSY"]
    await execute(owner_engine, "DELETE FROM chot.archived_jobs")
    problem_of(await client.get(f"/v1/jobs/{job_id}/outcomes"), 404, "job-not-found")
    other = (await post(client, note())).json()["id"]
    assert await page_of(client, other) == {"outcomes": [], "next_cursor": None}

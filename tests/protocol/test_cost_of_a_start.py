"""From submit to start: four statements where nothing waits, whatever an operator may decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.freeze import Books, freeze_books
from shared.jobs.limiting import Limited, set_limit
from shared.jobs.pause import pause_kind
from tests.factories import autocommit, claimant, make_job, offer_slots
from tests.protocol.test_outbox import Channel, relay
from worker.claim import claim_jobs


@contextmanager
def statements(engine: AsyncEngine) -> Iterator[list[str]]:
    """What is sent to the database meanwhile, but for BEGIN and COMMIT."""
    sent: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)


@pytest.mark.parametrize("decided", [False, True])
async def test_a_start_costs_four_statements(probes: AsyncEngine, *, decided: bool) -> None:
    """Submit; take; mark as sent; claim. Others' limits and stops add none."""
    await offer_slots(probes, 4)
    if decided:
        async with probes.begin() as conn:
            await set_limit(conn, Limited(kind="probe.misbehave"), 3)
            await set_limit(conn, Limited(company="ACME", brand="BLUE"), 3)
            assert await freeze_books(conn, Books(company="ACME", brand="BLUE"))
            assert await pause_kind(conn, "probe.merge")
    await make_job(probes)  # connections are open, the driver knows its types
    await relay(probes, Channel()).flush()
    channel = Channel()
    with statements(probes) as sent:
        job_id = await make_job(probes)
        assert len(sent) == 1, "submit"
        assert await relay(probes, channel).flush()
        assert len(sent) == 1 + 2, "publish"
        assert len(await claim_jobs(autocommit(probes), claimant(), [job_id])) == 1
        assert len(sent) == 1 + 2 + 1, "claim"
    assert channel.jobs == [job_id]

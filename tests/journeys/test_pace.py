"""Progress from a handler's commit to a listener: the rate of the attempt that runs, and its end."""

import asyncio

from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import make_job
from tests.fleet import Fleet
from tests.protocol.api.listener import listening

DOCUMENTS = 200


async def test_a_listener_sees_how_fast_a_job_goes_and_when_it_ends(
    fleet: Fleet, probes: AsyncEngine
) -> None:
    """Ten documents a commit, 50 ms apart at least: no faster than 200 a second, and in time.

    The rate is there before the end, and gone with it.
    """
    fleet.worker()
    _, url = await asyncio.to_thread(fleet.api, CHOT_LIVE_SECONDS="0.1")
    job_id = await make_job(probes, kind="probe.post", documents=DOCUMENTS, chunk=10, seconds=0.05)
    async with asyncio.timeout(60), listening(int(url.rpartition(":")[2]), job_id) as mine:
        events = await mine.to_the_end()
    told = [event.job["progress"] for event in events if event.job["progress"] is not None]
    paced = [progress for progress in told if progress["rate"] is not None]
    assert paced, "a job of twenty commits has a pace while it runs"
    assert all(0 < progress["rate"] <= 200 * 1.05 for progress in paced)
    assert any(progress["eta"] is not None for progress in paced[:-1])
    assert [p["done"] for p in told] == sorted(p["done"] for p in told)
    end = events[-1]
    assert (end.name, end.job["state"], end.job["progress"]["done"]) == (
        "end",
        "succeeded",
        DOCUMENTS,
    )
    assert (end.job["progress"]["rate"], end.job["progress"]["eta"]) == (None, None)

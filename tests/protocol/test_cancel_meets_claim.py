"""A cancel that waits for a claim's commit: it must end the attempt that this commit brings."""

import asyncio

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.cancel import cancel_job
from tests.factories import autocommit, claimant, fetch, job_row, submitted
from tests.protocol.sessions import lock_job, until_waiting
from worker.claim import claim_jobs


async def test_a_cancel_closes_the_attempt_of_a_claim_that_commits_meanwhile(
    probes: AsyncEngine,
) -> None:
    """⚑ In the snapshot of a statement that began before, the attempt is not there to be closed."""
    job_id = (await submitted(probes)).job_id

    async def cancel() -> bool:
        async with probes.begin() as conn:
            return await cancel_job(conn, job_id)

    async with probes.begin() as holder:
        await lock_job(holder, job_id)
        claim = asyncio.create_task(claim_jobs(autocommit(probes), claimant(), [job_id], wait=True))
        await until_waiting(probes)
        cancelled = asyncio.create_task(cancel())
        await until_waiting(probes, sessions=2)
    assert await cancelled
    assert len(await claim) == 1, "the claim came first"
    assert (await job_row(probes, job_id)).state == "cancelled"
    rows = await fetch(probes, "SELECT outcome FROM chot.attempts WHERE job_id = :i", i=job_id)
    assert [row.outcome for row in rows] == ["cancelled"]

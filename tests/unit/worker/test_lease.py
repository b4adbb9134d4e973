"""A held lease stops by this process's own clock, whatever the heartbeat's thread is doing."""

from datetime import UTC, datetime
from time import monotonic
from uuid import UUID

import pytest

from shared.errors import LeaseLost
from shared.types import ClaimedJob, Fence, JobId, Lease, LeaseToken
from worker.lease import HeldLease


def held_until(deadline: float) -> HeldLease:
    """A lease whose local deadline is then."""
    job = ClaimedJob(
        id=JobId(UUID(int=1)),
        kind="probe.write",
        company="ACME",
        brand=None,
        queue="default",
        payload=None,
        payload_version=1,
        attempt=1,
        max_attempts=5,
        principal="test",
        trace=None,
        created_at=datetime.now(UTC),
    )
    lease = Lease(job_id=job.id, fence=Fence(1), token=LeaseToken(UUID(int=2)))
    return HeldLease(lease=lease, job=job, deadline=deadline, checkpoint_no=0, charged_attempts=1)


def test_past_its_deadline_a_lease_stops_its_job() -> None:
    """A SIGSTOP or a C call that held the GIL: nobody has told it, it looks by itself."""
    held, stops = held_until(monotonic() - 0.001), list[str]()
    held.on_stop = lambda: stops.append(held.reason)
    with pytest.raises(LeaseLost, match="deadline"):
        held.require()
    assert held.stopped == "expired"
    assert len(stops) == 1


def test_before_its_deadline_a_lease_is_taken_as_it_is() -> None:
    """The fence is what decides."""
    held = held_until(monotonic() + 60)
    held.require()
    assert held.stopped is None

"""Steps by which a worker gets a job, keeps it or loses it."""

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from shared.messages import parse_message
from shared.sqs import Delivery
from shared.types import ReceiptHandle, WorkerId
from tests.factories import claimant
from tests.stateful.model import Job
from tests.stateful.steps import WHICH, WORKERS, Steps
from worker.alone import free_alone, reserve_alone
from worker.claim import claim_jobs
from worker.lease import HeldLease, renew_leases
from worker.reaper import reap_expired
from worker.settle import read_missed, settle


class ClaimSteps(Steps):
    """Deliver, claim, beat, expire, take over, reap, reserve."""

    @precondition(lambda self: self.queue.bodies)
    @rule(which=WHICH, worker=WORKERS)
    def deliver(self, which: int, worker: str) -> None:
        """A message arrives, once more: it stays in the queue."""
        body = self.queue.bodies[-1 - which % len(self.queue.bodies)]
        job = self.model.by_id(parse_message(body).job_id)
        if not self._claim(job, worker, waits=False):
            self.saw(f"miss: {self._settled(job, worker, body)}")

    def _settled(self, job: Job, worker: str, body: str) -> str:
        delivery = Delivery(
            queue="default",
            message_id="m",
            handle=ReceiptHandle("h"),
            body=body,
            receive_count=1,
            attributes={},
        )
        rows = self.world.run(
            self._auto(lambda conn: read_missed(conn, [job.id], WorkerId(worker)))
        )
        settled = type(settle(delivery, rows[job.id], claimant(worker))).__name__
        alone = job.lost_leases + (job.state == "running") >= 2
        if job.state in {"succeeded", "cancelled", "dead"}:
            wanted = "Delete"
        elif job.state == "running" and not job.expired:
            wanted = "PutOff"
        elif job.state == "pending" and not job.due:
            wanted = "Delete"
        else:
            wanted = "RunAlone" if alone else "ClaimAgain"
        assert settled == wanted, f"{job.name} is {job.state}"
        return settled

    # Claiming and keeping.

    @rule(which=WHICH, worker=WORKERS, waits=st.booleans())
    def claim(self, which: int, worker: str, *, waits: bool) -> None:
        """One worker asks for one job."""
        self._claim(self.job(which, "pending"), worker, waits=waits)

    def _claim(self, job: Job, worker: str, *, waits: bool) -> bool:
        work = claim_jobs(self.world.auto, claimant(worker), [job.id], wait=waits)
        answer = self.world.run(self._locked(work))
        wins = self.model.may_claim(job, worker)
        if wins and job.locked:
            assert answer == ("locked" if waits else [])
            self.saw("a claim met a row that was being committed")
            return False
        assert len(answer) == wins, f"{worker} wins {job.name}: must be {wins}"
        if wins:
            self._claimed(answer[0], worker)
        return wins

    @rule(worker=WORKERS)
    def claim_batch(self, worker: str) -> None:
        """One worker asks for everything; frozen rows hold nobody up."""
        wins = {j.id for j in self.model.jobs if self.model.may_claim(j, worker) and not j.locked}
        ids = [job.id for job in self.model.jobs]
        answer = self.world.run(claim_jobs(self.world.auto, claimant(worker), ids))
        assert {held.lease.job_id for held in answer} == wins
        for held in answer:
            self._claimed(held, worker)

    @rule(which=WHICH)
    def race(self, which: int) -> None:
        """All three workers ask at the same moment; one wins, or none."""
        job = self.job(which, "pending")
        able = [each for each in "abc" if self.model.may_claim(job, each)]
        answers = self.world.run(self._race(job))
        winners = [held for answer in answers for held in answer]
        assert len(winners) == bool(able and not job.locked)
        for held, worker in zip(answers, "abc", strict=True):
            if held:
                assert worker in able
                self._claimed(held[0], worker)
                self.saw("a race was won")

    async def _race(self, job: Job) -> list[list[HeldLease]]:
        return await asyncio.gather(
            *(claim_jobs(self.world.auto, claimant(each), [job.id]) for each in "abc")
        )

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, worker=WORKERS, reaped=st.booleans())
    def taken_over(self, which: int, worker: str, *, reaped: bool) -> None:
        """A worker stands still, its lease runs out, another one goes on."""
        job = self.model.by_id(self.lease(which).lease.job_id)
        self._expire(job)
        if reaped:
            self.reap()
        self._claim(job, worker, waits=False)

    @precondition(lambda self: self.leases)
    @rule()
    def beat(self) -> None:
        """Every worker renews all the leases it believes in."""
        answer = self.world.run(self._auto(lambda conn: renew_leases(conn, self.leases, 30)))
        renewed = set()
        for held in self.leases:
            job = self.model.by_id(held.lease.job_id)
            if job.owned_by(held.lease.fence, held.lease.token) and not job.locked:
                renewed.add(job.id)
                if job.expired:
                    self.saw("an expired lease that nobody took was renewed")
                job.expired = False
        assert answer == renewed

    @rule()
    def reap(self) -> None:
        """The reaper passes."""
        moved = self.model.reap()
        assert self.world.run(self._auto(reap_expired)) == len(moved)
        for job in moved:
            self.saw(f"reaped: {job.state}")

    @precondition(lambda self: any(job.lost_leases for job in self.model.jobs))
    @rule(worker=WORKERS)
    def reserve(self, worker: str) -> None:
        """A worker reserves the queue for a job that must run alone."""
        job, wid = next(each for each in self.model.jobs if each.lost_leases), WorkerId(worker)
        won = self.world.run(
            self._auto(lambda conn: reserve_alone(conn, "default", wid, job.id, 30))
        )
        assert won == (self.model.alone in {None, worker})
        self.model.alone = self.model.alone or worker

    @precondition(lambda self: self.model.alone is not None)
    @rule(which=WHICH, worker=WORKERS)
    def free(self, which: int, worker: str) -> None:
        """It gives the place back, if it has it; a job that did not run is announced again."""
        job, wid = self.job(which), WorkerId(worker)
        self.world.run(self._auto(lambda conn: free_alone(conn, "default", wid, job.id)))
        if self.model.alone == worker:
            self.model.alone = None
        if job.state == "pending" and not job.messages:
            job.messages.append(job.due)

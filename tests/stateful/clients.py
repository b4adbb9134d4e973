"""Steps of clients, operators, maintenance, clocks and the relay."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from shared.errors import Busy
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from shared.jobs.redrive import redrive_job
from shared.messages import parse_message
from tests.stateful.model import Job
from tests.stateful.steps import HANDLED, ITEMS, KINDS, WHICH, Steps
from tests.stateful.world import QUICK
from worker.cleanup import clean_up_one


class ClientSteps(Steps):
    """Submit, cancel, redrive, clean up, let time pass, publish."""

    # Submitting, and what clients and operators do.

    @rule(
        kind=KINDS,
        number=st.integers(0, 1),
        item=ITEMS,
        most=st.integers(1, 3),
        later=st.booleans(),
    )
    def submit(self, kind: str, number: int, item: str, most: int, *, later: bool) -> None:
        """Submit work that may be active already."""
        expected = self.model.submit(kind, number, frozenset({item}), due=not later)
        answer = self.world.run(self._submit(kind, number, item, most, later=later))
        assert (answer if isinstance(answer, str) else answer.duplicate) == expected
        if expected is None:
            name = f"job {len(self.model.jobs) + 1}"
            job = Job(answer.job_id, name, kind, number, most, frozenset({item}), due=not later)
            job.messages.append(not later)
            self.model.jobs.append(job)
        self.saw(f"submit: {expected or 'created'}")

    async def _submit(self, kind: str, number: int, item: str, most: int, *, later: bool) -> Any:
        run_at = None
        if later:
            rows = await self.world.rows("SELECT clock_timestamp() + interval '1 hour' AS run_at")
            run_at = rows[0].run_at
        job = Submit(
            kind=kind,
            company="ACME",
            brand="RED",
            payload={"number": number, "items": [item]},
            max_attempts=most,
            run_at=run_at,
        )
        try:
            async with self.world.engine.begin() as conn:
                return await enqueue(conn, job)
        except Busy:
            return "busy"

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        """Cancel whatever it is."""
        job = self.job(which, "pending", "running")
        answer = self.world.run(self._auto(lambda conn: cancel_job(conn, job.id)))
        active = job.state in {"pending", "running"}
        assert answer == ("locked" if job.locked else active)
        if answer is True:
            self.saw(f"cancelled while {job.state}")
            self.model.cancel(job)

    @precondition(lambda self: any(job.state == "dead" for job in self.model.jobs))
    @rule(which=WHICH)
    def redrive(self, which: int) -> None:
        """Ask for a dead job again."""
        job = self.job(which, "dead")
        answer = type(self.world.run(self._redrive(job))).__name__
        assert answer == self.model.redrive(job)
        self.saw(f"redrive: {answer}")

    async def _redrive(self, job: Job) -> Any:
        async with self.world.engine.begin() as conn:
            return await redrive_job(conn, job.id)

    @precondition(lambda self: any(job.cleanup_due for job in self.model.jobs))
    @rule()
    def clean_up(self) -> None:
        """Maintenance cleans up after one job, in an order of its own."""
        due = [job for job in self.model.jobs if job.cleanup_due]
        assert self.world.run(clean_up_one(self.world.engine, HANDLED, QUICK))
        still = {
            row.id
            for row in self.world.run(self.world.rows("SELECT id FROM chot.jobs WHERE cleanup_due"))
        }
        (cleaned,) = [job for job in due if job.id not in still]
        cleaned.cleanup_due = False
        self.saw("cleaned up")

    # Clocks.

    @precondition(lambda self: any(not job.due for job in self.model.jobs))
    @rule()
    def time_passes(self) -> None:
        """What waits for its time is due now."""
        past = "clock_timestamp() - interval '1 second'"
        self.world.run(
            self.world.turn(f"UPDATE chot.jobs SET available_at = {past} WHERE state = 'pending'")
        )
        self.world.run(self.world.turn(f"UPDATE chot.outbox SET next_send_at = {past}"))
        for job in self.model.jobs:
            job.due = job.due or job.state == "pending"
            job.messages = [True] * len(job.messages)

    @rule(which=WHICH)
    def expire(self, which: int) -> None:
        """A lease runs out."""
        self._expire(self.job(which, "running"))

    # The relay, and what it delivers.

    @rule(how=st.sampled_from(["takes", "takes", "refuses", "breaks", "breaks_late"]))
    def publish(self, how: str) -> None:
        """The relay flushes the outbox into a queue that may fail."""
        self.queue.how, before = how, len(self.queue.bodies)
        sent = {job.id for job in self.model.relay(how)}
        try:
            self.world.run(self.relay.flush())
        except OSError:
            assert sent, "only a queue that was sent to can break"
        told = {parse_message(body).job_id for body in self.queue.bodies[before:]}
        assert told == (sent if how in {"takes", "breaks_late"} else set())
        if sent:
            self.saw(f"publish: queue {how}")

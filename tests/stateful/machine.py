"""The machine: every step the platform's parts can take, in any order, by any of three workers.

Each rule takes one step through the product's own functions and holds the answer against the
model's; leases are never forgotten unless their worker crashes, so most of them are zombies.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.stateful.claims import ClaimSteps
from tests.stateful.clients import ClientSteps
from tests.stateful.commits import CommitSteps
from tests.stateful.model import Job
from tests.stateful.steps import KINDS, LATER_SECONDS, WHICH, WORKERS
from worker.lease import HeldLease
from worker.outcome import Failed, Released, complete_job, fail_job, release_job

OPENINGS = (
    "running",
    "checkpoint",
    "zombie",
    "open body",
    "fenced",
    "asked again",
    "followed by success",
    "followed by cancel",
    "followed by death",
    "redriven by death",
    "dead",
    "lost twice",
)


class ProtocolMachine(ClientSteps, ClaimSteps, CommitSteps):
    """All steps of the protocol against a model of it; `opening` fixes how each run begins."""

    opening: str | None = None

    @initialize(kind=KINDS, opening=st.sampled_from(OPENINGS), most=st.integers(1, 3))
    def begins(self, kind: str, opening: str, most: int) -> None:
        """One job runs, and something has happened to it: random steps alone rarely get there."""
        opening = self.opening or opening
        kind = "probe.follow" if " by " in opening else kind
        self.submit(kind, 0, "x", most, later=False)
        self.claim(0, "a", waits=False)
        match opening:
            case "checkpoint":
                self.commit(0, completes=False)
            case "zombie":
                self.taken_over(0, "b", reaped=False)
            case "open body":
                self.open_body(0, completes=True)
                self.taken_over(0, "b", reaped=False)
            case "fenced":
                self.pass_fence(0, completes=most > 1)
            case "asked again":
                self.submit(kind, 0, "y", most, later=False)
            case "followed by success" | "followed by cancel" | "followed by death":
                self.submit(kind, 0, "y", most, later=False)
                self._ends(opening)
            case "redriven by death":
                self.submit(kind, 0, "y", most, later=False)
                self._ends(opening)
                self.everything_holds()
                self.cancel(0)
                self.clean_up()
                self.redrive(0)
            case "dead":
                self.fail(0, permanent=True, later=False)
                self.clean_up()
            case "lost twice":
                self.taken_over(0, "b", reaped=False)
                self.reserve("c")
                self.taken_over(0, "c", reaped=False)

    def _ends(self, opening: str) -> None:
        """The job leaves for good, in one of the three ways."""
        match opening.rpartition(" ")[2]:
            case "success":
                self.complete(0)
            case "cancel":
                self.cancel(0)
            case "death":
                self.fail(0, permanent=True, later=False)

    # Leaving.

    @precondition(lambda self: self.leases)
    @rule(which=WHICH)
    def complete(self, which: int) -> None:
        """A handler has returned; its completion writes no effects."""
        held = self.lease(which)
        job, wanted = self._exits(held, at_checkpoint=True)
        answer = self.world.run(self._auto(lambda conn: complete_job(conn, held, '{"ok": true}')))
        assert answer == {"lost": False, "locked": "locked", "won": True}[wanted]
        if wanted == "won":
            self.model.complete(job, effect=False)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, permanent=st.booleans(), later=st.booleans())
    def fail(self, which: int, *, permanent: bool, later: bool) -> None:
        """An attempt fails."""
        held = self.lease(which)
        job, wanted = self._exits(held)
        failed = Failed(
            error="broke",
            code="FAILED",
            permanent=permanent,
            delay_seconds=LATER_SECONDS if later else 0,
        )
        answer = self.world.run(self._auto(lambda conn: fail_job(conn, held, failed)))
        if wanted == "won":
            self.model.fail(job, permanent=permanent, due=not later)
            self.saw(f"failed: {job.state}")
        self._left(answer, wanted, job)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, later=st.booleans())
    def release(self, which: int, *, later: bool) -> None:
        """A worker hands a job back."""
        self._release(self.lease(which), later=later)

    def _release(self, held: HeldLease, *, later: bool) -> bool:
        job, wanted = self._exits(held)
        released = Released(reason="drain", delay_seconds=LATER_SECONDS if later else 0)
        answer = self.world.run(self._auto(lambda conn: release_job(conn, held, released)))
        if wanted == "won":
            self.model.release(job, due=not later)
        self._left(answer, wanted, job)
        return wanted == "won"

    def _left(self, answer: Any, wanted: str, job: Job) -> None:
        if wanted == "won":
            assert answer.state == job.state
        else:
            assert answer == (None if wanted == "lost" else "locked")
            self.saw(f"an exit came to nothing: {wanted}")

    @rule(which=WHICH, worker=WORKERS)
    def release_again_and_again(self, which: int, worker: str) -> None:
        """A job that is handed back twenty times at one checkpoint is charged from then on."""
        job = self.job(which, "pending")
        for _ in range(22):
            if not self._claim(job, worker, waits=False):
                break
            held = self.leases.pop()
            if not self._release(held, later=False):
                break
        else:
            self.saw("released too often")

    @precondition(lambda self: self.leases)
    @rule(which=WHICH)
    def crash(self, which: int) -> None:
        """A worker dies; what it knew of this lease is gone."""
        self.leases.remove(self.lease(which))

    @invariant()
    def everything_holds(self) -> None:
        """Rules, history and model, after every step."""
        self.world.run(self.checks.look())
        self.world.seen["steps"] += 1

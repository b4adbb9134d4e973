"""What must happen, in plain Python: the state of every job and the outcome of every step.

No SQL, no clock, no concurrency. It is written from the design, not from the statements, so that
the machine compares two independent answers.
"""

from dataclasses import dataclass, field
from uuid import UUID

from shared.types import JobId

FREE_RELEASES = 20
REDRIVE_BUDGET = 5  # what the probe kinds allow
ALONE_AFTER = 2
ACTIVE = ("pending", "running")


@dataclass(slots=True, eq=False)
class Run:
    """One attempts row; `outcome` None while it runs."""

    fence: int
    attempt: int
    token: UUID
    worker: str
    claimed_checkpoint_no: int
    checkpoint_no: int
    outcome: str | None = None


@dataclass(slots=True, eq=False)
class Job:
    """One job as it must be. `due` and `expired` stand for its clocks.

    `messages` are its outbox rows, each due or not; `locked` says that an open transaction holds
    the row after its fence. `followup` is what was asked for while it ran.
    """

    id: JobId
    name: str
    kind: str
    number: int
    max_attempts: int
    items: frozenset[str]
    due: bool = True
    state: str = "pending"
    fence: int = 0
    attempt: int = 0
    lost_leases: int = 0
    interruptions: int = 0
    checkpoint_no: int = 0
    publishes: int = 0
    token: UUID | None = None
    worker: str | None = None
    expired: bool = False
    cleanup_due: bool = False
    locked: bool = False
    followup: frozenset[str] | None = None
    messages: list[bool] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    effects: list[tuple[int, int]] = field(default_factory=list)

    @property
    def charged(self) -> int:
        """Attempts without lost leases and uncharged releases."""
        return self.attempt - self.lost_leases - self.interruptions

    def owned_by(self, fence: int, token: UUID) -> bool:
        """Whether this fence and token are the present claim's."""
        return (self.state, self.fence, self.token) == ("running", fence, token)

    def attempts_left(self, *, lost: int = 0) -> bool:
        """Whether it may run again once `lost` more leases are counted."""
        most = self.max_attempts
        return self.charged - lost < most and self.lost_leases + lost < 2 * most


@dataclass(slots=True, eq=False)
class Born:
    """A follow-up that must come to be, exactly once, when its predecessor left as `of`."""

    of: str
    kind: str
    number: int
    max_attempts: int
    items: frozenset[str]


@dataclass(slots=True)
class Model:
    """All jobs, and who has reserved the queue for a job that runs alone."""

    jobs: list[Job] = field(default_factory=list)
    born: list[Born] = field(default_factory=list)
    alone: str | None = None

    def by_id(self, job_id: UUID) -> Job:
        """The job with this id."""
        return next(job for job in self.jobs if job.id == job_id)

    def active(self, kind: str, number: int) -> Job | None:
        """The one active job of this work."""
        found = [j for j in self.jobs if (j.kind, j.number) == (kind, number) and j.state in ACTIVE]
        assert len(found) <= 1, "the model itself allows one active job of the same work"
        return found[0] if found else None

    def submit(self, kind: str, number: int, items: frozenset[str], *, due: bool) -> str | None:
        """How a submit meets the active job of its work; None when there is none."""
        twin = self.active(kind, number)
        if twin is None:
            return None
        if twin.locked:
            return "busy"
        if kind == "probe.write" or (kind == "probe.follow" and twin.fence == 0):
            return "joined"
        if twin.fence == 0:
            twin.items |= items
            if due and not twin.due:
                twin.due = True
                twin.messages.append(True)
            return "merged"
        twin.followup = (twin.followup or frozenset()) | items
        return "follow_up"

    def may_claim(self, job: Job, worker: str) -> bool:
        """Whether this worker wins the job if nobody else asks."""
        taken_over = job.state == "running" and job.expired
        if not taken_over and not (job.state == "pending" and job.due):
            return False
        lost = job.lost_leases + int(taken_over)
        if lost >= ALONE_AFTER and self.alone != worker:
            return False
        return job.attempts_left(lost=int(taken_over))

    def claim(self, job: Job, worker: str, token: UUID) -> None:
        """The worker has won the job."""
        if job.state == "running":
            job.runs[-1].outcome = "lost_lease"
            job.lost_leases += 1
        job.state, job.expired, job.publishes = "running", False, 0
        job.fence, job.attempt = job.fence + 1, job.attempt + 1
        job.token, job.worker = token, worker
        at = job.checkpoint_no
        job.runs.append(Run(job.fence, job.attempt, token, worker, at, at))

    def checkpoint(self, job: Job, *, effect: bool = True) -> None:
        """The owner has committed its next chunk."""
        if effect:
            job.effects.append((job.checkpoint_no, job.fence))
        job.checkpoint_no += 1
        job.runs[-1].checkpoint_no = job.checkpoint_no

    def complete(self, job: Job, *, effect: bool) -> None:
        """The owner has completed the job, its last chunk included."""
        self.checkpoint(job, effect=effect)
        self._leave(job, "succeeded", "succeeded")

    def fail(self, job: Job, *, permanent: bool, due: bool) -> None:
        """The owner's attempt has failed and is charged."""
        again = not permanent and job.charged < job.max_attempts
        self._leave(job, "pending" if again else "dead", "failed", due=due)

    def release(self, job: Job, *, due: bool) -> None:
        """The owner has handed the job back; too often at one checkpoint is charged."""
        stood = [run for run in job.runs if run.claimed_checkpoint_no == job.checkpoint_no]
        free = sum(run.outcome == "released" for run in stood) < FREE_RELEASES
        again = free or job.charged < job.max_attempts
        job.interruptions += int(free)
        self._leave(job, "pending" if again else "dead", "released", due=due)

    def cancel(self, job: Job) -> None:
        """A client has cancelled the active job."""
        self._leave(job, "cancelled", "cancelled")

    def reap(self) -> list[Job]:
        """The reaper has passed; what it moved."""
        found = [j for j in self.jobs if j.state == "running" and j.expired and not j.locked]
        for job in found:
            again = job.attempts_left(lost=1)
            job.lost_leases += 1
            self._leave(job, "pending" if again else "dead", "lost_lease")
        return found

    def _leave(self, job: Job, state: str, outcome: str, *, due: bool = True) -> None:
        if job.state == "running":
            job.runs[-1].outcome = outcome
        job.state, job.token, job.worker, job.expired = state, None, None, False
        if state == "pending":
            job.due = due
            job.messages.append(due)
            return
        job.cleanup_due = state != "succeeded" and job.attempt > 0
        if job.followup is not None:
            self.born.append(Born(state, job.kind, job.number, job.max_attempts, job.followup))

    def redrive(self, job: Job) -> str:
        """An operator asks for a dead job again; what the answer is."""
        if job.state != "dead":
            return "NotDead"
        if self.active(job.kind, job.number) is not None:
            return "TwinActive"
        if job.cleanup_due:
            return "CleanupPending"
        job.max_attempts = max(job.charged, (job.lost_leases + 1) // 2) + REDRIVE_BUDGET
        job.state, job.due, job.followup = "pending", True, None
        job.messages.append(True)
        return "Redriven"

    def relay(self, how: str) -> list[Job]:
        """The relay has passed; the jobs it sent. Stale messages are dropped in any case.

        A batch that breaks stays due, one that is refused waits, as does a job that is not due.
        """
        sent = []
        for job in self.jobs:
            later: list[bool] = [due for due in job.messages if not due]
            if job.state != "pending":
                job.messages = later
            elif not job.due:
                job.messages = [False] * len(job.messages)
            elif len(later) < len(job.messages):
                sent.append(job)
                if how == "takes":
                    job.messages, job.publishes = later, job.publishes + 1
                elif how == "refuses":
                    job.messages = [False] * len(job.messages)
        return sent

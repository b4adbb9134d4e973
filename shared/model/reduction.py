"""Reduction: states that cannot be told apart by anything that may still happen become one.

1. Symmetry: workers have no names, nor have jobs.
2. A zombie (a worker whose claim is over) can only find out that it is one. Fences grow and ended
   states are final, so its fence will never pass again: what else it remembers is forgotten.
3. An ended job (where there is no redrive) can only have its messages deleted: its counters, its
   effects and who is busy with it are forgotten. Its outbox rows are kept, they must drain.
4. Which fence committed an effect is forgotten, once the step that wrote it has been judged.
5. An owner's claim and its reading of the input are one step: nobody else can change in between
   what it reads, or else it is a zombie by then.

Every step is judged before it is reduced. All but 1 rest on the protections in REDUCTION_NEEDS;
where one of them is removed, nothing is reduced but the names of the workers and jobs.
"""

from shared.model.protections import REDUCTION_NEEDS, Rules
from shared.model.state import IDLE, PENDING, TERMINAL, Job, Worker
from shared.model.transitions import exit_is_ours, fence_passes, is_owner


class Reduction:
    """What a job, and a worker in the face of its job, are reduced to."""

    def __init__(self, rules: Rules, *, on: bool) -> None:
        self._rules = rules
        self.on = on and rules.protections >= REDUCTION_NEEDS
        self._endings = not rules.bounds.redrives

    def job(self, job: Job) -> Job:
        """The job, without what can no longer matter."""
        if not self.on:
            return job
        if job.state in TERMINAL and self._endings:
            return Job(state=job.state, staged=job.staged)
        return job._replace(
            effects=tuple((1,) * len(fences) for fences in job.effects),
            sqs_lost=job.sqs_lost and job.state == PENDING,
            cleanup_due=job.cleanup_due and not self._endings,
        )

    def worker(self, worker: Worker, job: Job) -> Worker:
        """The worker, without what it can no longer make use of."""
        if not self.on or worker.pc == "idle":
            return worker
        ended = job.state in TERMINAL and self._endings
        if ended and worker.pc != "fenced":
            return IDLE._replace(paused=worker.paused)
        if worker.pc == "claimed" and is_owner(worker, job):
            return worker._replace(pc="ready", chunk=job.checkpoint)
        if worker.pc in {"received", "done", "fenced"} or is_owner(worker, job):
            return worker
        if fence_passes(self._rules, worker, job) or exit_is_ours(self._rules, worker, job):
            return worker  # would be a broken property: let it be seen
        if worker.pc == "doubt":
            return self._zombie_in_doubt(worker)
        return Worker(pc="ready", job=worker.job, message=worker.message, paused=worker.paused)

    def _zombie_in_doubt(self, worker: Worker) -> Worker:
        completed = worker.committed and worker.chunk >= self._rules.bounds.chunks - 1
        return Worker(
            pc="doubt",
            job=worker.job,
            chunk=worker.chunk if completed else 0,
            message=worker.message,
            paused=worker.paused,
            committed=completed,
        )

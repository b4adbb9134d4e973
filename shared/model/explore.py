"""Explore: every state that the bounds allow, breadth first, each checked as it is found.

A state is kept as one integer: workers, jobs and budget are numbered as they are met, and what a
worker may do with a job is worked out once for each (worker, job, budget) and remembered.
"""

from array import array
from itertools import permutations
from time import monotonic

from shared.model.graph import BITS, EXPIRE, EXPIRE_UNHELD, MASK, NAMES, NUMBER, Graph, Numbers
from shared.model.model import Model, holds
from shared.model.platform_steps import job_steps, publish_early, submit
from shared.model.properties import (
    broken_by_belief,
    broken_by_step,
    broken_in_job,
    broken_together,
    has_ended,
    is_silent,
)
from shared.model.reduction import Reduction
from shared.model.state import ABSENT, BELIEVES, IDLE, Job, Left, State, Step, Worker
from shared.model.transitions import fence_passes
from shared.model.worker_steps import idle_steps, receive, worker_steps

# action, worker after, job after, budget after, broken property
Local = tuple[int, int, int, int, str | None]


class Explorer:
    """Explores one model. `reduce=False` keeps every detail but the names of workers and jobs."""

    def __init__(self, model: Model, *, reduce: bool = True) -> None:
        self.model = model
        self._rules = model.rules
        self._reduction = Reduction(model.rules, on=reduce)
        self._workers: Numbers[Worker] = Numbers()
        self._jobs: Numbers[Job] = Numbers()
        self._lefts: Numbers[Left] = Numbers()
        self._of_worker: dict[int, list[Local]] = {}
        self._of_job: dict[int, list[Local]] = {}
        self._received: dict[int, list[Local]] = {}
        self._seen: dict[int, int] = {}
        self._views: dict[int, tuple[str | None, bool]] = {}
        self._silent: dict[int, bool] = {}
        self._ended: dict[int, bool] = {}
        self._on: list[int] = []  # by worker: the job it is busy with, or -1
        self._orders: list[tuple[tuple[int, ...], dict[int, int]]] = [
            (order, {}) for order in permutations(range(model.bounds.jobs))
        ]
        self._twins = model.bounds.twins
        self._n = model.bounds.workers
        self._m = model.bounds.jobs

    def key(self, state: State) -> int:
        """The number of the reduced state that stands for this one."""
        jobs = [self._jobs.of(self._reduction.job(job)) for job in state.jobs]
        workers = [
            self._number(
                worker
                if worker.pc == "idle"
                else self._reduction.worker(worker, state.jobs[worker.job])
            )
            for worker in state.workers
        ]
        return self._canonical(workers, jobs, self._lefts.of(state.left))

    def state(self, key: int) -> State:
        """The reduced state of this number."""
        parts = self._parts(key)
        return State(
            tuple(self._workers.values[number] for number in parts[: self._n]),
            tuple(self._jobs.values[number] for number in parts[self._n : -1]),
            self._lefts.values[parts[-1]],
        )

    def explore(
        self, *, until: str | None = None, any_broken: bool = False, most: int = 20_000_000
    ) -> Graph:
        """Every reachable state; with `until`, up to the first that breaks this property.

        With `any_broken` the first that breaks any will do. Gives up after `most` states; the
        graph then says that it is not complete.
        """
        began = monotonic()
        first = self.key(self.model.initial())
        graph = Graph(keys=[first], parents=array("I", [0]))
        graph.ended.append(self._has_ended(first))
        numbers = {first: 0}
        level_ends = 1
        index = 0
        while index < len(graph.keys):
            if index == level_ends:
                graph.depth += 1
                level_ends = len(graph.keys)
            self._expand(graph, numbers, index)
            index += 1
            found = until in graph.broken or (any_broken and graph.broken)
            if found or len(graph.keys) > most:
                graph.complete = False
                break
        graph.seconds = monotonic() - began
        return graph

    def _expand(self, graph: Graph, numbers: dict[int, int], index: int) -> None:
        """Find the successors of one state; judge those that are new."""
        for action, key, broken in self._successors(graph.keys[index]):
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(graph.keys)
                graph.keys.append(key)
                graph.parents.append(index)
                graph.ended.append(self._has_ended(key))
                fallen = broken or self._judge(key)
            else:
                fallen = broken
            if fallen is not None and fallen not in graph.broken:
                graph.broken[fallen] = (index, NAMES[action])
            graph.targets.append(number)
            graph.actions.append(action)
        graph.transitions = len(graph.targets)
        graph.starts.append(graph.transitions)

    def _successors(self, key: int) -> list[tuple[int, int, str | None]]:
        parts = self._parts(key)
        workers, jobs, left = parts[: self._n], parts[self._n : -1], parts[-1]
        found: list[tuple[int, int, str | None]] = []
        for place, worker in enumerate(workers):
            on = self._on[worker]
            if on < 0:
                for action, idle, left_after in self._idle_locals(worker, left):
                    moved = workers.copy()
                    moved[place] = idle
                    found.append((action, self._canonical(moved, jobs, left_after), None))
            for number in (on,) if on >= 0 else range(self._m):
                job = jobs[number]
                steps = self._of_worker.get((worker << BITS | job) << BITS | left)
                if steps is None or on < 0:
                    steps = self._worker_locals(worker, number, job, left)
                for action, after, job_after, left_after, broken in steps:
                    moved = workers.copy()
                    moved[place] = after
                    found.append(
                        (action, self._put(moved, jobs, number, job_after, left_after), broken)
                    )
        for number, job in enumerate(jobs):
            for action, _, job_after, left_after, broken in self._job_locals(jobs, number, left):
                named = action
                if action == EXPIRE and not self._is_held(workers, number, job):
                    named = EXPIRE_UNHELD
                found.append(
                    (named, self._put(workers.copy(), jobs, number, job_after, left_after), broken)
                )
        return found

    def _idle_locals(self, worker: int, left: int) -> list[tuple[int, int, int]]:
        steps = idle_steps(self._workers.values[worker], self._lefts.values[left])
        return [(NUMBER[a], self._number(w), self._lefts.of(after)) for a, w, after in steps]

    def _worker_locals(self, worker: int, number: int, job: int, left: int) -> list[Local]:
        """The steps of one worker on one job, worked out once."""
        known = (worker << BITS | job) << BITS | left
        cache = self._of_worker
        who = self._workers.values[worker]
        if who.pc == "idle":
            known = known << 4 | number
            cache = self._received
        if (steps := cache.get(known)) is not None:
            return steps
        what, budget = self._jobs.values[job], self._lefts.values[left]
        if who.pc == "idle":
            received = receive(self._rules, who, number, what, budget)
            raw = [] if received is None else [received]
        else:
            raw = list(worker_steps(self._rules, who, what, budget))
        cache[known] = steps = [self._local(who, what, step) for step in raw]
        return steps

    def _local(self, who: Worker | None, before: Job, step: Step) -> Local:
        """The step, judged and then reduced."""
        action, worker, job, left = step
        broken = broken_by_step(action, who, before, job) or broken_in_job(self._rules, job)
        if broken is None and worker.pc != "idle":
            broken = broken_by_belief(self._rules, worker, job)
        reduced = self._jobs.of(self._reduction.job(job))
        return NUMBER[action], self._number(worker), reduced, self._lefts.of(left), broken

    def _job_locals(self, jobs: list[int], number: int, left: int) -> list[Local]:
        """The steps of one job without a worker."""
        known = jobs[number] << BITS | left
        steps = self._of_job.get(known)
        if steps is None:
            what, budget = self._jobs.values[jobs[number]], self._lefts.values[left]
            raw = [
                Step(s.action, IDLE, s.job, s.left) for s in job_steps(self._rules, what, budget)
            ]
            if (early := publish_early(self._rules, what)) is not None:
                raw.append(Step("publish_early", IDLE, early, budget))
            steps = self._of_job[known] = [self._local(None, what, step) for step in raw]
        what = self._jobs.values[jobs[number]]
        if what.state != ABSENT:
            return steps
        # The submit looks at the other jobs, too: it is not remembered.
        every = tuple(self._jobs.values[job] for job in jobs)
        submitted = submit(self._rules, every, number)
        if submitted is None:
            return steps
        step = Step("submit", IDLE, submitted, self._lefts.values[left])
        return [*steps, self._local(None, what, step)]

    def _put(self, workers: list[int], jobs: list[int], number: int, job: int, left: int) -> int:
        """The key of the world in which this job has changed, as its workers then stand to it."""
        on, seen = self._on, self._seen
        for place, worker in enumerate(workers):
            if on[worker] == number:
                reduced = seen.get(worker << BITS | job)
                if reduced is None:
                    reduced = self._see(worker, job)
                workers[place] = reduced
        after = jobs.copy()
        after[number] = job
        return self._canonical(workers, after, left)

    def _see(self, worker: int, job: int) -> int:
        """The worker, reduced in the face of its job."""
        reduced = self._reduction.worker(self._workers.values[worker], self._jobs.values[job])
        number = self._seen[worker << BITS | job] = self._number(reduced)
        return number

    def _number(self, worker: Worker) -> int:
        number = self._workers.of(worker)
        if number == len(self._on):
            self._on.append(worker.job)
        return number

    def _canonical(self, workers: list[int], jobs: list[int], left: int) -> int:
        """The smallest key among those that differ by names only; jobs stand in order."""
        ordered = sorted(jobs)
        best = -1
        for order, renamed in self._orders:
            if [jobs[place] for place in order] != ordered:
                continue
            named = []
            for worker in workers:
                other = renamed.get(worker)
                if other is None:
                    other = renamed[worker] = self._rename(worker, order)
                named.append(other)
            named.sort()
            key = 0
            for part in named:
                key = key << BITS | part
            if best < 0 or key < best:
                best = key
        for job in ordered:
            best = best << BITS | job
        return best << BITS | left

    def _rename(self, worker: int, order: tuple[int, ...]) -> int:
        """The worker, on its job's new place: place p is taken by job order[p]."""
        who = self._workers.values[worker]
        if who.job < 0:
            return worker
        return self._number(who._replace(job=order.index(who.job)))

    def _parts(self, key: int) -> list[int]:
        parts = [0] * (self._n + self._m + 1)
        for place in range(len(parts) - 1, -1, -1):
            parts[place] = key & MASK
            key >>= BITS
        return parts

    def _is_held(self, workers: list[int], number: int, job: int) -> bool:
        what = self._jobs.values[job]
        values = self._workers.values
        return any(
            values[worker].job == number and holds(values[worker], what) for worker in workers
        )

    def _judge(self, key: int) -> str | None:
        """The first property of whole states that a new state breaks."""
        parts = self._parts(key)
        workers, jobs = parts[: self._n], parts[self._n : -1]
        passing = [0] * self._m
        for worker in workers:
            number = self._on[worker]
            if number >= 0:
                broken, passes = self._view(worker, jobs[number])
                if broken is not None:
                    return broken
                passing[number] += passes
        if max(passing) > 1 or self._twins or any(self._is_silent(job) for job in jobs):
            return broken_together(self._rules, self.state(key))
        return None

    def _view(self, worker: int, job: int) -> tuple[str | None, bool]:
        """What the worker's belief breaks, and whether its fence would pass."""
        view = self._views.get(worker << BITS | job)
        if view is None:
            who, what = self._workers.values[worker], self._jobs.values[job]
            broken = None if who.pc == "idle" else broken_by_belief(self._rules, who, what)
            passes = who.pc in BELIEVES and fence_passes(self._rules, who, what)
            view = self._views[worker << BITS | job] = (broken, passes)
        return view

    def _has_ended(self, key: int) -> bool:
        return all(self._job_ended(job) for job in self._parts(key)[self._n : -1])

    def _job_ended(self, job: int) -> bool:
        ended = self._ended.get(job)
        if ended is None:
            ended = self._ended[job] = has_ended(self._jobs.values[job])
        return ended

    def _is_silent(self, job: int) -> bool:
        silent = self._silent.get(job)
        if silent is None:
            silent = self._silent[job] = is_silent(self._jobs.values[job])
        return silent

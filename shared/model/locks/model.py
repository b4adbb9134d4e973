"""The world of locks: every move of workers, maintenance, clients, SQS and time."""

from collections.abc import Iterator, Mapping

from shared.model.actions import ActionSpec
from shared.model.guards import Guards
from shared.model.locks.actions import ACTIONS
from shared.model.locks.judging import Judge, is_over
from shared.model.locks.properties import broken_by_win, broken_in
from shared.model.locks.protections import KNOWN
from shared.model.locks.state import ENDED, IDLE, Actor, Job, LockBounds, State, initial
from shared.model.locks.transitions import Commits, put_actor, put_job
from shared.model.state import ABSENT, PENDING, RUNNING
from shared.model.world import Move

KEEPER = -1


class LockModel:
    """Jobs with locks under `bounds`; `removed` protections are not in force."""

    actions: Mapping[str, ActionSpec] = ACTIONS

    def __init__(self, bounds: LockBounds, removed: tuple[str, ...] = ()) -> None:
        self.bounds = bounds
        self.guards = Guards.without(KNOWN, removed)
        self.judge = Judge(bounds, self.guards)
        self.commits = Commits(bounds, self.guards, self.judge)

    def initial(self) -> State:
        """Nothing claimed yet."""
        return initial(self.bounds)

    def canonical(self, state: State) -> State:
        """Workers have no names."""
        return state._replace(workers=tuple(sorted(state.workers)))

    def broken(self, state: State) -> str | None:
        """The first property that does not hold of this state."""
        return broken_in(self.judge, state)

    def has_ended(self, state: State) -> bool:
        """Whether every job is over, and nobody is in the middle of anything."""
        return all(is_over(job) for job in state.jobs)

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Every move that is possible now, in a fixed order."""
        for index, worker in enumerate(state.workers):
            if worker.stopped:
                yield from self._stopped(state, index, worker)
            else:
                yield from self._work(state, index, worker)
            if worker.pc != "idle":
                yield from self._worker_faults(state, index, worker)
        yield from self._keeper(state)
        for number in range(len(state.jobs)):
            yield from self._job(state, number)
        yield from self._operator(state)

    # Workers.

    def _work(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        if worker.pc == "idle":
            yield from self._receive(state, index)
        elif worker.pc in {"received", "checked", "registering"}:
            yield from self._claim(state, index, worker)
        elif worker.pc == "running":
            yield from self._run(state, index, worker)
        else:
            yield from self._exit(state, index, worker)

    def _receive(self, state: State, index: int) -> Iterator[Move[State]]:
        for number, job in enumerate(state.jobs):
            if job.messages:
                after = put_job(state, number, job._replace(messages=job.messages - 1))
                after = put_actor(after, index, Actor(pc="received", job=number))
                yield Move("receive", index, number, after, None)

    def _claim(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        if state.jobs[worker.job].state == ENDED:
            yield Move("miss_delete", index, worker.job, put_actor(state, index, IDLE), None)
        elif worker.pc == "registering":
            after = self.commits.register(state, index, worker)
            yield Move("register", index, worker.job, after, None)
        elif worker.pc == "received":
            first = "roots_before_check" in self.guards
            if first and not self._holds_all(worker):
                yield from self._lock_root(state, index, worker, "claim_root")
            elif not _row_locked(state, worker.job, index):
                yield self._check_claim(state, index, worker)
        elif not self._holds_all(worker):
            yield from self._lock_root(state, index, worker, "claim_root")
        else:
            yield self._commit_claim(state, index, worker)

    def _check_claim(self, state: State, index: int, worker: Actor) -> Move[State]:
        verdict = self.judge.claim(state, worker.job)
        broken = broken_by_win(self.judge, state, worker.job) if verdict == "win" else None
        checked = worker._replace(pc="checked", verdict=verdict)
        return Move("claim_check", index, worker.job, put_actor(state, index, checked), broken)

    def _commit_claim(self, state: State, index: int, worker: Actor) -> Move[State]:
        if worker.verdict == "win":
            after, action = self.commits.win(state, index, worker), "claim"
        elif worker.verdict == "gone":
            after, action = put_actor(state, index, IDLE), "miss_delete"
        elif "waiter_registered_in_claim" in self.guards:
            after, action = self.commits.register(state, index, worker), "register"
        else:
            late = Actor(pc="registering", job=worker.job)
            after, action = put_actor(state, index, late), "miss_delete"
        return Move(action, index, worker.job, after, None)

    def _run(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        number = worker.job
        if not worker.owns:
            yield Move("lose_lease", index, number, put_actor(state, index, IDLE), None)
            return
        leaving = worker._replace(pc="exiting", purpose="complete")
        yield from self._exit(state, index, leaving)
        if (left := state.left.spend("releases")) is not None:
            asked = put_actor(state, index, worker._replace(pc="exiting", purpose="release"))
            yield Move("ask_release", index, number, asked._replace(left=left), None)
        job = state.jobs[number]
        if not job.lease:
            after = put_job(state, number, job._replace(lease=True))
            yield Move("renew", index, number, after, None)

    # Exits from running, and a cancel, of workers and the keeper.

    def _exit(self, state: State, index: int, actor: Actor) -> Iterator[Move[State]]:
        """Lock the roots, then the one statement; then COMMIT."""
        if actor.pc == "exit_checked":
            after = self.commits.leave(state, index, actor)
            yield Move(actor.purpose, _who(index), actor.job, after, None)
        elif "exits_lock_roots" in self.guards and not self._holds_all(actor):
            yield from self._lock_root(state, index, actor, "exit_root")
        elif not _row_locked(state, actor.job, index):
            yield self._check_exit(state, index, actor)

    def _check_exit(self, state: State, index: int, actor: Actor) -> Move[State]:
        job = state.jobs[actor.job]
        if not _may_leave(actor, job.state, lease=job.lease):
            after = put_actor(state, index, IDLE)
            action = "exit_missed" if index == KEEPER else "lose_lease"
            return Move(action, _who(index), actor.job, after, None)
        checked = actor._replace(pc="exit_checked", wakes=self._wakes(state, actor))
        after = put_actor(state, index, checked)
        return Move("exit_check", _who(index), actor.job, after, None)

    def _wakes(self, state: State, actor: Actor) -> tuple[int, ...]:
        waiter = state.jobs[actor.job].state == PENDING
        wanted = "cancel_of_waiter_wakes" if waiter else "exit_wakes"
        return tuple(self.judge.wakes(state, actor.job)) if wanted in self.guards else ()

    def _keeper(self, state: State) -> Iterator[Move[State]]:
        """Reaper and cancels, one transaction at a time."""
        keeper = state.keeper
        if keeper.pc != "idle":
            yield from self._exit(state, KEEPER, keeper)
            return
        for number, job in enumerate(state.jobs):
            begun = Actor(pc="exiting", job=number, purpose="reap")
            if job.state == RUNNING and not job.lease:
                yield from self._exit(state, KEEPER, begun)
            left = state.left.spend("cancels")
            if job.state in {PENDING, RUNNING} and left is not None:
                asked = put_actor(state, KEEPER, begun._replace(purpose="cancel"))
                yield Move("ask_cancel", None, number, asked._replace(left=left), None)

    # Roots.

    def _holds_all(self, actor: Actor) -> bool:
        return len(actor.held) == len(self.judge.roots(actor.job))

    def _next_root(self, actor: Actor) -> int:
        return self.judge.roots(actor.job)[len(actor.held)]

    def _lock_root(
        self, state: State, index: int, actor: Actor, action: str
    ) -> Iterator[Move[State]]:
        """The next root, once nobody else holds it."""
        root = self._next_root(actor)
        others = (state.keeper, *state.workers)
        if any(root in other.held for other in others):
            return
        locked = actor._replace(held=(*actor.held, root))
        yield Move(action, _who(index), actor.job, put_actor(state, index, locked), None)

    # What may happen to a worker.

    def _stopped(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        after = put_actor(state, index, worker._replace(stopped=False))
        yield Move("resume", index, worker.job, after, None)
        if worker.held or worker.pc in {"checked", "exit_checked"}:
            cut = put_actor(state, index, _rolled_back(worker))
            yield Move("idle_timeout", index, worker.job, cut, None)

    def _worker_faults(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        number = worker.job
        if not worker.stopped and (left := state.left.spend("stops")) is not None:
            after = put_actor(state, index, worker._replace(stopped=True))
            yield Move("pause", index, number, after._replace(left=left), None)
        if (left := state.left.spend("crashes")) is not None:
            job = state.jobs[number]
            back = job if job.state == ENDED else self.commits.announce(job)._replace(lost=job.lost)
            after = put_job(put_actor(state, index, IDLE), number, back)
            yield Move("crash", index, number, after._replace(left=left), None)

    # What may happen to a job without a worker.

    def _job(self, state: State, number: int) -> Iterator[Move[State]]:
        job, left = state.jobs[number], state.left
        if job.state == ABSENT:
            there = put_job(state, number, self.commits.announce(job._replace(state=PENDING)))
            yield Move("submit", None, number, there, None)
        if job.state == RUNNING and job.lease:
            yield from self._expire(state, number)
        if job.messages:
            if job.messages < self.bounds.copies and (after := left.spend("duplicates")):
                twice = put_job(state, number, job._replace(messages=job.messages + 1))
                yield Move("duplicate", None, number, twice._replace(left=after), None)
            if (after := left.spend("losses")) is not None:
                gone = put_job(state, number, job._replace(messages=job.messages - 1, lost=True))
                yield Move("lose", None, number, gone._replace(left=after), None)
        elif job.state == PENDING and not job.paused and self.judge.may_run(state, number):
            yield from self._maintenance(state, number)

    def _expire(self, state: State, number: int) -> Iterator[Move[State]]:
        out = put_job(state, number, state.jobs[number]._replace(lease=False))
        held = any(w.job == number and w.owns and not w.stopped for w in state.workers)
        if not held:
            yield Move("expire_unheld", None, number, out, None)
        elif (left := state.left.spend("expiries")) is not None:
            yield Move("expire", None, number, out._replace(left=left), None)

    def _maintenance(self, state: State, number: int) -> Iterator[Move[State]]:
        """The job may run, and no message says so: the nets."""
        job = state.jobs[number]
        again = self.commits.announce(job)
        if job.waiting and not job.woken:
            if "wake_net" in self.guards:
                woken = put_job(state, number, again._replace(woken=True))
                yield Move("wake_net", None, number, woken, None)
        elif job.lost or not self._in_hand(state, number):
            yield Move("reconcile", None, number, put_job(state, number, again), None)

    def _in_hand(self, state: State, number: int) -> bool:
        """Whether a worker that runs holds the message; who is stopped loses it to visibility."""
        return any(worker.job == number and not worker.stopped for worker in state.workers)

    def _operator(self, state: State) -> Iterator[Move[State]]:
        """A queue is paused and resumed, without a root: at once, whoever is in the middle."""
        pausable = self.bounds.pausable
        if any(state.jobs[number].paused for number in pausable):
            jobs = tuple(
                self.commits.announce(job._replace(paused=False))
                if job.paused and job.state == PENDING
                else job._replace(paused=False)
                for job in state.jobs
            )
            yield Move("resume_queue", None, None, state._replace(jobs=jobs), None)
        elif pausable and (left := state.left.spend("pauses")) is not None:
            jobs = tuple(
                job._replace(paused=number in pausable and job.state != ENDED)
                for number, job in enumerate(state.jobs)
            )
            yield Move("pause_queue", None, None, state._replace(jobs=jobs, left=left), None)

    # Words.

    def words(self, move: Move[State], before: State) -> str:
        """One sentence on what happened."""
        actor = before.keeper if move.worker is None else before.workers[move.worker]
        now = move.state.keeper if move.worker is None else move.state.workers[move.worker]
        wakes = ", ".join(f"job {number + 1}" for number in now.wakes) or "nobody"
        return ACTIONS[move.action].words.format(
            worker="maintenance" if move.worker is None else f"worker {'ABCDEF'[move.worker]}",
            job="a job" if move.job is None else f"job {move.job + 1}",
            verdict={"win": "yes", "blocked": "it must wait"}.get(now.verdict, "no"),
            purpose=now.purpose or actor.purpose,
            wakes=wakes,
        )

    def shown(self, state: State, job: int | None) -> str:
        """How all jobs stand."""
        _ = job
        return "  ".join(_shown(number, each) for number, each in enumerate(state.jobs))


def _shown(number: int, job: Job) -> str:
    state = "waits" if job.waiting and job.state == PENDING else job.state
    expired = " (expired)" if job.state == RUNNING and not job.lease else ""
    return f"{number + 1} {state}{expired}{', message' if job.messages else ''};"


def _who(index: int) -> int | None:
    return None if index == KEEPER else index


def _may_leave(actor: Actor, state: str, *, lease: bool) -> bool:
    """The exit's own WHERE: state, fence, expiry."""
    if actor.purpose == "reap":
        return state == RUNNING and not lease
    if actor.purpose == "cancel":
        return state in {PENDING, RUNNING}
    return state == RUNNING and actor.owns


def _row_locked(state: State, number: int, index: int) -> bool:
    """Whether another transaction has written on the job's row and has not committed."""
    actors = ((KEEPER, state.keeper), *enumerate(state.workers))
    return any(
        place != index and actor.job == number and actor.pc in {"checked", "exit_checked"}
        for place, actor in actors
    )


def _rolled_back(worker: Actor) -> Actor:
    """The server has ended its transaction: it is before it again."""
    if worker.pc in {"received", "checked"}:
        return Actor(pc="received", job=worker.job, stopped=True)
    return Actor(pc="running", job=worker.job, owns=worker.owns, stopped=True)

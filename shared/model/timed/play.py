"""Play: a trace of the model with simulated time, step by step, each judged by the model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

from shared.model.actions import ACTIONS
from shared.model.model import Model
from shared.model.state import BELIEVES, RUNNING, Job, State, Worker
from shared.model.timed.clock import SECOND, Clock, Hand
from shared.model.timed.plan import FENCE, Plan
from shared.model.trace import Action, Counterexample, find_counterexample, take
from shared.model.transitions import is_owner
from shared.model.wording import in_words
from shared.model.world import Move

MOST_STEPS = 600  # moves of the model in one trace
MOST_ENTRIES = 1_200  # with the heartbeats between them
MOST_SECONDS = 3_600  # of simulated time
CPU_SECONDS = 3.0
BEAT = "beat"  # a heartbeat of a lease that is valid: time passes, the model's state stays


class TooLong(RuntimeError):
    """Playing this plan took more CPU time than a trace may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step: `at` in ms; what changed of workers and jobs, as they are drawn after it.

    `broken` are the properties that fall with it, as the model judges; `doubled` is the piece
    (from 1) whose effect it commits once too often.
    """

    at: int
    action: str
    kind: str
    worker: int | None
    job: int | None
    words: str
    fence: int
    piece: int
    broken: tuple[str, ...]
    doubled: int | None
    workers: dict[int, dict[str, Any]]
    jobs: dict[int, dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Trace:
    """A whole trace. `stopped` says why it ends: nothing more happens, or a limit."""

    plan: Plan
    entries: list[Entry] = field(default_factory=list)
    stopped: str = "ended"

    @property
    def doubled(self) -> int | None:
        """The place of the first entry that commits an effect twice."""
        return next((n for n, each in enumerate(self.entries) if each.doubled), None)

    @property
    def broken(self) -> list[str]:
        """The properties that fall, each once, in their order."""
        return list(dict.fromkeys(name for each in self.entries for name in each.broken))


def play(plan: Plan, *, cpu_seconds: float = CPU_SECONDS) -> Trace:
    """The trace of this plan, always the same one. TooLong beyond `cpu_seconds` of this thread."""
    return _Player(plan, Model(plan.bounds, plan.protections), cpu_seconds).play()


def play_counterexample() -> Trace:
    """The shortest way to a double write without the fence, each step put at a time."""
    found = find_counterexample(FENCE, "effect_once")
    assert found is not None, "tests/model/test_protections.py: without the fence it falls"
    plan = Plan(
        workers=found.bounds.workers,
        jobs=found.bounds.jobs,
        pieces=found.bounds.chunks,
        crash=0,
        pause=0,
        duplicate=0,
        loss=0,
        fence=False,
    )
    return _Player(plan, _world(found), CPU_SECONDS).replay(found.actions)


def _world(found: Counterexample) -> Model:
    world = found.family.build(found.bounds, found.removed)
    assert isinstance(world, Model), "of jobs"
    return world


class _Player:
    def __init__(self, plan: Plan, model: Model, cpu_seconds: float) -> None:
        self._model = model
        self._clock = Clock(plan)
        self._state = model.initial()
        self._trace = Trace(plan=plan)
        self._ends = thread_time() + cpu_seconds
        self._drawn: tuple[list[Any], list[Any]] = ([None] * plan.workers, [None] * plan.jobs)

    def play(self) -> Trace:
        steps = 0
        while (following := self._next()) is not None:
            at, act = following
            if self._is_full(at, steps):
                return self._trace
            self._clock.now = at
            steps += act()
        return self._trace

    def replay(self, actions: tuple[Action, ...]) -> Trace:
        for action in actions:
            move = take(self._model, self._state, action)
            due = self._clock.due(move, self._state)
            soon = self._clock.now + 2 * SECOND
            self._clock.now = soon if due is None else max(due, soon)
            self._take(move)
        return self._trace

    def _is_full(self, at: int, steps: int) -> bool:
        if at > MOST_SECONDS * SECOND:
            self._trace.stopped = "seconds"
        elif steps >= MOST_STEPS or len(self._trace.entries) >= MOST_ENTRIES:
            self._trace.stopped = "steps"
        elif thread_time() > self._ends:
            raise TooLong
        else:
            return False
        return True

    def _next(self) -> tuple[int, Callable[[], int]] | None:
        """The move, or the heartbeat, that is due first; and how to take it."""
        best: tuple[int, int, int, Callable[[], int]] | None = None
        for place, move in enumerate(self._model.moves(self._state)):
            at = self._clock.due(move, self._state)
            key = None if at is None else (at, self._clock.order(move), place)
            if key is not None and (best is None or key < best[:3]):
                best = (*key, _later(self._take, move))
        for index in range(len(self._state.workers)):
            at = self._clock.beat_due(index, self._state)
            if at is not None and (best is None or at < best[0]):
                best = (at, 0, 0, _later(self._beat, index))
        return None if best is None else (best[0], best[3])

    def _take(self, move: Move[State]) -> int:
        before, self._state = self._state, move.state
        self._clock.passed(move, before)
        worker = None if move.worker is None else before.workers[move.worker]
        doubled = None if move.job is None else _doubled(before, move.state, move.job)
        broken = self._fallen(move.broken, doubled=doubled is not None)
        who = worker if worker is not None and worker.pc in BELIEVES else None
        if move.action in {"claim", "read_input"} and move.worker is not None:
            who = move.state.workers[move.worker]
        self._tell(
            action=move.action,
            kind=ACTIONS[move.action].kind,
            worker=move.worker,
            job=move.job,
            words=in_words(move, before),
            fence=who.fence if who is not None else 0,
            piece=min(who.chunk + 1, self._model.bounds.chunks) if who is not None else 0,
            broken=broken,
            doubled=doubled,
        )
        return 1

    def _fallen(self, broken: str | None, *, doubled: bool) -> tuple[str, ...]:
        """The properties that fall for the first time with this step.

        The model names one a step; of a double write it may name another that falls with it.
        """
        found = [name for name in (broken, "effect_once" if doubled else None) if name]
        return tuple(name for name in dict.fromkeys(found) if name not in self._trace.broken)

    def _beat(self, index: int) -> int:
        worker = self._state.workers[index]
        self._clock.beat(index, worker.job)
        self._tell(
            action=BEAT,
            kind=BEAT,
            worker=index,
            job=worker.job,
            words="the heartbeat puts the end of the lease off",
            fence=worker.fence,
            piece=0,
            broken=(),
            doubled=None,
        )
        return 0

    def _tell(self, **told: Any) -> None:
        workers, jobs = self._drawn
        changed = Entry(
            at=self._clock.now,
            workers=dict(self._changed(workers, self._draw_worker)),
            jobs=dict(self._changed(jobs, self._draw_job)),
            **told,
        )
        self._trace.entries.append(changed)

    def _changed(
        self, known: list[Any], draw: Callable[[int], dict[str, Any]]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, was in enumerate(known):
            drawn = draw(index)
            if drawn != was:
                known[index] = drawn
                yield index, drawn

    def _draw_worker(self, index: int) -> dict[str, Any]:
        worker, hand = self._state.workers[index], self._clock.hands[index]
        idle = worker.pc == "idle"
        return {
            "pc": worker.pc,
            "job": None if idle else worker.job,
            "fence": worker.fence if worker.pc in BELIEVES else None,
            "piece": worker.chunk + 1 if worker.pc == "ready" else None,
            "paused": worker.paused,
            "share": _share_done(hand) if worker.paused else None,
            "zombie": _is_zombie(worker, self._state.jobs),
            "since": hand.since,
            "until": hand.free if idle else hand.done,
            "hidden": hand.hidden if worker.message else None,
        }

    def _draw_job(self, number: int) -> dict[str, Any]:
        job, desk = self._state.jobs[number], self._clock.desks[number]
        runs = job.state == RUNNING
        return {
            "state": job.state,
            "fence": job.fence,
            "lease": desk.lease if runs and job.lease else None,
            "expired": runs and not job.lease,
            "effects": [list(fences) for fences in job.effects],
            "lost": job.lost_leases,
            "rows": list(desk.rows),
            "messages": list(desk.messages),
        }


def _later(act: Callable[[Any], int], argument: Any) -> Callable[[], int]:
    return lambda: act(argument)


def _share_done(hand: Hand) -> float | None:
    """How much of its piece a stopped worker has done."""
    if hand.resume is None:
        return None
    return round((hand.resume - hand.since) / (hand.done - hand.since), 3)


def _is_zombie(worker: Worker, jobs: tuple[Job, ...]) -> bool:
    return worker.pc in BELIEVES and not is_owner(worker, jobs[worker.job])


def _doubled(before: State, after: State, number: int) -> int | None:
    """The piece whose effect is committed once too often by this step."""
    pairs = zip(before.jobs[number].effects, after.jobs[number].effects, strict=True)
    for chunk, (was, now) in enumerate(pairs):
        if len(now) > max(1, len(was)):
            return chunk + 1
    return None

"""Clock: when each move of the model is due, and what a move puts off.

The model says what may happen next and knows no time; this says when, and nothing else: a move
that has no time here is one that this trace does not take. Times are whole milliseconds.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.model.model import holds
from shared.model.state import PENDING, RUNNING, Job, State, Worker
from shared.model.timed.plan import Fault, Plan
from shared.model.world import Move

SECOND = 1000
SUBMIT_EVERY = 3 * SECOND
RELAY = SECOND  # from a commit to its message
SEND = 600  # from the relay to the queue, where it may be received
STRIKE = 300  # SQS loses or repeats a message before anybody receives it
STEP = 500  # a statement or a call of a worker
RESTART = 6 * SECOND  # from a crash to a new process
BACKOFF = 2 * SECOND  # from a lost lease to the next attempt's message
REAPER = 5 * SECOND  # looks so often
RECONCILER = 60 * SECOND  # a pending job that is announced nowhere for so long is lost
MISSES = 2  # so many times a message of a running job is put off; then it is deleted


@dataclass(slots=True)
class Hand:
    """What the clock knows of a worker. None: not to come."""

    free: int = 0  # may receive from here on
    since: int = 0  # began what it does
    done: int = 0  # has done it
    beat: int | None = None
    hidden: int | None = None  # the message that it holds is invisible to others until then
    crash: int | None = None
    pause: int | None = None
    resume: int | None = None


@dataclass(slots=True)
class Desk:
    """What the clock knows of a job."""

    submit: int
    lease: int = 0  # runs out
    rows: list[int] = field(default_factory=list)  # in the outbox: due
    messages: list[int] = field(default_factory=list)  # in the queue: may be received from
    silent: int | None = None  # pending, and announced nowhere, since
    duplicate: int | None = None
    lose: int | None = None
    misses: int = 0


class Clock:
    """The times of one trace. The same plan draws the same chances in the same order."""

    def __init__(self, plan: Plan) -> None:
        self.now = 0
        self.plan = plan
        self.hands = [Hand(free=index * 40) for index in range(plan.workers)]
        self.desks = [Desk(submit=SECOND + index * SUBMIT_EVERY) for index in range(plan.jobs)]
        self._random = random.Random(plan.seed)
        self._planned: dict[int, Fault] = dict(plan.faults)
        self._pieces = 0

    def due(self, move: Move[State], state: State) -> int | None:
        """When this move, possible in `state`, is taken; None when it is not."""
        rule = DUE.get(move.action)
        at = None if rule is None else rule(self, move, state)
        return None if at is None else max(self.now, at)

    def order(self, move: Move[State]) -> int:
        """Of moves due at one moment: who has waited longest for a message receives it."""
        received = move.action == "receive" and move.worker is not None
        return self.hands[move.worker or 0].free if received else -1

    def beat_due(self, index: int, state: State) -> int | None:
        """When the heartbeat of this worker renews a lease that has not run out.

        That is no move of the model: a lease that is valid stays valid.
        """
        worker = state.workers[index]
        job = state.jobs[worker.job] if worker.job >= 0 else None
        if job is None or job.state != RUNNING or not job.lease or not holds(worker, job):
            return None
        at = self.hands[index].beat
        return None if at is None else max(self.now, at)

    def beat(self, index: int, number: int) -> None:
        """The lease and the message's visibility are put off; the next beat is planned."""
        hand = self.hands[index]
        self.desks[number].lease = self.now + self.plan.lease * SECOND
        hand.beat = self.now + self.plan.heartbeat * SECOND
        if hand.hidden is not None:
            hand.hidden = self.now + self.plan.visibility * SECOND

    def passed(self, move: Move[State], before: State) -> None:
        """The move was taken at `now`: plan what follows from it."""
        if move.job is not None:
            was, job = before.jobs[move.job], move.state.jobs[move.job]
            self._rows(self.desks[move.job], was, job, move.action)
            self._messages(self.desks[move.job], was, job, move)
            self._desk(self.desks[move.job], job, move.action)
        if move.worker is not None:
            worker = move.state.workers[move.worker]
            self._hand(self.hands[move.worker], before.workers[move.worker], worker, move)

    def _rows(self, desk: Desk, was: Job, job: Job, action: str) -> None:
        if job.staged > was.staged:
            desk.rows.append(self.now + (BACKOFF if action == "reap" else RELAY))
        elif job.staged < was.staged:
            desk.rows.pop(0)

    def _messages(self, desk: Desk, was: Job, job: Job, move: Move[State]) -> None:
        if job.visible > was.visible:
            desk.messages.append(self._shown(desk, move))
            desk.messages.sort()
        elif job.visible < was.visible:
            # SQS loses the one that was sent last; a worker receives the one that waited longest.
            desk.messages.pop(-1 if move.action == "lose" else 0)

    def _shown(self, desk: Desk, move: Move[State]) -> int:
        """When a message that is put into the queue now, or left in it, may be received."""
        hand = self.hands[move.worker or 0]
        if move.action in {"crash", "lose_lease"}:  # nobody gives it back: it comes by itself
            at = self.now if hand.hidden is None else max(self.now, hand.hidden)
            hand.hidden = None
            return at
        if move.action == "put_off":
            return max(self.now + 5 * SECOND, desk.lease + STEP)
        if move.action == "redeliver":
            hand.hidden = None
            return self.now
        if move.action != "duplicate":
            self._draw_message(desk)
        return self.now + SEND

    def _draw_message(self, desk: Desk) -> None:
        if self._strikes(self.plan.duplicate):
            desk.duplicate = self.now + STRIKE
        if self._strikes(self.plan.loss):
            desk.lose = self.now + STRIKE

    def _desk(self, desk: Desk, job: Job, action: str) -> None:
        match action:
            case "claim" | "renew":
                desk.lease = self.now + self.plan.lease * SECOND
                desk.misses = 0
            case "put_off":
                desk.misses += 1
            case "duplicate":
                desk.duplicate = None
            case "lose":
                desk.lose = None
        silent = job.state == PENDING and not job.staged and not job.visible
        if not silent:
            desk.silent = None
        elif desk.silent is None:
            desk.silent = self.now

    def _hand(self, hand: Hand, was: Worker, worker: Worker, move: Move[State]) -> None:
        match move.action:
            case "pause":
                self._stop(hand)
            case "resume":
                hand.resume = None
                hand.beat = self.now + STEP
            case "crash":
                hand.crash = hand.pause = hand.resume = hand.beat = hand.hidden = None
                hand.since, hand.free = self.now, self.now + RESTART
            case "renew":
                self.beat(move.worker or 0, move.job or 0)
            case "redeliver":
                pass
            case _:
                self._began(hand, was, worker)

    def _stop(self, hand: Hand) -> None:
        """Stopped: what is left to do is done after it goes on."""
        left, worked = max(hand.done - self.now, STEP), self.now - hand.since
        hand.resume = self.now + self._about(self.plan.pause_seconds * SECOND)
        hand.since, hand.done = hand.resume - worked, hand.resume + left
        hand.pause = hand.crash = None

    def _began(self, hand: Hand, was: Worker, worker: Worker) -> None:
        """It does something else now: for how long, and what strikes it meanwhile."""
        hand.since = self.now
        hand.done = self.now + STEP
        hand.crash = hand.pause = None
        match worker.pc:
            case "idle":
                hand.free = self.now + STEP + self._random.randrange(STEP)
                hand.hidden = hand.beat = None
            case "received" if was.pc == "idle":
                hand.hidden = self.now + self.plan.visibility * SECOND
            case "claimed":
                hand.beat = self.now + self.plan.heartbeat * SECOND
            case "ready":
                self._draw_piece(hand)
            case "done":
                if self._strikes(self.plan.crash):
                    hand.crash = self.now + STRIKE

    def _draw_piece(self, hand: Hand) -> None:
        self._pieces += 1
        length = self._about(self.plan.work * SECOND)
        hand.done = self.now + length
        at = self.now + round(length * self._random.uniform(0.2, 0.8))
        planned = self._planned.get(self._pieces)
        if self._strikes(self.plan.crash) or planned == "crash":
            hand.crash = at
        elif self._strikes(self.plan.pause) or planned == "pause":
            hand.pause = at

    def _strikes(self, percent: int) -> bool:
        return self._random.random() * 100 < percent

    def _about(self, length: int) -> int:
        return round(length * self._random.uniform(0.75, 1.25))


Rule = Callable[[Clock, Move[State], State], int | None]


def _of_hand(name: str) -> Rule:
    """At a time of its worker."""

    def rule(clock: Clock, move: Move[State], _: State) -> int | None:
        at: int | None = getattr(clock.hands[move.worker or 0], name)
        return at

    return rule


def _of_desk(name: str) -> Rule:
    """At a time of its job."""

    def rule(clock: Clock, move: Move[State], _: State) -> int | None:
        at: int | None = getattr(clock.desks[move.job or 0], name)
        return at

    return rule


def _receive(clock: Clock, move: Move[State], _: State) -> int | None:
    desk, hand = clock.desks[move.job or 0], clock.hands[move.worker or 0]
    return max(hand.free, desk.messages[0])


def _publish(clock: Clock, move: Move[State], state: State) -> int | None:
    """Only what is pending: the relay drops a row of any other job."""
    number = move.job or 0
    return clock.desks[number].rows[0] if state.jobs[number].state == PENDING else None


def _drop(clock: Clock, move: Move[State], _: State) -> int | None:
    return clock.desks[move.job or 0].rows[0]


def _put_off(clock: Clock, move: Move[State], state: State) -> int | None:
    return None if _is_last_miss(clock, move, state) else clock.hands[move.worker or 0].done


def _miss_delete(clock: Clock, move: Move[State], state: State) -> int | None:
    runs = state.jobs[move.job or 0].state == RUNNING
    if runs and not _is_last_miss(clock, move, state):
        return None
    return clock.hands[move.worker or 0].done


def _is_last_miss(clock: Clock, move: Move[State], state: State) -> bool:
    job = state.jobs[move.job or 0]
    return job.state == RUNNING and job.lease and clock.desks[move.job or 0].misses >= MISSES


def _reap(clock: Clock, move: Move[State], _: State) -> int | None:
    """At the reaper's first round after the lease has run out."""
    return -(-max(clock.desks[move.job or 0].lease, clock.now) // REAPER) * REAPER


def _reconcile(clock: Clock, move: Move[State], _: State) -> int | None:
    silent = clock.desks[move.job or 0].silent
    return None if silent is None else silent + RECONCILER


DUE: dict[str, Rule] = {
    "submit": _of_desk("submit"),
    "relay_publish": _publish,
    "relay_drop": _drop,
    "receive": _receive,
    "put_off": _put_off,
    "miss_delete": _miss_delete,
    "renew": _of_hand("beat"),
    "pause": _of_hand("pause"),
    "resume": _of_hand("resume"),
    "crash": _of_hand("crash"),
    "redeliver": _of_hand("hidden"),
    "expire": _of_desk("lease"),
    "expire_unheld": _of_desk("lease"),
    "duplicate": _of_desk("duplicate"),
    "lose": _of_desk("lose"),
    "reap": _reap,
    "reconcile": _reconcile,
} | dict.fromkeys(
    ("claim", "read_input", "commit_chunk", "complete", "lose_lease", "delete_message"),
    _of_hand("done"),
)

"""The world of groups: every move of workers, clients, operators, maintenance, SQS and time."""

from collections.abc import Iterator, Mapping

from shared.model.actions import ActionSpec
from shared.model.groups.actions import ACTIONS
from shared.model.groups.properties import broken_by_claim, broken_in
from shared.model.groups.protections import KNOWN
from shared.model.groups.state import (
    ACTIVE,
    CANCELLING,
    CLIENT,
    ENDED,
    FIRST_OTHER,
    IDLE,
    KEEPER,
    NAMES,
    OPEN,
    OPERATOR,
    SEALED,
    Actor,
    GroupBounds,
    Purpose,
    State,
    initial,
)
from shared.model.groups.transactions import Transactions, absent, put, redrivable
from shared.model.groups.transitions import Commits, put_job
from shared.model.guards import Guards
from shared.model.state import DEAD, PENDING, RUNNING, TERMINAL
from shared.model.world import Move


class GroupModel:
    """One group under `bounds`; `removed` protections are not in force."""

    actions: Mapping[str, ActionSpec] = ACTIONS

    def __init__(self, bounds: GroupBounds, removed: tuple[str, ...] = ()) -> None:
        self.bounds = bounds
        self.guards = Guards.without(KNOWN, removed)
        self.commits = Commits(bounds, self.guards)
        self.join = bounds.children
        self._transactions = Transactions(bounds, self.guards, self.commits)

    def initial(self) -> State:
        """Nothing claimed yet."""
        return initial(self.bounds)

    def canonical(self, state: State) -> State:
        """Workers have no names."""
        return state._replace(workers=tuple(sorted(state.workers)))

    def broken(self, state: State) -> str | None:
        """The first property that does not hold of this state."""
        return broken_in(state)

    def has_ended(self, state: State) -> bool:
        """Whether the group and its join have ended."""
        return state.group.state == ENDED and state.jobs[self.join].state in TERMINAL

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Every move that is possible now, in a fixed order."""
        for index, worker in enumerate(state.workers):
            if worker.stopped:
                yield from self._stopped(state, index, worker)
            elif worker.pc == "idle":
                yield from self._claims(state, index)
            elif worker.pc == "running":
                yield from self._run(state, index, worker)
            else:
                yield from self._transactions.steps(state, index, worker)
            if worker.pc != "idle":
                yield from self._faults(state, index, worker)
        yield from self._client(state)
        yield from self._operator(state)
        yield from self._keeper(state)
        for number in range(len(state.jobs)):
            yield from self._job(state, number)

    # Workers.

    def _claims(self, state: State, index: int) -> Iterator[Move[State]]:
        for number in range(self.join):
            if self._transactions.claimable(state, number):
                broken = broken_by_claim(state, number)
                after = self.commits.claim(state, number)
                after = put(after, index, Actor(pc="running", job=number, owns=True))
                yield Move("claim", index, number, after, broken)
        job = state.jobs[self.join]
        if job.messages:
            gone = put_job(state, self.join, job._replace(messages=job.messages - 1))
            claiming = Actor(pc="ending", job=self.join, purpose="claim")
            yield Move("receive", index, self.join, put(gone, index, claiming), None)

    def _run(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        if not worker.owns and "counter_fed_from_returning" in self.guards:
            if "spawn_behind_fence" not in self.guards:
                yield from self._ask_spawn(state, index, worker)
            yield Move("lose_lease", index, worker.job, put(state, index, IDLE), None)
            return
        ending = worker._replace(pc="ending", purpose="complete")
        yield from self._transactions.steps(state, index, ending)
        if (left := state.left.spend("fails")) is not None:
            failing = worker._replace(pc="ending", purpose="fail")
            asked = put(state._replace(left=left), index, failing)
            yield Move("ask", index, worker.job, asked, None)
        yield from self._ask_spawn(state, index, worker)

    def _ask_spawn(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        left = state.left.spend("spawns")
        if left is not None and worker.job != self.join and absent(state) is not None:
            asked = put(state, index, worker._replace(pc="ending", purpose="spawn"))
            yield Move("ask", index, worker.job, asked._replace(left=left), None)

    # Those who write without a worker.

    def _begin(
        self, state: State, place: int, number: int, purpose: Purpose, budget: str = ""
    ) -> Iterator[Move[State]]:
        """Begin a transaction. What a client may ask is a choice, what must come is fair."""
        index = FIRST_OTHER + place
        actor = Actor(pc="ending", job=number, purpose=purpose)
        if not budget:
            yield from self._transactions.steps(state, index, actor)
        elif budget == "append":
            yield Move("ask", index, number, put(state, index, actor), None)
        elif (left := state.left.spend(budget)) is not None:
            asked = put(state, index, actor)._replace(left=left)
            yield Move("ask", index, number, asked, None)

    def _client(self, state: State) -> Iterator[Move[State]]:
        client = state.others[CLIENT]
        if client.pc != "idle":
            yield from self._transactions.steps(state, FIRST_OTHER + CLIENT, client)
            return
        child = absent(state)
        if child is not None and state.group.state == OPEN:
            yield from self._begin(state, CLIENT, child, "append", "append")

    def _operator(self, state: State) -> Iterator[Move[State]]:
        operator = state.others[OPERATOR]
        if operator.pc != "idle":
            yield from self._transactions.steps(state, FIRST_OTHER + OPERATOR, operator)
            return
        if state.group.state == OPEN:
            yield from self._begin(state, OPERATOR, -1, "seal")
        if state.group.state in {OPEN, SEALED}:
            yield from self._begin(state, OPERATOR, -1, "cancel_group", "group_cancels")
        if redrivable(self.guards, state):
            yield from self._begin(state, OPERATOR, -1, "redrive_group", "redrives")
        for number, child in enumerate(state.jobs[: self.join]):
            if child.state in ACTIVE:
                yield from self._begin(state, OPERATOR, number, "cancel", "cancels")
            if child.state == DEAD and state.group.state != CANCELLING:
                yield from self._begin(state, OPERATOR, number, "redrive_child", "child_redrives")

    def _keeper(self, state: State) -> Iterator[Move[State]]:
        """Reaper, and what cancels the children of a group that is marked."""
        keeper = state.others[KEEPER]
        if keeper.pc != "idle":
            yield from self._transactions.steps(state, FIRST_OTHER + KEEPER, keeper)
            return
        due = state.group.join_due and state.jobs[self.join].state == PENDING
        if due and "join_is_ended" in self.guards:
            yield from self._begin(state, KEEPER, self.join, "end_join")
        for number, job in enumerate(state.jobs):
            if job.state == RUNNING and not job.lease:
                yield from self._begin(state, KEEPER, number, "reap")
                if number != self.join:
                    yield from self._begin(state, KEEPER, number, "bury", "buries")
            marked = state.group.state == CANCELLING and "cancelling_is_finished" in self.guards
            if marked and number != self.join and job.state in ACTIVE:
                yield from self._begin(state, KEEPER, number, "stop_member")

    # Faults.

    def _stopped(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        on = worker._replace(stopped=False)
        yield Move("resume", index, worker.job, put(state, index, on), None)
        if worker.group or worker.row:
            cut = Actor(pc="running", job=worker.job, owns=worker.owns, stopped=True)
            if worker.purpose == "claim":
                cut = worker._replace(pc="ending", group=False, row=False)
            yield Move("idle_timeout", index, worker.job, put(state, index, cut), None)

    def _faults(self, state: State, index: int, worker: Actor) -> Iterator[Move[State]]:
        if not worker.stopped and (left := state.left.spend("stops")) is not None:
            after = put(state, index, worker._replace(stopped=True))
            yield Move("pause", index, worker.job, after._replace(left=left), None)
        if (left := state.left.spend("crashes")) is not None:
            yield Move(
                "crash", index, worker.job, put(state, index, IDLE)._replace(left=left), None
            )

    def _job(self, state: State, number: int) -> Iterator[Move[State]]:
        job = state.jobs[number]
        if job.state == RUNNING and job.lease:
            out = put_job(state, number, job._replace(lease=False))
            if not any(w.job == number and w.owns and not w.stopped for w in state.workers):
                yield Move("expire_unheld", None, number, out, None)
            elif (left := state.left.spend("expiries")) is not None:
                yield Move("expire", None, number, out._replace(left=left), None)
        if number != self.join:
            return
        if job.messages and (left := state.left.spend("losses")) is not None:
            gone = put_job(state, number, job._replace(messages=0, lost=True))
            yield Move("lose", None, number, gone._replace(left=left), None)
        silent = (
            job.state == PENDING
            and not job.messages
            and self._transactions.claimable(state, number)
        )
        if silent and "reconciler" in self.guards:
            again = put_job(state, number, job._replace(messages=1, lost=False))
            yield Move("reconcile", None, number, again, None)

    # Words.

    def words(self, move: Move[State], before: State) -> str:
        """One sentence on what happened."""
        now, was = _actor(move.state, move.worker), _actor(before, move.worker)
        group = move.state.group
        return ACTIONS[move.action].words.format(
            who=_name(move.worker),
            job=self._job_name(move.job),
            purpose=(now.purpose or was.purpose).replace("_", " "),
            group=f"{group.remaining} left of a group {group.state}",
        )

    def _job_name(self, number: int | None) -> str:
        if number is None or number < 0:
            return "it"
        return "the join" if number == self.join else f"child {number + 1}"

    def shown(self, state: State, job: int | None) -> str:
        """How all jobs stand."""
        _ = job
        children = " ".join(child.state for child in state.jobs[: self.join])
        return f"{state.group.state}, {children}, join {state.jobs[self.join].state}"


def _name(index: int | None) -> str:
    if index is None:
        return "the world"
    return NAMES[index - FIRST_OTHER] if index >= FIRST_OTHER else f"worker {'ABCDEF'[index]}"


def _actor(state: State, index: int | None) -> Actor:
    if index is None:
        return IDLE
    return state.others[index - FIRST_OTHER] if index >= FIRST_OTHER else state.workers[index]

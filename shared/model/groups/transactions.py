"""Transactions of the world of groups: the group's row first, then one statement, then COMMIT."""

from collections.abc import Iterator

from shared.model.groups.state import (
    ACTIVE,
    CANCELLING,
    ENDED,
    FIRST_OTHER,
    IDLE,
    OPEN,
    SEALED,
    Actor,
    GroupBounds,
    State,
)
from shared.model.groups.transitions import ENDINGS, Commits, put_job
from shared.model.guards import Guards
from shared.model.state import ABSENT, CANCELLED, DEAD, PENDING, RUNNING, SUCCEEDED
from shared.model.world import Move


class Transactions:
    """The steps of whoever has a transaction open, by what it is for."""

    def __init__(self, bounds: GroupBounds, guards: Guards, commits: Commits) -> None:
        self.guards = guards
        self.commits = commits
        self.join = bounds.children
        self._whole = "counter_in_fence" in guards and "join_started_in_fence" in guards

    def steps(self, state: State, index: int, actor: Actor) -> Iterator[Move[State]]:
        """What an open transaction, or one about to begin, does next."""
        number = actor.job
        if actor.pc in {"owing", "looked"}:
            if not _group_locked(state, index):
                yield self._late(state, index, actor)
        elif self._takes_row_first(actor):
            if not _row_locked(state, number, index):
                held = put(state, index, actor._replace(row=True))
                yield Move("lock_row", index, number, held, None)
        elif self._looks_only(actor):
            if not _row_locked(state, number, index):
                yield self._look(state, index, actor)
        elif self._needs_group(actor) and not actor.group:
            if not _group_locked(state, index):
                held = put(state, index, actor._replace(group=True))
                yield Move("group_row", index, number, held, None)
        elif not _row_locked(state, number, index):
            yield self._commit(state, index, actor)

    def _needs_group(self, actor: Actor) -> bool:
        """The exit of a join touches no group; its claim does, and every other write."""
        return actor.job != self.join or actor.purpose in {"claim", "end_join"}

    def _late(self, state: State, index: int, actor: Actor) -> Move[State]:
        """What mutants write who have looked, or ended their child, before."""
        if actor.pc == "looked":
            return self._commit(state, index, actor)
        after = put(self._caught_up(state, actor), index, IDLE)
        return Move("count_later", index, actor.job, after, None)

    def _look(self, state: State, index: int, actor: Actor) -> Move[State]:
        saw = self._would_be_last(state, actor)
        looked = actor._replace(pc="looked", saw=saw, row=actor.purpose in ENDINGS)
        return Move("look", index, actor.job, put(state, index, looked), None)

    def _takes_row_first(self, actor: Actor) -> bool:
        """A mutant of the order: the job's row, then the group's."""
        wrong = "group_before_jobs" not in self.guards and not actor.row
        return wrong and actor.purpose in {"complete", "fail"} and actor.job != self.join

    def _looks_only(self, actor: Actor) -> bool:
        """Mutants that read the group without its lock, and write what they then believe."""
        if actor.purpose == "claim":
            return "join_claim_locks_group" not in self.guards
        if actor.job == self.join:
            return False
        if actor.purpose in ENDINGS:
            both = {"group_locked_first", "zero_by_counter"}
            return any(name not in self.guards for name in both)
        if actor.purpose == "append":
            return "append_under_lock" not in self.guards
        return actor.purpose == "redrive_child" and "redrive_under_lock" not in self.guards

    def _would_be_last(self, state: State, actor: Actor) -> bool:
        """What the stale snapshot says: the last ending; or that the group takes children."""
        group = state.group
        if actor.purpose == "append":
            return group.state == OPEN
        if actor.purpose == "claim":
            return self.claimable(state, self.join)
        if actor.purpose == "redrive_child":
            return group.state in {OPEN, SEALED}
        if "zero_by_counter" not in self.guards:
            children = state.jobs[: self.join]
            others = (child.state in ACTIVE for n, child in enumerate(children) if n != actor.job)
            return group.state in {SEALED, CANCELLING} and not any(others)
        return self.commits.is_last(group._replace(remaining=group.remaining - 1))

    def _commit(self, state: State, index: int, actor: Actor) -> Move[State]:
        """The statement with its own WHERE, and COMMIT."""
        number, action = actor.job, str(actor.purpose)
        idle = put(state, index, IDLE)
        if action == "claim":
            return self._commit_claim(state, idle, index, actor)
        if action != "end_join" and number == self.join:
            return self._commit_join(state, idle, index, actor)
        if action in {"complete", "fail"}:
            return self._commit_ending(idle, index, actor)
        if action == "spawn":
            return self._commit_spawn(state, index, actor)
        if not self._may(state, actor):
            return Move("refused", index, number, idle, None)
        return Move(action, index, number, self._written(idle, actor), None)

    def _commit_spawn(self, state: State, index: int, actor: Actor) -> Move[State]:
        """A further child, by the fence of a member; the member goes on."""
        goes_on = actor._replace(pc="running", purpose="", group=False)
        running = put(state, index, goes_on)
        child = absent(state)
        if not self._may(state, actor) or child is None:
            return Move("refused", index, actor.job, running, None)
        return Move("spawn", index, child, self.commits.add_child(running, child), None)

    def _written(self, state: State, actor: Actor) -> State:
        commits, number = self.commits, actor.job
        match actor.purpose:
            case "append":
                return commits.add_child(state, number)
            case "seal":
                return commits.seal(state)
            case "cancel_group":
                return commits.cancel_group(state)
            case "redrive_child":
                ended = state.group.state == ENDED
                reopens = not actor.saw if actor.pc == "looked" else ended
                return commits.redrive_child(state, number, reopens=reopens)
            case "redrive_group":
                return commits.redrive_group(state)
            case "end_join":
                return commits.end_join(state)
            case "reap":
                return commits.reap(state, number)
            case _:
                return commits.end_child(state, actor, hit=True)

    def _commit_claim(self, state: State, idle: State, index: int, actor: Actor) -> Move[State]:
        """The claim of the join: its group's row is locked, and read by a new statement."""
        if actor.pc == "looked":
            won = actor.saw and state.jobs[self.join].state == PENDING
        else:
            won = self.claimable(state, self.join)
        if not won:
            return Move("miss_delete", index, self.join, idle, None)
        running = Actor(pc="running", job=self.join, owns=True)
        after = put(self.commits.claim(state, self.join), index, running)
        return Move("claim", index, self.join, after, None)

    def claimable(self, state: State, number: int) -> bool:
        """Claimable: a child of a group that is not cancelled, a join whose group has ended."""
        job, group = state.jobs[number], state.group
        if job.state == RUNNING:
            return not job.lease
        if job.state != PENDING:
            return False
        if number == self.join:
            ended = group.state == ENDED or "join_waits_for_the_end" not in self.guards
            return ended and self.commits.favourable(group)
        return group.state != CANCELLING or "claim_asks_the_group" not in self.guards

    def _commit_ending(self, idle: State, index: int, actor: Actor) -> Move[State]:
        job = idle.jobs[actor.job]
        hit = job.state == RUNNING and actor.owns
        action = str(actor.purpose) if hit else "lose_lease"
        if not hit or self._whole:
            ended = self.commits.end_child(idle, actor, hit=hit)
            return Move(action, index, actor.job, ended, None)
        return Move(action, index, actor.job, self._ended_apart(idle, index, actor), None)

    def _ended_apart(self, idle: State, index: int, actor: Actor) -> State:
        """Mutants that end the child by one commit, and count or start the join by another."""
        ended = self.commits.end_child(idle, actor, hit=True)
        counted = "counter_in_fence" in self.guards
        group = ended.group if counted else idle.group
        if counted and group.state == ENDED:
            group = group._replace(state=idle.group.state, starts=idle.group.starts)
        ended = put_job(ended, self.join, idle.jobs[self.join])._replace(group=group)
        return put(ended, index, Actor(pc="owing", job=actor.job, purpose=actor.purpose))

    def _caught_up(self, state: State, actor: Actor) -> State:
        """The second commit of those mutants."""
        if "counter_in_fence" not in self.guards:
            return self.commits.count(state, actor)
        group = state.group
        return self.commits.end_group(state) if group.whole and not group.remaining else state

    def _commit_join(self, state: State, idle: State, index: int, actor: Actor) -> Move[State]:
        number, job = self.join, state.jobs[self.join]
        if actor.purpose == "reap":
            due = job.state == RUNNING and not job.lease
            after = self.commits.reap(idle, number) if due else idle
            return Move("reap" if due else "refused", index, number, after, None)
        if not (job.state == RUNNING and actor.owns):
            return Move("lose_lease", index, number, idle, None)
        ended = SUCCEEDED if actor.purpose == "complete" else DEAD
        after = put_job(idle, number, job._replace(state=ended, lease=False))
        return Move(str(actor.purpose), index, number, after, None)

    def _may(self, state: State, actor: Actor) -> bool:
        """The statement's own WHERE, on what it sees under the lock; a mutant has looked before."""
        group = state.group.state
        job = state.jobs[actor.job] if actor.job >= 0 else None
        match actor.purpose:
            case "append":
                return actor.saw if actor.pc == "looked" else group == OPEN
            case "spawn":
                owns = actor.owns or "spawn_behind_fence" not in self.guards
                return owns and group != CANCELLING
            case "seal":
                return group == OPEN
            case "cancel_group":
                return group in {OPEN, SEALED}
            case "redrive_child":
                takes = group != CANCELLING and state.jobs[self.join].state != RUNNING
                return takes and job is not None and job.state == DEAD
            case "end_join":
                due = state.group.join_due and group == ENDED
                return due and job is not None and job.state == PENDING
            case "redrive_group":
                return redrivable(self.guards, state)
            case "cancel":
                return job is not None and job.state in ACTIVE
            case "stop_member":
                return group == CANCELLING and job is not None and job.state in ACTIVE
            case _:
                return job is not None and job.state == RUNNING and not job.lease


def absent(state: State) -> int | None:
    """The next child that is not there yet, nor about to be."""
    for number, child in enumerate(state.jobs[:-1]):
        taken = any(other.job == number and other.pc != "idle" for other in state.others)
        if child.state == ABSENT and not taken:
            return number
    return None


def redrivable(guards: Guards, state: State) -> bool:
    """Whether a new generation may begin: the group has ended ill, and its join does not run."""
    *children, join = state.jobs
    failed = any(job.state in {DEAD, CANCELLED} for job in state.jobs)
    waits = join.state != RUNNING or "redrive_waits_for_join" not in guards
    return state.group.state == ENDED and failed and waits and bool(children)


def put(state: State, index: int, actor: Actor) -> State:
    """The world in which this actor has changed."""
    if index >= FIRST_OTHER:
        place = index - FIRST_OTHER
        others = state.others
        return state._replace(others=(*others[:place], actor, *others[place + 1 :]))
    workers = state.workers
    return state._replace(workers=(*workers[:index], actor, *workers[index + 1 :]))


def _group_locked(state: State, index: int) -> bool:
    return any(place != index and actor.group for place, actor in _actors(state))


def _row_locked(state: State, number: int, index: int) -> bool:
    return any(
        place != index and actor.row and actor.job == number for place, actor in _actors(state)
    )


def _actors(state: State) -> Iterator[tuple[int, Actor]]:
    yield from enumerate(state.workers)
    yield from ((FIRST_OTHER + place, actor) for place, actor in enumerate(state.others))

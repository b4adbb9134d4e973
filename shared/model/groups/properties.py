"""The properties of the world of groups."""

from shared.model.groups.state import ACTIVE, CANCELLING, ENDED, Actor, State
from shared.model.state import PENDING, RUNNING

PROPERTIES: dict[str, str] = {
    "join_after_all": "the join runs only once its group is sealed and every child of it has ended",
    "join_starts_once": "one generation of a group starts its join once",
    "counter_is_true": "the group counts the children that have not ended",
    "nothing_in_an_ended_group": "a group that has ended has no child that has not",
    "nothing_starts_when_cancelled": "no child of a group that is being cancelled is claimed",
    "no_deadlock": "nobody holds the group's row and waits for one who waits for it",
    "every_run_ends": "every fair run ends: all children, the group, and its join",
}


def broken_by_claim(state: State, number: int) -> str | None:
    """What the claim of this job breaks; a take-over starts nothing."""
    fresh = state.jobs[number].state == PENDING
    if fresh and number < len(state.jobs) - 1 and state.group.state == CANCELLING:
        return "nothing_starts_when_cancelled"
    return None


def broken_in(state: State) -> str | None:
    """The first property that does not hold of this state."""
    *children, join = state.jobs
    active = sum(child.state in ACTIVE for child in children)
    group = state.group
    if join.state == RUNNING and (active or group.state != ENDED or not group.whole):
        return "join_after_all"
    if group.starts > 1:
        return "join_starts_once"
    if group.state == ENDED and active:
        return "nothing_in_an_ended_group"
    if group.remaining != active:
        return "counter_is_true"
    return "no_deadlock" if _in_a_circle(state) else None


def _in_a_circle(state: State) -> bool:
    """Whether one holds a job's row and waits for the group, another the group and the row."""
    actors: tuple[Actor, ...] = (*state.workers, *state.others)
    waiting = {actor.job for actor in actors if actor.row and not actor.group and not actor.stopped}
    return any(actor.group and not actor.row and actor.job in waiting for actor in actors)

"""Trace: the shortest way to a broken property, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shared.model.actions import ACTIONS
from shared.model.ends import check_ends
from shared.model.explore import Explorer
from shared.model.graph import Graph
from shared.model.model import Model, Move
from shared.model.properties import PROPERTIES
from shared.model.protections import PROTECTIONS, without
from shared.model.state import Bounds, State

QUIET = Bounds(crashes=0, pauses=0, duplicates=0, losses=0, doubts=0)
# Where a counterexample is looked for, the quietest world first. Leases run out in all of them.
WORLDS: tuple[Bounds, ...] = (
    replace(QUIET, cancels=1, fails=1, releases=2),
    replace(QUIET, doubts=1),
    replace(QUIET, crashes=1, losses=1),
    replace(QUIET, pauses=1),
    replace(QUIET, fails=1, redrives=1),
    replace(QUIET, jobs=2, twins=True),
    Bounds(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action that can be taken: a name, who takes it, on which job."""

    name: str
    worker: int | None
    job: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """How to break `broken` without `removed`: the shortest way within these bounds.

    For every_run_ends the actions lead to where a fair run stays for ever.
    """

    removed: tuple[str, ...]
    bounds: Bounds
    broken: str
    actions: tuple[Action, ...]


def find_counterexample(
    removed: Sequence[str], broken: str | None = None, worlds: Sequence[Bounds] = WORLDS
) -> Counterexample | None:
    """The first of `worlds` in which `broken` falls once `removed` is taken away.

    Without `broken`: the property that the one protection says it guards, or, where several are
    taken away, whichever falls first. None when it holds in all of them.
    """
    if broken is None and len(removed) == 1 and removed[0] in PROTECTIONS:
        broken = PROTECTIONS[removed[0]].breaks
    for bounds in worlds:
        found = _look(tuple(removed), broken, bounds)
        if found is not None:
            return found
    return None


def _look(removed: tuple[str, ...], broken: str | None, bounds: Bounds) -> Counterexample | None:
    model = Model(bounds, without(*removed))
    explorer = Explorer(model, reduce=False)
    graph = explorer.explore(until=broken, any_broken=broken is None)
    if graph.broken and (broken is None or broken in graph.broken):
        name = broken or next(iter(graph.broken))
        index, action = graph.broken[name]
        moves = list(_retrace(model, explorer, graph, index))
        last = moves[-1].state if moves else model.initial()
        moves.append(_last(model, last, action, name))
    elif graph.complete and broken in {None, "every_run_ends"}:
        endless = check_ends(graph).endless
        if endless is None:
            return None
        name = "every_run_ends"
        moves = list(_retrace(model, explorer, graph, endless))
    else:
        return None
    actions = tuple(Action(name=m.action, worker=m.worker, job=m.job) for m in moves)
    return Counterexample(removed=removed, bounds=bounds, broken=name, actions=actions)


def _retrace(model: Model, explorer: Explorer, graph: Graph, index: int) -> Iterator[Move]:
    """The way to a state, with the names of workers and jobs kept from the start."""
    way = [index]
    while way[-1]:
        way.append(graph.parents[way[-1]])
    state = model.initial()
    for number in reversed(way[:-1]):
        wanted = graph.keys[number]
        move = next(m for m in model.moves(state) if explorer.key(m.state) == wanted)
        yield move
        state = move.state


def _last(model: Model, state: State, action: str, broken: str) -> Move:
    """The move that breaks the property."""
    named = [move for move in model.moves(state) if move.action == action]
    return next((move for move in named if move.broken == broken), named[0])


def worker_name(index: int) -> str:
    """A worker as people call it."""
    return f"worker {chr(ord('A') + index)}"


def job_name(index: int) -> str:
    """A job as people call it."""
    return f"job {index + 1}"


def in_words(move: Move, before: State) -> str:
    """One sentence on what happened."""
    fence = chunk = 0
    if move.worker is not None:
        was, now = before.workers[move.worker], move.state.workers[move.worker]
        who = now if move.action in {"claim", "read_input"} else was
        fence, chunk = who.fence, who.chunk + 1
    return ACTIONS[move.action].words.format(
        worker=worker_name(move.worker or 0),
        job="a job" if move.job is None else job_name(move.job),
        fence=fence,
        chunk=chunk,
    )


def told(found: Counterexample) -> Iterator[str]:
    """The counterexample, line by line: what happens, and how the job stands after it."""
    model = Model(found.bounds, without(*found.removed))
    state = model.initial()
    for number, action in enumerate(found.actions, 1):
        move = take(model, state, action)
        shown = "" if move.job is None else _shown(move.state, move.job)
        yield f"{number:3}  {in_words(move, state):<72} {shown}".rstrip()
        state = move.state
    yield f"BROKEN  {found.broken}: {PROPERTIES[found.broken]}"


def take(model: Model, state: State, action: Action) -> Move:
    """The move that this action is. ValueError when it is not possible now."""
    for move in model.moves(state):
        if (move.action, move.worker, move.job) == (action.name, action.worker, action.job):
            return move
    raise ValueError(f"{action.name} is not possible now")


def _shown(state: State, index: int) -> str:
    job = state.jobs[index]
    effects = " ".join("+".join(f"f{fence}" for fence in each) or "-" for each in job.effects)
    lease = (" lease" if job.lease else " expired") if job.state == "running" else ""
    return f"{job.state}{lease}, fence {job.fence}, effects [{effects}]"

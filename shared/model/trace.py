"""Trace: the shortest way to a broken property, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model.ends import check_ends
from shared.model.families import JOBS, Family
from shared.model.graph import Graph
from shared.model.world import Move, Search, World


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
    bounds: Any
    broken: str
    actions: tuple[Action, ...]
    family: Family = JOBS


def find_counterexample(
    removed: Sequence[str],
    broken: str | None = None,
    worlds: Sequence[Any] | None = None,
    family: Family = JOBS,
) -> Counterexample | None:
    """The first of `worlds` in which `broken` falls once `removed` is taken away.

    Without `broken`: the property that the one protection says it guards, or, where several are
    taken away, whichever falls first. None when it holds in all of them.
    """
    if broken is None and len(removed) == 1 and removed[0] in family.protections:
        broken = family.protections[removed[0]].breaks
    for bounds in family.worlds if worlds is None else worlds:
        found = _look(family, tuple(removed), broken, bounds)
        if found is not None:
            return found
    return None


def _look(
    family: Family, removed: tuple[str, ...], broken: str | None, bounds: Any
) -> Counterexample | None:
    world = family.build(bounds, removed)
    search = family.search(world, False)
    graph = search.explore(until=broken, any_broken=broken is None)
    if graph.broken and (broken is None or broken in graph.broken):
        name = broken or next(iter(graph.broken))
        index, action = graph.broken[name]
        moves = list(_retrace(world, search, graph, index))
        last = moves[-1].state if moves else world.initial()
        moves.append(_last(world, last, action, name))
    elif graph.complete and broken in {None, "every_run_ends"}:
        endless = check_ends(graph).endless
        if endless is None:
            return None
        name = "every_run_ends"
        moves = list(_retrace(world, search, graph, endless))
    else:
        return None
    actions = tuple(Action(name=m.action, worker=m.worker, job=m.job) for m in moves)
    return Counterexample(
        removed=removed, bounds=bounds, broken=name, actions=actions, family=family
    )


def _retrace(world: World[Any], search: Search, graph: Graph, index: int) -> Iterator[Move[Any]]:
    """The way to a state, with the names of workers and jobs kept from the start."""
    way = [index]
    while way[-1]:
        way.append(graph.parents[way[-1]])
    state = world.initial()
    for number in reversed(way[:-1]):
        wanted = graph.keys[number]
        move = next(m for m in world.moves(state) if search.key(m.state) == wanted)
        yield move
        state = move.state


def _last(world: World[Any], state: Any, action: str, broken: str) -> Move[Any]:
    """The move that breaks the property."""
    named = [move for move in world.moves(state) if move.action == action]
    return next((m for m in named if broken in {m.broken, world.broken(m.state)}), named[0])


def told(found: Counterexample) -> Iterator[str]:
    """The counterexample, line by line: what happens, and how the job stands after it."""
    world = found.family.build(found.bounds, found.removed)
    state = world.initial()
    for number, action in enumerate(found.actions, 1):
        move = take(world, state, action)
        shown = world.shown(move.state, move.job)
        yield f"{number:3}  {world.words(move, state):<72} {shown}".rstrip()
        state = move.state
    yield f"BROKEN  {found.broken}: {found.family.properties[found.broken]}"


def take(world: World[Any], state: Any, action: Action) -> Move[Any]:
    """The move that this action is. ValueError when it is not possible now."""
    for move in world.moves(state):
        if (move.action, move.worker, move.job) == (action.name, action.worker, action.job):
            return move
    raise ValueError(f"{action.name} is not possible now")

"""Sweep: every state of a small world, breadth first, kept as the tuples that they are."""

from array import array
from collections.abc import Mapping
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from shared.model.actions import ActionSpec
from shared.model.graph import Graph, fair_ones
from shared.model.world import World

S = TypeVar("S")


class SmallWorld(World[S], Protocol[S]):
    """A world whose states are small enough to be kept whole."""

    actions: Mapping[str, ActionSpec]

    def canonical(self, state: S) -> S:
        """The state that stands for this one and for all that nothing can tell from it."""
        ...


class Sweep(Generic[S]):
    """Explores one small world. With `reduce=False` no two states stand for each other."""

    def __init__(self, world: SmallWorld[S], *, reduce: bool = True) -> None:
        self.world = world
        self._reduce = reduce
        self._names = tuple(world.actions)
        self._number = {name: number for number, name in enumerate(self._names)}

    def key(self, state: S) -> S:
        """The state that stands for this one."""
        return self.world.canonical(state) if self._reduce else state

    def explore(
        self, *, until: str | None = None, any_broken: bool = False, most: int = 20_000_000
    ) -> Graph:
        """Every reachable state; with `until`, up to the first that breaks this property.

        With `any_broken` the first that breaks any will do. Gives up after `most` states; the
        graph then says that it is not complete.
        """
        began = monotonic()
        first = self.key(self.world.initial())
        graph = Graph(
            keys=[first],
            parents=array("I", [0]),
            names=self._names,
            fair=fair_ones(self.world.actions),
        )
        graph.ended.append(self.world.has_ended(first))
        numbers: dict[Any, int] = {first: 0}
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

    def _expand(self, graph: Graph, numbers: dict[Any, int], index: int) -> None:
        """Find the successors of one state; judge those that are new."""
        for move in self.world.moves(graph.keys[index]):
            key = self.key(move.state)
            broken = move.broken
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(graph.keys)
                graph.keys.append(key)
                graph.parents.append(index)
                graph.ended.append(self.world.has_ended(key))
                broken = broken or self.world.broken(key)
            if broken is not None and broken not in graph.broken:
                graph.broken[broken] = (index, move.action)
            graph.targets.append(number)
            graph.actions.append(self._number[move.action])
        graph.transitions = len(graph.targets)
        graph.starts.append(graph.transitions)

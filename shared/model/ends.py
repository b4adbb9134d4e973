"""Ends: every fair run comes to its end, read off the explored graph.

A run is *fair* when faults and free choices stop at last (a stopped worker may stay stopped for
ever), and what stays possible without a break is done at last: weak fairness, per action. A run
that never ends comes to rest where no fair action is possible, or goes round for ever in a
strongly connected part of the fair edges. Such a part holds a fair run if and only if no action
is possible in all of its states and leads out of it each time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.model.graph import Graph


@dataclass(slots=True, kw_only=True)
class Ending:
    """`endless` is a state that a fair run never gets away from, None when every run ends.

    `rounds` counts the rounds that fairness leaves, `within` are the actions met in them, and
    `leaves_by` the actions that lead out.
    """

    endless: int | None = None
    rounds: int = 0
    within: set[str] = field(default_factory=set)
    leaves_by: set[str] = field(default_factory=set)


def check_ends(graph: Graph) -> Ending:
    """Look for a fair run that never ends. The graph must be complete."""
    assert graph.complete, "what was not explored cannot be judged"
    resting = _resting(graph)
    if resting is not None:
        return Ending(endless=resting)
    ending = Ending()
    for part in _Parts(graph).find():
        inside, forced = _judge(graph, part)
        ending.rounds += 1
        ending.within |= inside
        ending.leaves_by |= forced
        if not forced:
            ending.endless = min(part)
            break
    return ending


def _resting(graph: Graph) -> int | None:
    """The first state where nothing must happen any more, though the world has not ended."""
    for state in range(graph.states):
        if not graph.ended[state] and not any(True for _ in _fair_edges(graph, state)):
            return state
    return None


def _fair_edges(graph: Graph, state: int) -> Iterator[tuple[int, int]]:
    for edge in range(graph.starts[state], graph.starts[state + 1]):
        if graph.fair[graph.actions[edge]]:
            yield graph.actions[edge], graph.targets[edge]


def _judge(graph: Graph, part: set[int]) -> tuple[set[str], set[str]]:
    """The actions that stay in the round; those possible all along it that always leave it."""
    always: set[int] | None = None
    inside: set[int] = set()
    for state in part:
        edges = list(_fair_edges(graph, state))
        possible = {action for action, _ in edges}
        inside |= {action for action, target in edges if target in part}
        always = possible if always is None else always & possible
    forced = (always or set()) - inside
    return {graph.names[action] for action in inside}, {graph.names[action] for action in forced}


class _Parts:
    """Tarjan's algorithm, without recursion, on the fair edges between states not ended."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = [0] * graph.states  # 0: not met; else 1 + when it was met
        self._low = [0] * graph.states
        self._on_stack = bytearray(graph.states)
        self._stack: list[int] = []
        self._met = 0

    def find(self) -> Iterator[set[int]]:
        """The strongly connected parts of more than one state."""
        for root in range(self._graph.states):
            if self._order[root] or self._graph.ended[root]:
                continue
            work = [(root, self._graph.starts[root])]
            while work:
                state, edge = work.pop()
                self._meet(state)
                deeper = self._descend(state, edge)
                if deeper is not None:
                    edge, target = deeper
                    work.append((state, edge))
                    work.append((target, self._graph.starts[target]))
                elif self._low[state] == self._order[state]:
                    part = self._pop(state)
                    if len(part) > 1:
                        yield part

    def _meet(self, state: int) -> None:
        if not self._order[state]:
            self._met += 1
            self._order[state] = self._low[state] = self._met
            self._stack.append(state)
            self._on_stack[state] = 1

    def _descend(self, state: int, edge: int) -> tuple[int, int] | None:
        """The next edge (and its target) that leads to a state not met yet."""
        graph = self._graph
        while edge < graph.starts[state + 1]:
            target = graph.targets[edge]
            if graph.fair[graph.actions[edge]] and not graph.ended[target]:
                if not self._order[target]:
                    return edge, target
                if self._on_stack[target]:
                    self._low[state] = min(self._low[state], self._low[target])
            edge += 1
        return None

    def _pop(self, root: int) -> set[int]:
        part = set()
        while True:
            member = self._stack.pop()
            self._on_stack[member] = 0
            part.add(member)
            if member == root:
                return part

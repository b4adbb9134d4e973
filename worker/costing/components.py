"""Strongly connected components: what depends on itself in a circle, and in which order to go."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(nodes: Sequence[Node], needs: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The strongly connected components, each after every other one that it needs.

    `needs` says which nodes a node depends on; nodes that it does not list need none. The answer
    depends on the order of `nodes` and of their needs alone. Source: R. Tarjan, "Depth-first
    search and linear graph algorithms" (1972), without recursion: a circle may have any length.
    """
    search: _Search[Node] = _Search(needs)
    for node in nodes:
        if node not in search.number:
            search.visit(node)
    return search.found


class _Search(Generic[Node]):
    """What one depth-first search remembers."""

    def __init__(self, needs: Mapping[Node, Sequence[Node]]) -> None:
        self.needs = needs
        self.number: dict[Node, int] = {}
        self.lowest: dict[Node, int] = {}
        self.open: list[Node] = []
        self.is_open: set[Node] = set()
        self.found: list[list[Node]] = []

    def visit(self, root: Node) -> None:
        """Search everything that the root needs and that nobody has searched."""
        path: list[tuple[Node, Iterator[Node]]] = [self._enter(root)]
        while path:
            node, rest = path[-1]
            following = next((n for n in rest if self._is_new(node, n)), None)
            if following is not None:
                path.append(self._enter(following))
                continue
            path.pop()
            if path:
                above = path[-1][0]
                self.lowest[above] = min(self.lowest[above], self.lowest[node])
            if self.lowest[node] == self.number[node]:
                self.found.append(self._close(node))

    def _enter(self, node: Node) -> tuple[Node, Iterator[Node]]:
        self.number[node] = self.lowest[node] = len(self.number)
        self.open.append(node)
        self.is_open.add(node)
        return node, iter(self.needs.get(node, ()))

    def _is_new(self, node: Node, needed: Node) -> bool:
        if needed not in self.number:
            return True
        if needed in self.is_open:
            self.lowest[node] = min(self.lowest[node], self.number[needed])
        return False

    def _close(self, root: Node) -> list[Node]:
        component = [self.open.pop()]
        while component[-1] != root:
            component.append(self.open.pop())
        component.reverse()
        self.is_open.difference_update(component)
        return component

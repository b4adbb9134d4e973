"""World: what an explorer, a trace and a random walk need to know of a model, whatever it is of."""

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from shared.model.graph import Graph

S = TypeVar("S")


class Move(NamedTuple, Generic[S]):
    """One action of the whole world: who, on what, and what the world is then.

    `broken` is the first property that the move or the state after it breaks, as far as its
    world judges moves at once; see `World.broken` for the state.
    """

    action: str
    worker: int | None
    job: int | None
    state: S
    broken: str | None


class World(Protocol[S]):
    """One model under its bounds, with some protections in force."""

    def initial(self) -> S:
        """The first state."""
        ...

    def moves(self, state: S) -> Iterator[Move[S]]:
        """Every move that is possible now, in a fixed order."""
        ...

    def broken(self, state: S) -> str | None:
        """The first property that does not hold of this state."""
        ...

    def has_ended(self, state: S) -> bool:
        """Whether this is an end that a fair run may come to."""
        ...

    def words(self, move: Move[S], before: S) -> str:
        """One sentence on what happened."""
        ...

    def shown(self, state: S, job: int | None) -> str:
        """How it stands after a move that touched `job`, in one line."""
        ...


class Search(Protocol):
    """What explores a world."""

    def key(self, state: Any) -> Any:
        """What stands for the state: equal for states that nothing can tell apart."""
        ...

    def explore(
        self, *, until: str | None = None, any_broken: bool = False, most: int = 20_000_000
    ) -> Graph:
        """Every reachable state, or up to the first that breaks `until` (or any property)."""
        ...

"""Graph: what an exploration found, kept in flat arrays."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from shared.model.actions import ACTIONS, ActionSpec

NAMES = tuple(ACTIONS)
NUMBER = {name: number for number, name in enumerate(NAMES)}
EXPIRE, EXPIRE_UNHELD = NUMBER["expire"], NUMBER["expire_unheld"]
BITS = 16
MASK = (1 << BITS) - 1
T = TypeVar("T")


def fair_ones(actions: Mapping[str, ActionSpec]) -> tuple[bool, ...]:
    """Which of the actions must happen at last when they stay possible, in their order."""
    return tuple(spec.kind in {"fair", "mutant"} for spec in actions.values())


class Numbers(Generic[T]):
    """Gives each distinct value a small number."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def of(self, value: T) -> int:
        """The value's number; a new one when it is new."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            assert number <= MASK, "a part of the state has more values than its bits"
            self.values.append(value)
        return number


@dataclass(slots=True, kw_only=True)
class Graph:
    """What was found. State 0 is the initial one; edges run from starts[i] to starts[i + 1].

    `names` and `fair` are of the world's actions, by the numbers that `actions` holds.
    """

    keys: list[Any]
    names: tuple[str, ...] = NAMES
    fair: tuple[bool, ...] = fair_ones(ACTIONS)
    parents: "array[int]"
    depth: int = 0
    transitions: int = 0
    seconds: float = 0.0
    complete: bool = True
    broken: dict[str, tuple[int, str]] = field(default_factory=dict)
    ended: bytearray = field(default_factory=bytearray)
    starts: "array[int]" = field(default_factory=lambda: array("Q", [0]))
    targets: "array[int]" = field(default_factory=lambda: array("I"))
    actions: bytearray = field(default_factory=bytearray)

    @property
    def states(self) -> int:
        """How many states were found."""
        return len(self.keys)

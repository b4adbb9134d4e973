"""Guards: which protections of a small world are in force."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guards:
    """`"net" in guards` asks for one; a misspelt one is refused, it must not pass for removed."""

    known: frozenset[str]
    in_force: frozenset[str]

    def __post_init__(self) -> None:
        unknown = self.in_force - self.known
        if unknown:
            raise ValueError(f"no such protection: {', '.join(sorted(unknown))}")

    def __contains__(self, name: str) -> bool:
        assert name in self.known, f"no such protection: {name}"
        return name in self.in_force

    @classmethod
    def without(cls, known: Iterable[str], removed: Iterable[str]) -> "Guards":
        """All of `known` but `removed`. ValueError for one that is not known."""
        every, gone = frozenset(known), frozenset(removed)
        if gone - every:
            raise ValueError(f"no such protection: {', '.join(sorted(gone - every))}")
        return cls(every, every - gone)

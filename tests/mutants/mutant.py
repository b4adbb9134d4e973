"""What a mutant is: one rule of the protocol, broken in the product's own text."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """In `file`, `sound` (which stands there exactly once) becomes `broken`."""

    file: str
    sound: str
    broken: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A planted bug and its killer, a pytest id (without parameters it stands for all of them).

    `also` names killers of other mutants that this bug breaks as well, each with its reason. All
    others must pass while it is planted.
    """

    name: str
    changes: tuple[Change, ...]
    killer: str
    also: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """Where it is planted, each file once."""
        return list(dict.fromkeys(change.file for change in self.changes))


def mutant(
    name: str,
    change: tuple[str, str, str],
    killer: str,
    *more: tuple[str, str, str],
    also: Mapping[str, str] | None = None,
) -> Mutant:
    """A mutant whose changes are (file, sound, broken); tests are named from tests/ on."""
    return Mutant(
        name=name,
        changes=tuple(Change(*each) for each in (change, *more)),
        killer=f"tests/{killer}",
        also={f"tests/{test}": why for test, why in (also or {}).items()},
    )

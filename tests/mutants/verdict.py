"""Killed, and by nothing but its own test: what the ends of all killers say of one mutant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.mutants.copies import Ends
from tests.mutants.mutant import Mutant


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What its killer said; empty `complaints` mean that it is killed and nothing else failed.

    `again` maps killers of other mutants that failed at first and passed when they were run once
    more to what they said the first time.
    """

    mutant: Mutant
    said: str
    complaints: Sequence[str]
    again: Mapping[str, str] = field(default_factory=dict)


def of_killer(ends: Ends, killer: str) -> list[tuple[str, str]]:
    """How the killer ended: once, or once for each of its parameters."""
    return [end for test, end in ends.items() if test == killer or test.startswith(f"{killer}[")]


def passed(ends: Ends, killer: str) -> bool:
    """True when it ran and passed, with all its parameters."""
    found = of_killer(ends, killer)
    return bool(found) and all(end == "passed" for end, _ in found)


def judge(mutant: Mutant, ends: Ends, killers: Sequence[str]) -> Verdict:
    """Its own killer asserts, those listed fail too, and all others pass."""
    own = of_killer(ends, mutant.killer)
    asserted = [words for end, words in own if end == "asserted"]
    complaints = [f"its killer broke: {words}" for end, words in own if end == "broke"]
    if not asserted and not complaints:
        complaints.append("SURVIVED: its killer passes")
    for killer in killers:
        if killer == mutant.killer or passed(ends, killer) == (killer not in mutant.also):
            continue
        words = "; ".join(f"{end}: {words}" for end, words in of_killer(ends, killer) if words)
        complaints.append(
            f"{killer} fails as well: {words}"
            if killer not in mutant.also
            else f"{killer} passes, though it is listed"
        )
    return Verdict(mutant=mutant, said=asserted[0] if asserted else "", complaints=complaints)

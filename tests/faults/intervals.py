"""Intervals: who ran beside whom, in the order in which the transitions were committed.

The order is that of the audit's numbers. A job that leaves `running` gets its number before its
commit, and who is claimed after it sees that commit: so nobody runs longer here than in truth, and
two that overlap here have overlapped there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.evidence import Ordered, Transition


@dataclass(frozen=True, slots=True)
class Start:
    """A job begins to run, at this transition, while these others do."""

    job_id: str
    at: Transition
    beside: frozenset[str]


def starts(seen: Ordered) -> Iterator[Start]:
    """Every beginning of a run in order; a take-over begins none, it never stopped running."""
    running: set[str] = set()
    for each in sorted(seen.evidence.transitions, key=lambda one: one.n):
        if each.state != "running":
            running.discard(each.job_id)
        elif each.job_id not in running:
            yield Start(each.job_id, each, frozenset(running))
            running.add(each.job_id)

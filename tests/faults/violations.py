"""What a check finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.faults.evidence import Ordered


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was broken, and the job it concerns if it is about one."""

    check: str
    job_id: str | None
    text: str


Found = Iterator[tuple[str | None, str]]
Check = Callable[[Ordered], Found]

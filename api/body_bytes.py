"""How much of unfinished bodies a process holds, so that slow senders cannot fill it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from api.problems import Problem, ProblemRaised

BODIES_BYTES_MAX = 256 * 1024 * 1024  # 32 of the largest batches, or 800 of the largest submits
SHARE_OF_AN_ACCOUNT = 0.5


@dataclass(slots=True)
class BodyBytes:
    """The bytes of bodies that are arriving, `most` of them in all, of one account half."""

    most: int
    _of_account: Counter[str] = field(default_factory=Counter)

    @property
    def held(self) -> int:
        """How many there are now."""
        return self._of_account.total()

    @contextmanager
    def reading(self, account: str) -> Iterator[Callable[[int], None]]:
        """A body that is being read: call it with each chunk's length; ProblemRaised when full.

        One account gets half at most, so that a slow sender of its own keeps nobody else out.
        """
        mine = 0

        def take(length: int) -> None:
            nonlocal mine
            if self.held + length > self.most:
                raise ProblemRaised(_full("too many bodies are arriving at this moment"))
            if self._of_account[account] + length > self.most * SHARE_OF_AN_ACCOUNT:
                raise ProblemRaised(_full("too many bodies of this account are arriving at once"))
            self._of_account[account] += length
            mine += length

        try:
            yield take
        finally:
            self._of_account[account] -= mine
            if not self._of_account[account]:
                del self._of_account[account]


def _full(why: str) -> Problem:
    detail = f"{why}; send it again"
    return Problem(slug="overloaded", detail=detail, headers={"Connection": "close"})


BODIES = BodyBytes(BODIES_BYTES_MAX)

"""Pace: how fast one attempt moves, over its last reports; and how the job's row keeps it.

It belongs to the attempt, so that a takeover that resumes from a checkpoint, or a retry, begins
without one: what an earlier owner has done says nothing of how fast this one is.
"""

from dataclasses import dataclass
from typing import Any

WINDOW_SECONDS = 60.0
STEP_SECONDS = 1.0
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """The reports of one attempt as (`monotonic()` seconds, done); a value, safe between threads.

    At most one report a second is kept, of the last minute, and always the two newest: a job that
    reports every five minutes has a pace as well.
    """

    seen: tuple[tuple[float, int], ...] = ()

    def noted(self, done: int, now: float) -> "Pace":
        """The pace after this report; one that has not moved changes nothing."""
        seen = self.seen
        if seen and done <= seen[-1][1]:
            return self
        if len(seen) > 2 and seen[-1][0] - seen[-2][0] < STEP_SECONDS:
            seen = seen[:-1]
        while len(seen) > 1 and seen[1][0] <= now - WINDOW_SECONDS:
            seen = seen[1:]
        return Pace((*seen, (now, done)))

    @property
    def reached(self) -> int | None:
        """The newest `done`; None before the first report."""
        return self.seen[-1][1] if self.seen else None

    def age(self, now: float) -> float | None:
        """Seconds since it moved last."""
        return max(0.0, now - self.seen[-1][0]) if self.seen else None

    def rate(self, now: float) -> float | None:
        """Units per second, rounded to four digits; None until two reports have moved.

        It sinks once the next report is overdue, by the distance of those before it: a job that
        stands still does not keep the pace it had.
        """
        if len(self.seen) < 2:
            return None
        (began, before), (last, done) = self.seen[0], self.seen[-1]
        if last <= began:
            return None
        usual = (last - began) / (len(self.seen) - 1)
        seconds = last - began + max(0.0, now - last - usual)
        return float(f"{(done - before) / seconds:.{DIGITS}g}")

    def binds(self, now: float) -> dict[str, Any]:
        """The parameters of pace_columns()."""
        return {"reached": self.reached, "rate": self.rate(now), "age": self.age(now)}


def pace_columns(reached: str, rate: str, age: str) -> str:
    """The SET of an UPDATE over `j` that stores a pace, of three SQL values.

    Nothing is stored while the job is behind what its row says: then an earlier owner has done
    more, and until that is caught up nobody knows when this one will be there; or a commit that
    was under way beside this report knows better. The time is kept while nothing moves.
    """
    here = f"{reached} >= coalesce(j.progress_done, 0)"
    stands = f"""j.progress_fence = j.fence AND {reached} = j.progress_done
                                  AND j.progress_at IS NOT NULL"""
    return f"""progress_rate = CASE WHEN {here} THEN {rate} ELSE j.progress_rate END,
               progress_at = CASE WHEN ({here}) IS NOT TRUE OR ({stands}) THEN j.progress_at
                                  ELSE clock_timestamp() - make_interval(secs => {age}) END,
               progress_fence = CASE WHEN {here} THEN j.fence ELSE j.progress_fence END"""

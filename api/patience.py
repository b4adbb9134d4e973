"""Retry-After: when it is worth asking again for a job that is active. Pure."""

from math import ceil

SOONEST = 1
LATEST = 60
# Without an estimate one comes a tenth of the time later than the job has ended, at most.
SHARE = 10


def retry_after(
    *, due_in: float, going_for: float | None = None, done_in: float | None = None
) -> int:
    """Whole seconds, 1 to 60.

    `due_in` is the time until the job is due (negative: for how long it has been due);
    `going_for` how long the attempt that runs has run, None where none does; `done_in` what its
    estimate leaves. Not due: when it is. Due: a tenth of what it has waited. Running: a tenth of
    what it has run, or half of what is left if that is known and not more than it has run
    already; so that whoever is wrong about the end is late by no more than the job took.
    """
    if going_for is None:
        wanted = due_in if due_in > 0 else -due_in / SHARE
    elif done_in is None:
        wanted = going_for / SHARE
    else:
        wanted = min(done_in / 2, going_for)
    # A time that is beyond all bounds is not rounded first: infinity has no integer.
    return ceil(min(LATEST, max(SOONEST, wanted)))

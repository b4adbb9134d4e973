"""Tasks of migrations, declared as any outside team would declare its own."""

from shared.kinds import Payload
from shared.migrations import TaskSpec


class Raise(Payload):
    """Add `by` to each row; a row whose name is `bad` fails, one called `slow` takes a while."""

    by: int = 1
    seconds: float = 0.0


RAISE = TaskSpec(name="probe.raise", description="Add to each row's count.", params=Raise)
BY_TIME = TaskSpec(name="probe.by_time", description="By a key that many rows share.")
BY_BOTH = TaskSpec(name="probe.by_both", description="By the time and the id.")
SLOW_BOUNDARY = TaskSpec(name="probe.slow_boundary", description="Rows are slow to find.")
DOUBLED = TaskSpec(name="probe.doubled", description="Its joins multiply the rows.")
NULLABLE = TaskSpec(name="probe.nullable", description="A part of its key may be NULL.")
PREPARED = TaskSpec(name="probe.prepared", description="Makes the rows that it goes over.")

TASKS = (RAISE, BY_TIME, BY_BOTH, SLOW_BOUNDARY, DOUBLED, NULLABLE, PREPARED)

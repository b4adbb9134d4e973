"""The tasks that come with the books."""

from collections.abc import Sequence

from shared.migrations import TaskSpec

TASKS: Sequence[TaskSpec] = ()

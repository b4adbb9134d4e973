"""A typed client of the HTTP interface: `async with ChotClient(url, token) as chot: …`."""

from shared.client.client import ChotClient
from shared.client.errors import ApiError, ChotError, StillActive, Unreachable
from shared.client.groups import Group
from shared.client.periods import Affected, Period, PeriodEvent
from shared.client.results import BatchItem, Event, Job, Progress, Queue, Submitted, Why
from shared.client.wanted import JobRequest

__all__ = [
    "Affected",
    "ApiError",
    "BatchItem",
    "ChotClient",
    "ChotError",
    "Event",
    "Group",
    "Job",
    "JobRequest",
    "Period",
    "PeriodEvent",
    "Progress",
    "Queue",
    "StillActive",
    "Submitted",
    "Unreachable",
    "Why",
]

"""A typed client of the HTTP interface: `async with ChotClient(url, token) as chot: …`."""

from shared.client.client import ChotClient
from shared.client.errors import ApiError, ChotError, StillActive, Unreachable
from shared.client.groups import Group
from shared.client.results import BatchItem, Event, Job, Progress, Queue, Submitted, Why
from shared.client.wanted import JobRequest

__all__ = [
    "ApiError",
    "BatchItem",
    "ChotClient",
    "ChotError",
    "Event",
    "Group",
    "Job",
    "JobRequest",
    "Progress",
    "Queue",
    "StillActive",
    "Submitted",
    "Unreachable",
    "Why",
]

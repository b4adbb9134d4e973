"""Handlers for what grows."""

import asyncio
import gc
import threading

from aiobotocore.client import AioBaseClient
from aiobotocore.session import AioSession

from tests.probes.memory_kinds import Census, Tiny
from worker.context import JobContext
from worker.handlers import Handler


async def tiny(_context: JobContext, _payload: Tiny) -> None:
    """Do nothing."""


async def census(_context: JobContext, _payload: Census) -> dict[str, int]:
    """Count what should not grow, once what nobody holds is gone."""
    gc.collect()
    objects = gc.get_objects()
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "clients": sum(isinstance(each, AioBaseClient) for each in objects),
        "sessions": sum(isinstance(each, AioSession) for each in objects),
    }


HANDLERS = (Handler(kind="probe.tiny", run=tiny), Handler(kind="probe.census", run=census))

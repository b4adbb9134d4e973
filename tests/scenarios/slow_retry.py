"""A kind and handler module: work that is tried again after twenty minutes only."""

from datetime import timedelta

from shared.errors import RetryableError
from shared.kinds import Kind, RetryPolicy
from tests.probes.handlers import write
from tests.probes.kinds import Write
from worker.context import JobContext
from worker.handlers import Handler

WAIT = timedelta(seconds=1200)


async def write_later(context: JobContext, payload: Write) -> object:
    """The first attempt fails and names its wait, longer than SQS could delay a message."""
    if context.job.attempt == 1:
        raise RetryableError("in twenty minutes, please", after=WAIT)
    return await write(context, payload)


KINDS = (
    Kind(
        name="probe.later",
        payload=Write,
        timeout=timedelta(seconds=60),
        retry=RetryPolicy(base=WAIT, cap=2 * WAIT),
        fingerprint_fields=("number",),
    ),
)
HANDLERS = (Handler(kind="probe.later", run=write_later),)

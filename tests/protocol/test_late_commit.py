"""A COMMIT that was given up on fails later, when nobody waits for it: that is no news."""

import asyncio
import gc
from typing import Any

from worker.fence import _ends


async def test_a_commit_given_up_on_fails_without_a_shout() -> None:
    """Found by the fault suite: a traceback in the log for each connection the server had cut."""
    loop, shouts = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: shouts.append(context))

    async def commit() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("terminating connection") from None

    committing = asyncio.ensure_future(commit())
    assert not await _ends(committing, 0.01)
    await asyncio.wait({committing})
    del committing
    gc.collect()
    assert shouts == []

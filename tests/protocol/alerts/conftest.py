"""An evaluator of this test's own, a receiver that it tells, and clocks that are set back."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.alerts.evaluator import Alerting, open_alerting
from shared.alerts.settings import AlertSettings
from tests.factories import execute, fetch
from tests.protocol.alerts.listening import Receiver, receiving

SECRET = "of sixteen characters or more"  # noqa: S105 - a test's own


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where alerts are sent."""
    with receiving() as opened:
        yield opened


@dataclass(slots=True)
class Watched:
    """The evaluator of one process, on a database whose alerts' clocks a test sets back."""

    engine: AsyncEngine
    owner: AsyncEngine
    receiver: Receiver
    stack: AsyncExitStack
    alerting: Alerting = field(init=False)

    async def open(self, **changed: Any) -> Alerting:
        """Another process's evaluator."""
        given: dict[str, Any] = {
            "alert_webhook_url": self.receiver.url,
            "alert_webhook_secret": SECRET,
        }
        settings = AlertSettings.model_validate(given | changed)
        return await self.stack.enter_async_context(
            open_alerting(self.engine, settings, deployment="here")
        )

    async def pass_time(self, seconds: float) -> None:
        """As if so many seconds had passed since everything that is stored."""
        ago = f"make_interval(secs => {seconds})"
        await execute(
            self.owner,
            f"""UPDATE chot.alerts SET since = since - {ago}, fired_at = fired_at - {ago},
                       clear_since = clear_since - {ago}, told_at = told_at - {ago}""",
        )
        await execute(self.owner, f"UPDATE chot.turns SET at = at - {ago} WHERE isfinite(at)")
        await execute(
            self.owner,
            f"UPDATE chot.alert_notices SET next_try_at = next_try_at - {ago}, made_at = made_at - {ago}",
        )

    async def step(self, seconds: float = 20.0) -> list[tuple[str, str]]:
        """Let time pass, look, and answer what the receiver has been told since the last step."""
        before = len(self.receiver.told())
        await self.pass_time(seconds)
        self.alerting._again_at = 0.0
        await self.alerting.step()
        return self.receiver.told()[before:]

    async def open_ones(self) -> list[tuple[str, str]]:
        """What fires, as it is stored."""
        rows = await fetch(
            self.engine,
            """SELECT rule, subject FROM chot.alerts
                WHERE fired_at IS NOT NULL AND resolved_at IS NULL ORDER BY 1, 2""",
        )
        return [(row.rule, row.subject) for row in rows]


@pytest.fixture
async def watched(
    probes: AsyncEngine, owner_engine: AsyncEngine, receiver: Receiver
) -> AsyncIterator[Watched]:
    """One evaluator, on a database with the probe kinds."""
    async with AsyncExitStack() as stack:
        made = Watched(probes, owner_engine, receiver, stack)
        made.alerting = await made.open()
        yield made

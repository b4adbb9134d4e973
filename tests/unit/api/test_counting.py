"""Counting: however often it is asked, the database is asked rarely, and an outage keeps the last."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from api import counting
from api.counting import SHARE, Counting


class Clock:
    """A monotonic clock that a test moves, and a count that takes its time on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, seconds: float = 0.1) -> None:
        self.now, self.seconds, self.asked, self.broken = 100.0, seconds, 0, False
        monkeypatch.setattr(counting, "monotonic", lambda: self.now)

    async def count(self) -> dict[str, Any]:
        """One query."""
        self.asked += 1
        self.now += self.seconds
        await asyncio.sleep(0)
        if self.broken:
            raise OperationalError("SELECT", None, OSError("away"))
        return {"asked": self.asked}


@pytest.mark.scenario("F54")
async def test_many_who_scrape_share_one_count_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred at once are one query; the next one comes when the interval is over."""
    clock = Clock(monkeypatch)
    counts = Counting(clock.count, 10.0)
    found = await asyncio.gather(*(counts.counted() for _ in range(100)))
    assert {each.counts["asked"] for each in found} == {1}
    clock.now += 9.8
    assert (await counts.counted()).counts["asked"] == 1
    clock.now += 0.2
    assert (await counts.counted()).counts["asked"] == 2
    assert (await counts.counted()).seconds == pytest.approx(clock.seconds)


async def test_counting_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes two seconds is asked every forty, whatever the interval says."""
    clock = Clock(monkeypatch, seconds=2.0)
    counts = Counting(clock.count, 1.0)
    for _ in range(1000):
        await counts.counted()
        clock.now += 1.0
    assert clock.asked * clock.seconds <= 1000 * 1.1 / SHARE + clock.seconds


async def test_an_outage_keeps_the_last_counts_with_their_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Old numbers that say how old they are; only where there are none is there an error."""
    clock = Clock(monkeypatch)
    counts = Counting(clock.count, 10.0)
    clock.broken = True
    with pytest.raises(OperationalError):
        await counts.counted()
    clock.broken = False
    first = await counts.counted()
    clock.broken = True
    clock.now += 60
    assert await counts.counted() is first
    asked = clock.asked
    await counts.counted()
    assert clock.asked == asked, "a database that is away is not asked at every scrape"
    clock.broken = False
    clock.now += 10
    assert (await counts.counted()).at > first.at

"""In a silence nobody is told anything; afterwards whoever knew of an alert hears its end."""

from sqlalchemy import text

from shared.alerts.state import silence
from tests.factories import execute, fetch, make_job, scalar
from tests.protocol.alerts.conftest import Watched
from tests.protocol.alerts.test_delivery import DEAD_FIRES, DEAD_OVER, bury


async def hush(watched: Watched, hours: float) -> None:
    """Silence the rule, or end its silence."""
    async with watched.engine.begin() as conn:
        await silence(conn, "dead_messages", hours=hours, reason=None)


async def mend(watched: Watched) -> None:
    """No rule is broken any more."""
    await execute(watched.owner, "DELETE FROM chot.dead_messages")


async def over(watched: Watched) -> list[tuple[str, str]]:
    """Whatever is told while the rule is kept for long enough."""
    return [*await watched.step(), *await watched.step(130), *await watched.step()]


async def test_what_is_over_in_a_silence_is_told_at_its_end(watched: Watched) -> None:
    """Once, with the time at which it was over; it is shown as over at once."""
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES]
    await hush(watched, 1)
    await mend(watched)
    assert await over(watched) == []
    assert await watched.open_ones() == []
    when = await scalar(watched.engine, "SELECT resolved_at FROM chot.alerts")
    await hush(watched, 0)
    assert await watched.step() == [DEAD_OVER]
    assert watched.receiver.alerts[-1]["resolved_at"] == when.isoformat()
    first, last = watched.receiver.alerts
    assert first["incident"] == last["incident"]
    assert await watched.step(5 * 3600) == []


async def test_what_came_and_went_in_a_silence_is_told_to_nobody(watched: Watched) -> None:
    """Nobody has been called for it."""
    await watched.step()
    await hush(watched, 1)
    await bury(watched)
    assert await watched.step() == []
    assert await watched.open_ones() == [("dead_messages", "")]
    await mend(watched)
    assert await over(watched) == []
    await hush(watched, 0)
    assert await over(watched) == []


async def test_what_fires_again_in_the_same_silence_is_one_news_at_its_end(
    watched: Watched,
) -> None:
    """The new incident; of the one before nothing is said beside it."""
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES]
    await hush(watched, 1)
    await mend(watched)
    assert await over(watched) == []
    await bury(watched)
    assert await watched.step() == []
    await hush(watched, 0)
    assert await watched.step() == [DEAD_FIRES]
    await mend(watched)
    assert await over(watched) == [DEAD_OVER]


async def test_what_comes_and_goes_after_it_was_over_hides_no_end(watched: Watched) -> None:
    """The end of what had been told is told, whatever else the silence has seen."""
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES]
    await hush(watched, 1)
    await mend(watched)
    assert await over(watched) == []
    await bury(watched)
    assert await watched.step() == []
    await mend(watched)
    assert await over(watched) == []
    await hush(watched, 0)
    assert await watched.step() == [DEAD_OVER]
    first, last = watched.receiver.alerts
    assert first["incident"] == last["incident"]


async def test_what_was_not_delivered_before_the_silence_waits_for_its_end(
    watched: Watched,
) -> None:
    """A receiver that comes back within it hears nothing; and nobody is called for the wait."""
    watched.receiver.status = 503
    await bury(watched)
    assert await watched.step() == []
    watched.receiver.status = 200
    await hush(watched, 1)
    assert await watched.step(900) == []
    assert await watched.step(900) == []
    await hush(watched, 0)
    assert await watched.step() == [DEAD_FIRES]


AHEAD = """UPDATE chot.{} SET {} = {} + interval '1 hour'"""


async def set_clock_back(watched: Watched) -> None:
    """As after a failover to a database an hour behind: all that is stored is of a later hour."""
    for table, columns in {
        "alerts": ("since", "fired_at", "clear_since", "resolved_at", "told_at"),
        "turns": ("at",),
        "alert_notices": ("made_at", "next_try_at"),
        "alert_silences": ("made_at", "until"),
        "alert_channels": ("seen_at", "delivered_at", "failed_at"),
    }.items():
        for column in columns:
            await execute(watched.owner, AHEAD.format(table, column, column))


async def test_an_alert_that_waits_for_its_time_waits_no_longer_than_that(
    watched: Watched,
) -> None:
    """Five minutes from now, not from an hour later on: `for_seconds` of no_worker_for_kind."""
    await make_job(watched.engine)
    await watched.step()
    pending = "SELECT fired_at FROM chot.alerts WHERE rule = 'no_worker_for_kind'"
    assert await scalar(watched.engine, pending) is None
    await set_clock_back(watched)
    assert await watched.step(0) == []
    told = [*await watched.step(290), *await watched.step(20)]
    assert ("no_worker_for_kind", "firing") in told


async def test_a_notice_of_a_later_clock_is_sent_now(watched: Watched) -> None:
    """And tried again after its seconds, as ever; the alert is over when it is, told again in time."""
    watched.receiver.status = 503
    await bury(watched)
    assert await watched.step() == []
    await set_clock_back(watched)
    refused = watched.receiver.refused
    assert await watched.step(0) == []
    assert watched.receiver.refused == refused + 1, "it is tried at once"
    await watched.alerting.step()
    assert watched.receiver.refused == refused + 1, "and not at each step from there on"
    watched.receiver.status = 200
    assert await watched.step(30) == [DEAD_FIRES]
    await set_clock_back(watched)
    assert await watched.step(0) == []
    assert await watched.step(3 * 3600) == []
    assert await watched.step(3700) == [DEAD_FIRES], "four hours from now"
    await mend(watched)
    await watched.step(0)
    await set_clock_back(watched)
    assert await watched.step(0) == []
    assert await watched.step(130) == [DEAD_OVER]


async def test_a_retry_that_a_later_clock_has_put_off_is_due(watched: Watched) -> None:
    """No notice is put off for longer than ten minutes: one that is was so by another clock."""
    watched.receiver.status = 503
    await bury(watched)
    await watched.step()
    await watched.pass_time(7200)  # made long ago
    await execute(watched.owner, AHEAD.format("alert_notices", "next_try_at", "clock_timestamp()"))
    watched.receiver.status = 200
    assert DEAD_FIRES in await watched.step(0)


async def test_a_silence_lasts_as_long_as_was_asked_for(watched: Watched) -> None:
    """An hour is an hour from now; one that was made before the clock went back ends in time."""
    await watched.step()
    await hush(watched, 1)
    await set_clock_back(watched)
    await watched.step(0)
    (row,) = await fetch(
        watched.engine,
        """SELECT extract(epoch FROM until - clock_timestamp()) AS left FROM chot.alert_silences""",
    )
    assert 3500 < row.left <= 3600


async def test_nothing_is_written_where_no_clock_has_gone_back(watched: Watched) -> None:
    """An ordinary look changes no row for the clock's sake."""
    await bury(watched)
    await watched.step()
    version = text("SELECT xmin::text FROM chot.alert_channels")
    async with watched.engine.connect() as conn:
        before = await conn.scalar(version)
    await watched.step(0)
    async with watched.engine.connect() as conn:
        assert await conn.scalar(version) == before

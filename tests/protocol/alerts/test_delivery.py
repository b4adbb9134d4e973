"""Delivery: each alert is told at least once, and no more often than it has to be."""

import asyncio
import hashlib
import hmac
import json
from time import monotonic, time
from typing import Any

import pytest
from structlog.testing import capture_logs

from shared.alerts.state import list_channels, silence
from tests.factories import execute, fetch, scalar
from tests.protocol.alerts.conftest import SECRET, Watched

DEAD = """INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason,
                                         receive_count)
          VALUES ('default', :id, 'x', '{}', 'not ours', 1)"""
DEAD_FIRES, DEAD_OVER = ("dead_messages", "firing"), ("dead_messages", "resolved")


async def bury(watched: Watched) -> None:
    """Break the rule dead_messages."""
    await execute(watched.engine, DEAD, id=f"m{monotonic()}")


async def test_what_is_sent_says_what_to_do_and_is_signed(watched: Watched) -> None:
    """The receiver checks the HMAC over time and body, as docs/alerts.md shows."""
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES]
    ((headers, body),) = watched.receiver.posts
    at, signature = (part.partition("=")[2] for part in headers["Chot-Signature"].split(","))
    assert abs(int(at) - time()) < 60
    wanted = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signature, wanted)
    document = json.loads(body)
    assert document["version"] == 1
    assert document["deployment"] == "here"
    assert "dead_messages" in document["text"]
    (one,) = document["alerts"]
    assert one["severity"] == "warning"
    assert (one["value"], one["comparison"], one["threshold"]) == (1, ">", 0)
    assert "chot dead-letters" in one["remedy"]
    assert one["runbook"] == "docs/runbook.md#dead_messages"
    assert SECRET.encode() not in body


async def test_many_processes_tell_once(watched: Watched) -> None:
    """Eight evaluators look at the same moment, again and again; a restart is no new alert."""
    await bury(watched)
    others = [await watched.open() for _ in range(8)]
    for _ in range(3):
        await watched.pass_time(20)
        for each in others:
            each._again_at = 0.0
        await asyncio.gather(*(each.step() for each in others))
    assert watched.receiver.told() == [DEAD_FIRES]
    watched.alerting = await watched.open()
    assert await watched.step() == []
    assert await scalar(watched.engine, "SELECT count(*) FROM chot.alerts") == 1


async def test_it_is_told_again_after_hours_and_in_words(watched: Watched) -> None:
    """Once in four hours, as the same incident."""
    await bury(watched)
    await watched.step()
    assert await watched.step(3600) == []
    assert await watched.step(3 * 3600) == [DEAD_FIRES]
    first, again = watched.receiver.alerts
    assert (first["again"], again["again"]) == (False, True)
    assert first["incident"] == again["incident"]


async def test_a_number_that_swings_is_one_incident(watched: Watched) -> None:
    """Kept for less than two minutes is not over: nobody is called twenty times."""
    for _ in range(10):
        await bury(watched)
        await watched.step(30)
        await execute(watched.owner, "DELETE FROM chot.dead_messages")
        await watched.step(30)
    assert watched.receiver.told() == [DEAD_FIRES]
    assert await watched.step(130) == [DEAD_OVER]


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_a_receiver_that_fails_is_tried_again_and_seen_to_fail(
    watched: Watched, status: int
) -> None:
    """Stored until it is taken: a redirect is not followed, an error is logged and shown."""
    watched.receiver.status = status
    watched.receiver.headers = {"Location": watched.receiver.url}
    await bury(watched)
    with capture_logs() as logs:
        assert await watched.step() == []
    assert watched.receiver.refused == 1
    (told,) = [each for each in logs if each["event"] == "alert.not_delivered"]
    assert told["error"] == f"the webhook answered {status}"
    async with watched.engine.connect() as conn:
        (channel,) = await list_channels(conn)
    assert channel["last_error"] == f"the webhook answered {status}"
    assert channel["waiting"] == 1
    watched.receiver.status, watched.receiver.headers = 204, {}
    await watched.alerting.step()
    assert watched.receiver.refused == 1, "not before its time"
    assert await watched.step(20) == [DEAD_FIRES]
    assert await scalar(watched.engine, "SELECT count(*) FROM chot.alert_notices") == 0


async def test_a_receiver_that_was_away_hears_of_each_alert_once(watched: Watched) -> None:
    """The latest news of each takes the place of what it has not heard: no flood at its return."""
    watched.receiver.status = 503
    for _ in range(5):
        await bury(watched)
        await watched.step(700)
        await execute(watched.owner, "DELETE FROM chot.dead_messages")
        await watched.step(20)
        await watched.step(700)
    await bury(watched)
    await watched.step()
    watched.receiver.status = 200
    told = await watched.step(700)
    assert sorted(told) == [DEAD_FIRES, ("notices_late", "firing")]


async def test_a_way_out_that_breaks_keeps_no_other_one_silent(watched: Watched) -> None:
    """Whatever it raises: the next one is asked, and what it raised is seen by its type alone."""

    class Broken:
        name = "sns"

        async def send(self, _: Any) -> None:
            raise KeyError("arn:of:somebody")

    watched.alerting.channels = (Broken(), *watched.alerting.channels)
    await bury(watched)
    assert await watched.step() == [DEAD_FIRES]
    async with watched.engine.connect() as conn:
        channels = {each["channel"]: each for each in await list_channels(conn)}
    assert (channels["sns"]["last_error"], channels["sns"]["waiting"]) == ("KeyError", 1)
    assert channels["webhook"]["waiting"] == 0


async def test_news_that_comes_while_it_is_sent_is_not_lost(watched: Watched) -> None:
    """What was delivered is forgotten by its version."""
    await bury(watched)
    watched.receiver.status = 500
    await watched.step()
    sending = watched.alerting.channels[0]
    other = await watched.open()

    class Slow:
        name = "webhook"

        async def send(self, notices: Any) -> None:
            await execute(watched.owner, "DELETE FROM chot.dead_messages")
            for seconds in (20, 130):
                await watched.pass_time(seconds)
                assert await other.look()
            watched.receiver.status = 200
            await sending.send(notices)

    watched.alerting.channels = (Slow(),)
    await watched.step()
    watched.alerting.channels = (sending,)
    assert watched.receiver.told() == [DEAD_FIRES]
    await watched.step()
    assert watched.receiver.told() == [DEAD_FIRES, DEAD_OVER]


async def test_a_receiver_that_says_nothing_blocks_nobody(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up in time; meanwhile other processes judge the rules."""
    monkeypatch.setattr("shared.alerts.webhook.SEND_SECONDS", 0.3)
    watched.receiver.silent.set()
    await bury(watched)
    began = monotonic()
    assert await watched.step() == []
    assert monotonic() - began < 3
    (row,) = await fetch(watched.engine, "SELECT last_error FROM chot.alert_channels")
    assert "Timeout" in row.last_error


async def test_a_process_without_a_channel_leaves_it_to_one_that_has(watched: Watched) -> None:
    """An alert found by a worker that knows no webhook is delivered by the api that does."""
    await watched.alerting.step()
    blind = await watched.open(alert_webhook_url=None, alert_webhook_secret=None)
    await bury(watched)
    await watched.pass_time(20)
    await blind.step()
    assert await watched.open_ones() == [("dead_messages", "")]
    assert watched.receiver.told() == []
    assert await watched.step() == [DEAD_FIRES]


async def test_silence_holds_back_and_loses_nothing(watched: Watched) -> None:
    """Judged and shown meanwhile, told when it ends; who did it stands in the audit."""
    await watched.step()
    async with watched.engine.begin() as conn:
        await silence(conn, "dead_messages", hours=1, reason="known")
    await bury(watched)
    assert await watched.step() == []
    assert await watched.open_ones() == [("dead_messages", "")]
    async with watched.engine.begin() as conn:
        await silence(conn, "dead_messages", hours=0, reason=None)
    assert await watched.step() == [DEAD_FIRES]
    rows = await fetch(
        watched.engine, "SELECT target, facts FROM chot.audit WHERE action = 'alert.silence'"
    )
    assert [row.target for row in rows] == ["dead_messages"] * 2
    assert {row.facts["reason"] for row in rows} == {"known", None}


async def test_a_crash_between_finding_and_telling_loses_nothing(watched: Watched) -> None:
    """What dies in its transaction has found nothing; what dies after it has put it down."""
    await bury(watched)
    await watched.pass_time(20)
    await watched.alerting.look()  # and dies
    other = await watched.open()
    await other.step()
    assert watched.receiver.told() == [DEAD_FIRES]


async def test_numbers_that_cannot_be_counted_leave_the_turn_to_others(watched: Watched) -> None:
    """A failure is no look: the next process tries at once, and nothing is resolved by it."""
    await bury(watched)
    await watched.step()

    async def fails(_conn: object) -> dict[str, object]:
        raise TimeoutError("counting")

    broken = await watched.open()
    broken.count = fails
    await watched.pass_time(20)
    with pytest.raises(TimeoutError):
        await broken.step()
    assert await watched.open_ones() == [("dead_messages", "")]
    assert await watched.alerting.look()


async def test_a_clock_that_goes_back_stops_nobody(watched: Watched) -> None:
    """A failover to a machine whose clock is behind: what breaks now is told now."""
    assert await watched.step() == []
    await bury(watched)
    assert await watched.step(-3600) == [DEAD_FIRES]

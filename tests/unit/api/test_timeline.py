"""The drawing of a job: to scale, within its frame, and of what happened only."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from api.ui.events_of_job import Happened, Run, runs_of
from api.ui.timeline import LEAST_LABEL, LEFT, MOST_LANES, RIGHT, WIDTH, draw

START = datetime(2026, 1, 31, 16, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(n: int, began: float, until: float | None, outcome: str | None = "failed") -> Run:
    return Run(
        attempt=n,
        fence=n,
        worker=f"w{n}",
        began=at(began),
        until=None if until is None else at(until),
        outcome=outcome,
        tone="plain",
        taken_by=n + 1 if outcome == "lost_lease" else None,
    )


SUBMITTED = Happened(at=START, key="job.event.submitted")


def test_bars_are_to_scale_and_a_long_wait_is_cut() -> None:
    """Three days of waiting do not make a line of what ran for half a minute."""
    days = 3 * 86_400
    runs = [run(1, days, days + 10), run(2, days + 10, days + 30, "succeeded")]
    ended = Happened(at=at(days + 30), key="job.event.ended.succeeded")
    drawn = draw([SUBMITTED, ended], runs, now=at(days + 99), ended=True)
    first, second = (bar for bar in drawn.bars if bar.run is not None)
    assert abs(second.width - 2 * first.width) < 0.5
    assert first.width > 100
    (cut,) = drawn.breaks
    assert cut.seconds == days
    assert drawn.now is None


def test_a_lease_goes_on_beyond_now_and_what_is_to_come_is_no_wait() -> None:
    lease = Happened(at=at(40), key="job.event.lease_until")
    drawn = draw(
        [SUBMITTED, lease], [run(1, 10, None, None)], now=at(20), ended=False, lease_until=at(40)
    )
    waits = [bar for bar in drawn.bars if bar.kind == "wait"]
    running, rest = (bar for bar in drawn.bars if bar.run is not None)
    assert len(waits) == 1
    assert waits[0].x + waits[0].width <= running.x + 0.2
    assert drawn.now == rest.x
    assert abs(rest.x - (running.x + running.width)) < 0.2


def test_a_takeover_leads_from_the_lost_lane_to_the_next() -> None:
    runs = [run(1, 0, 20, "lost_lease"), run(2, 20, None, None)]
    drawn = draw([SUBMITTED], runs, now=at(25), ended=False, lease_until=at(50))
    (hand,) = drawn.handovers
    assert (hand.fence, hand.next_fence, hand.x) == (1, 2, hand.to_x)
    assert hand.y < hand.to_y


def test_the_line_of_a_takeover_passes_below_its_label() -> None:
    """Also across a wait; letters of 12 units reach 11 above their line and 3 below it."""
    runs = [run(1, 0, 20, "lost_lease"), run(2, 60, 70, "succeeded")]
    ended = Happened(at=at(70), key="job.event.ended.succeeded")
    (hand,) = draw([SUBMITTED, ended], runs, now=at(99), ended=True).handovers
    assert hand.x < hand.to_x
    assert hand.y <= hand.said_y - 11
    assert hand.said_y + 3 < hand.across_y - 1
    assert hand.across_y < hand.to_y


def test_a_lost_attempt_ends_when_the_next_one_begins_at_the_latest() -> None:
    """One statement does both, and two looks at the clock may differ by a microsecond."""
    common = {"worker_id": "w", "code_version": "", "error": None}
    first = {"attempt": 1, "fence": 1, "started_at": at(0).isoformat(), "outcome": "lost_lease"}
    first |= {"ended_at": at(20.000001).isoformat()}
    second = {"attempt": 2, "fence": 2, "started_at": at(20).isoformat(), "outcome": None}
    lost, running = runs_of({"attempts": [first | common, second | {"ended_at": None} | common]})
    assert (lost.until, lost.taken_by) == (at(20), 2)
    assert (running.until, running.taken_by) == (None, None)


SPANS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), max_size=30)


@given(spans=SPANS, ended=st.booleans())
def test_whatever_happened_lies_within_the_frame(
    *, spans: list[tuple[float, float]], ended: bool
) -> None:
    """Runs that overlap, of no length, before the submit or after now: all of it is drawn inside."""
    runs, began = [], 0.0
    for n, (wait, length) in enumerate(spans, 1):
        began += wait
        runs.append(run(n, began - 1, began - 1 + length))
    now = at(began + 5)
    events = [SUBMITTED, *(Happened(at=each.began, key="job.event.claimed") for each in runs)]
    drawn = draw(events, runs, now=now, ended=ended)
    assert len(drawn.lanes) + drawn.earlier == len(runs)
    assert len(drawn.lanes) <= MOST_LANES
    for bar in drawn.bars:
        assert LEFT - 1 <= bar.x <= WIDTH - RIGHT + 1
        assert bar.x + bar.width <= WIDTH - RIGHT + 6
        assert bar.width >= 0
    places = [tick.x for tick in drawn.ticks]
    assert places == sorted(places)
    if len(places) > 2:  # the first label has its day, too
        assert places[1] - places[0] >= 2 * LEAST_LABEL

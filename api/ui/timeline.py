"""The drawn timeline of a job: a lane for each attempt, to one scale of time. Pure.

Waiting that is much longer than all running is drawn shorter, with a break in it that says how long
it was: a job that waited for three days and ran for five seconds would else be a line and a dot.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.ui.events_of_job import Happened, Run, Tone

WIDTH, LEFT, RIGHT = 1000.0, 96.0, 24.0
LANE, TOP, BAR = 36.0, 44.0, 18.0
# Between two lanes: the label of a takeover on its line of writing, and its line below that.
SAID_BELOW, ACROSS_ABOVE = 11.0, 2.0
MOST_LANES = 12
LEAST_BAR = 4.0
LEAST_LABEL = 88.0
MOST_TICKS = 6
# So much longer than what runs a wait may be drawn, and no shorter than so many seconds.
WAIT_TO_RUN, LEAST_WAIT = 1.0, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a lane; `kind` is its class, `run` whose it is (None: of the job as a whole)."""

    x: float
    y: float
    width: float
    kind: str
    run: Run | None = None
    height: float = BAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point in time on the job's own lane."""

    x: float
    y: float
    tone: Tone
    event: Happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """From the lane of a lost lease down to that of whoever has taken over.

    It goes across at `across_y`, and its label stands on `said_y`, between the lanes above that.
    """

    x: float
    y: float
    to_x: float
    to_y: float
    said_y: float
    across_y: float
    fence: int
    next_fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A time on the axis; `anchor` says on which side of it its label stands."""

    x: float
    at: datetime
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where time is cut, and how long the wait really was (seconds)."""

    x: float
    y: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One attempt's line, and its label."""

    y: float
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything that is drawn, in units of the drawing."""

    height: float
    width: float = WIDTH
    left: float = LEFT
    top: float = TOP
    lanes: Sequence[Lane]
    bars: Sequence[Bar]
    marks: Sequence[Mark]
    handovers: Sequence[Handover]
    ticks: Sequence[Tick]
    breaks: Sequence[Break]
    now: float | None
    earlier: int


def draw(
    events: Sequence[Happened],
    runs: Sequence[Run],
    *,
    now: datetime,
    ended: bool,
    lease_until: datetime | None = None,
) -> Timeline:
    """The drawing of these events and runs, as of `now`."""
    shown = runs[-MOST_LANES:]
    start = min(each.at for each in events)
    last = max(each.at for each in events)
    end = last if ended else max(last, now)
    spans = [(max(run.began, start), run.until or now) for run in shown]
    scale = _Scale(start, max(end, start + timedelta(seconds=1)), spans, now)
    lanes = [Lane(y=_lane(n), run=run) for n, run in enumerate(shown)]
    return Timeline(
        height=TOP + LANE * (len(shown) + 1) + 24,
        lanes=lanes,
        bars=[
            *(_wait_bar(scale, gap) for gap in scale.waits),
            *_bars(scale, lanes, now, lease_until),
        ],
        marks=_marks(scale, events),
        handovers=_handovers(scale, lanes),
        ticks=scale.ticks(),
        breaks=[
            Break(x=round(scale.x(wait.middle), 1), y=TOP + BAR / 2, seconds=wait.seconds)
            for wait in scale.waits
            if wait.cut
        ],
        now=None if ended else scale.x(now),
        earlier=len(runs) - len(shown),
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of time, and as how many seconds it is drawn."""

    start: datetime
    end: datetime
    drawn: float
    waits: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    @property
    def cut(self) -> bool:
        return self.drawn < self.seconds

    @property
    def middle(self) -> datetime:
        return self.start + (self.end - self.start) / 2


class _Scale:
    """Time to place: linear in each of its pieces."""

    def __init__(
        self,
        start: datetime,
        end: datetime,
        spans: Sequence[tuple[datetime, datetime]],
        now: datetime,
    ) -> None:
        self._now = now
        runs = _joined(spans, start, end)
        running = sum((until - began).total_seconds() for began, until in runs)
        longest = max(LEAST_WAIT, running * WAIT_TO_RUN) if runs else float("inf")
        self._pieces: list[_Piece] = []
        at = start
        for began, until in [*runs, (end, end)]:
            if began > at:
                wait = (began - at).total_seconds()
                self._pieces.append(_Piece(at, began, min(wait, longest), waits=True))
            if until > began:
                run = (until - began).total_seconds()
                self._pieces.append(_Piece(began, until, run, waits=False))
            at = until
        drawn = sum(piece.drawn for piece in self._pieces)
        self._unit = (WIDTH - LEFT - RIGHT) / drawn

    @property
    def waits(self) -> list[_Piece]:
        """The times in which nothing ran, or runs now; what is to come is no wait yet."""
        return [piece for piece in self._pieces if piece.waits and piece.start < self._now]

    def x(self, at: datetime) -> float:
        """Where this instant is drawn."""
        x = LEFT
        for piece in self._pieces:
            if at < piece.end:
                part = max(0.0, (at - piece.start).total_seconds()) / piece.seconds
                return round(x + part * piece.drawn * self._unit, 1)
            x += piece.drawn * self._unit
        return round(x, 1)

    def ticks(self) -> list[Tick]:
        """Both ends, and those of the pieces between as far as there is room for their labels."""
        edges = [self._pieces[0].start, *(piece.end for piece in self._pieces)]
        first, last = edges[0], edges[-1]
        places = [(self.x(at), at) for at in edges[1:-1]]
        if not places:
            places = [(self.x(at), at) for at in (first + (last - first) / 2,)]
        kept = [Tick(x=self.x(first), at=first, anchor="start")]
        right = self.x(last) - LEAST_LABEL * 1.5
        for x, at in places:
            room = LEAST_LABEL * (2 if len(kept) == 1 else 1.5)  # the first has its day, too
            if x - kept[-1].x >= room and x <= right and len(kept) < MOST_TICKS:
                kept.append(Tick(x=x, at=at, anchor="middle"))
        return [*kept, Tick(x=self.x(last), at=last, anchor="end")]


def _joined(
    spans: Sequence[tuple[datetime, datetime]], start: datetime, end: datetime
) -> list[tuple[datetime, datetime]]:
    """What overlaps as one, within the time that is drawn."""
    found: list[tuple[datetime, datetime]] = []
    for first, last in sorted(spans):
        began, until = max(first, start), min(max(last, first), end)
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((began, until))
    return found


def _lane(n: int) -> float:
    return TOP + LANE * (n + 1)


def _wait_bar(scale: _Scale, piece: _Piece) -> Bar:
    x = scale.x(piece.start)
    width = max(0.0, round(scale.x(piece.end) - x, 1))
    return Bar(x=x, y=TOP, width=width, kind="wait")


def _bars(
    scale: _Scale, lanes: Sequence[Lane], now: datetime, lease_until: datetime | None
) -> list[Bar]:
    found = []
    for lane in lanes:
        run = lane.run
        x, end = scale.x(run.began), scale.x(run.until or now)
        kind = run.outcome or "running"
        width = max(LEAST_BAR, round(end - x, 1))
        found.append(Bar(x=x, y=lane.y, width=width, kind=kind, run=run))
        if run.until is None and lease_until is not None and lease_until > now:
            rest = max(0.0, round(scale.x(lease_until) - end, 1))
            found.append(Bar(x=end, y=lane.y, width=rest, kind="lease", run=run))
    return found


def _marks(scale: _Scale, events: Sequence[Happened]) -> list[Mark]:
    """What has no lane of its own; what an attempt's bar shows is not marked once more."""
    return [
        Mark(x=scale.x(each.at), y=TOP + BAR / 2, tone=each.tone, event=each)
        for each in events
        if not each.key.startswith(("job.event.claimed", "job.event.attempt", "job.event.takeover"))
    ]


def _handovers(scale: _Scale, lanes: Sequence[Lane]) -> list[Handover]:
    return [
        Handover(
            x=scale.x(lost.run.until),
            y=lost.y + BAR,
            to_x=scale.x(lane.run.began),
            to_y=lane.y,
            said_y=lost.y + BAR + SAID_BELOW,
            across_y=lane.y - ACROSS_ABOVE,
            fence=lost.run.fence,
            next_fence=lane.run.fence,
        )
        for lost, lane in itertools.pairwise(lanes)
        if lost.run.taken_by is not None and lost.run.until is not None
    ]

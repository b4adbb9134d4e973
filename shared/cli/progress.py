"""A job's progress on stderr: a live bar on a terminal, lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from shared.cli import show
from shared.cli.plain import visible

LINE_SECONDS = 10.0
RATE_WINDOW_SECONDS = 15.0
# No member of the api's: what `chot wait` has found out of a job that does not begin.
KEPT_BY = "kept by"


class Pace:
    """How fast a job moves, over its last seconds; starts anew with an owner or a step back."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._fence: int | None = None

    def add(self, done: int, now: float, *, fence: int | None = None) -> None:
        """Note the progress at a moment (seconds of a monotonic clock).

        What passed until a new owner came says nothing of how fast that one is.
        """
        if fence != self._fence or (self._seen and done < self._seen[-1][1]):
            self._seen.clear()
        self._fence = fence
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Units per second; 0 while nothing moves or nothing is known."""
        if len(self._seen) < 2:
            return 0.0
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - then) if now > then else 0.0


class Screen(Protocol):
    """Where a job's progress is shown."""

    def show(self, job: Mapping[str, Any]) -> None:
        """Show the job as it is now."""
        ...

    def say(self, line: str) -> None:
        """Write a line of its own, above the bar where there is one."""
        ...


def screen(*, quiet: bool = False) -> AbstractContextManager[Screen]:
    """The screen that fits what stderr is; `quiet` shows nothing."""
    if quiet:
        return nullcontext(Quiet())
    return LiveBar() if sys.stderr.isatty() else nullcontext(Lines())


class Bar:
    """A live bar with rate and time left."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._pace = Pace()

    def show(self, job: Mapping[str, Any]) -> None:
        """Move the bar."""
        done, total = counts(job)
        self._pace.add(done, time.monotonic(), fence=job["fence"])
        self._progress.update(
            self._task,
            completed=done,
            total=total or None,
            description=visible(headline(job)),
            facts=facts(job, self._pace),
        )

    def say(self, line: str) -> None:
        """Write above the bar."""
        self._progress.console.print(show.plain(line), soft_wrap=True)


class TwoLines(Progress):
    """State and bar on one line, the facts below it, each cut to the terminal: nothing wraps."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn now."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            yield Text(visible(f"  {task.fields['facts']}"), no_wrap=True, overflow="ellipsis")


class LiveBar:
    """Opens and closes the terminal for a Bar."""

    def __init__(self, console: Console | None = None) -> None:
        self._progress = TwoLines(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=24),
            console=console or show.console(stderr=True),
            refresh_per_second=8,
        )

    def __enter__(self) -> Bar:
        self._progress.start()
        return Bar(self._progress, self._progress.add_task("asking", total=None, facts=""))

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class Lines:
    """A line when something changed, and one every ten seconds."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._last: tuple[Any, ...] = ()
        self._due = 0.0

    def show(self, job: Mapping[str, Any]) -> None:
        """Write a line where there is something to say."""
        now = time.monotonic()
        self._pace.add(counts(job)[0], now, fence=job["fence"])
        current = (job["state"], job["fence"], job.get(KEPT_BY))
        if current == self._last and now < self._due:
            return
        self._last, self._due = current, now + LINE_SECONDS
        self.say("  ".join(filter(None, (headline(job), facts(job, self._pace)))))

    def say(self, line: str) -> None:
        """Write it."""
        click.echo(visible(line), err=True)


class Quiet:
    """Nothing at all."""

    def show(self, job: Mapping[str, Any]) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""


def headline(job: Mapping[str, Any]) -> str:
    """State and ownership in one phrase; of a job that waits for its time, until when."""
    until = show.not_before(job)
    if until:
        return f"pending, not before {until}"
    return f"{job['state']}, attempt {job['attempt']}, fence {job['fence']}"


def counts(job: Mapping[str, Any]) -> tuple[int, int]:
    """Done and total of a job's progress, 0 where unknown."""
    now = job.get("progress") or {}
    return int(now.get("done") or 0), int(now.get("total") or 0)


def facts(job: Mapping[str, Any], pace: Pace) -> str:
    """What keeps it, progress, rate, time left, the handler's own words: as far as is known.

    What the api says of the rate is the worker's own, and known at the first look; `pace` is for
    apis that do not say it yet.
    """
    parts = [job.get(KEPT_BY, ""), show.progress(job), show.pace(job) or _seen(job, pace)]
    parts.append(str((job.get("progress") or {}).get("message") or ""))
    return ", ".join(filter(None, parts))


def _seen(job: Mapping[str, Any], pace: Pace) -> str:
    done, total = counts(job)
    if pace.rate <= 0 or "rate" in (job.get("progress") or {}):
        return ""
    parts = [show.rate(pace.rate)]
    if total > done:
        left = timedelta(seconds=(total - done) / pace.rate)
        parts.append(f"{show.duration(left)} left")
    return ", ".join(parts)

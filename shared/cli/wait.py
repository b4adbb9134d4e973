"""`chot wait`: follow a job to its end, as a bar on a terminal, as lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import click
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api, job_path
from shared.cli.jobs import print_job
from shared.cli.options import calls_api, print_json
from shared.types import TERMINAL

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0
RATE_WINDOW_SECONDS = 15.0


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Then stop, with code 124."
)
@calls_api
@click.pass_context
def wait(
    context: click.Context, job_id: str, *, timeout: float | None, as_json: bool, retry_for: float
) -> None:
    """Wait until the job has ended: 0 succeeded, 1 dead or cancelled, 124 not in time."""
    with Api(retry_for) as api:
        job = follow(api, job_id, timeout=timeout, quiet=as_json)
    context.exit(report(job, as_json=as_json))


def follow(
    api: Api, job_id: str, *, timeout: float | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Return the job once it has ended, having shown its progress on stderr.

    A Failure with exit code 124 after `timeout` seconds; the job goes on without us.
    """
    with _screen(quiet=quiet) as screen:
        for job in _states(api, job_id, timeout):
            screen.show(job)
            if job["state"] in TERMINAL:
                return job
    raise Failure(
        f"job {job_id} has not ended after {timeout:g} s; it goes on. "
        f"`chot wait {job_id}` waits again, `chot cancel {job_id}` ends it",
        code=Exit.TIMEOUT,
    )


def _states(api: Api, job_id: str, timeout: float | None) -> Iterator[dict[str, Any]]:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        yield api.get(job_path(job_id)).body
        left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(POLL_SECONDS, left))


def report(job: dict[str, Any], *, as_json: bool) -> Exit:
    """Print how it ended; the exit code says whether it is what was asked for."""
    if as_json:
        print_json(job)
    else:
        print_job(job)
    return Exit.OK if job["state"] == "succeeded" else Exit.NO


class Pace:
    """How fast a job moves, over its last seconds; starts anew when progress falls back."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, done: int, now: float) -> None:
        """Note the progress at a moment (seconds of a monotonic clock)."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
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


class Bar:
    """A live bar with rate and time left, on stderr."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._pace = Pace()

    def show(self, job: Mapping[str, Any]) -> None:
        """Move the bar."""
        done, total = counts(job)
        self._pace.add(done, time.monotonic())
        said = f"{job['state']}, attempt {job['attempt']}, fence {job['fence']}"
        self._progress.update(
            self._task,
            completed=done,
            total=total or None,
            description=said,
            facts=facts(job, self._pace),
        )


class Lines:
    """A line when something changed, and one every ten seconds, on stderr."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._last: tuple[Any, ...] = ()
        self._due = 0.0

    def show(self, job: Mapping[str, Any]) -> None:
        """Write a line where there is something to say."""
        now = time.monotonic()
        self._pace.add(counts(job)[0], now)
        current = (job["state"], job["fence"])
        if current == self._last and now < self._due:
            return
        self._last, self._due = current, now + LINE_SECONDS
        said = f"{job['state']}, attempt {job['attempt']}, fence {job['fence']}"
        click.echo("  ".join(filter(None, (said, facts(job, self._pace)))), err=True)


class Quiet:
    """Nothing at all."""

    def show(self, job: Mapping[str, Any]) -> None:
        """Show nothing."""


class _LiveBar:
    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            console=show.console(stderr=True),
            refresh_per_second=8,
        )

    def __enter__(self) -> Bar:
        self._progress.start()
        return Bar(self._progress, self._progress.add_task("asking", total=None, facts=""))

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _screen(*, quiet: bool) -> AbstractContextManager[Screen]:
    if quiet:
        return nullcontext(Quiet())
    return _LiveBar() if sys.stderr.isatty() else nullcontext(Lines())


def counts(job: Mapping[str, Any]) -> tuple[int, int]:
    """Done and total of a job's progress, 0 where unknown."""
    now = job.get("progress") or {}
    return int(now.get("done") or 0), int(now.get("total") or 0)


def facts(job: Mapping[str, Any], pace: Pace) -> str:
    """Progress, rate, time left and the handler's own words, as far as they are known."""
    done, total = counts(job)
    parts = [show.progress(job)]
    if pace.rate > 0:
        parts.append(f"{pace.rate:,.0f}/s")
        if total > done:
            left = timedelta(seconds=(total - done) / pace.rate)
            parts.append(f"{show.duration(left)} left")
    parts.append(str((job.get("progress") or {}).get("message") or ""))
    return ", ".join(filter(None, parts))

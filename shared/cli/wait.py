"""`chot wait`: follow a job to its end, as a bar on a terminal, as lines elsewhere."""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api, job_of, job_path
from shared.cli.jobs import print_job
from shared.cli.options import Seconds, calls_api, print_json
from shared.cli.progress import KEPT_BY, Quiet, Screen, screen
from shared.cli.words import in_commands
from shared.types import TERMINAL

HOLD_SECONDS = 1.0  # progress moves as often on the screen
LEAST_SECONDS = 0.2
ASKED_AFTER_SECONDS = 3.0
ASKED_AGAIN_SECONDS = 10.0

WITH_ERRORS = "completed_with_errors"  # a result's outcome: some of what was asked for is not done
ENDS = {"succeeded": Exit.OK, "dead": Exit.NO, "cancelled": Exit.CANCELLED}


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="Then stop, with code 124.")
@calls_api
@click.pass_context
def wait(
    context: click.Context,
    /,
    job_id: str,
    *,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Wait until the job has ended: 0 succeeded, 1 dead, 6 cancelled, 124 not in time.

    1, too: it has succeeded with errors, some of what was asked for is not done.
    """
    with Api(retry_for) as api, screen(quiet=as_json) as shown:
        job = follow(api, job_id, shown, timeout=timeout)
    context.exit(report(job, as_json=as_json))


def follow(api: Api, job_id: str, shown: Screen, *, timeout: float | None = None) -> dict[str, Any]:
    """Return the job once it has ended, having shown its progress.

    A Failure with exit code 124 after `timeout` seconds, and with 130 at Ctrl-C; the job goes on
    without us.
    """
    advice = f"`chot wait {job_id}` waits again, `chot cancel {job_id}` ends it"
    kept = Keeper(api, shown, timeout)
    try:
        for job in _states(api, job_id, timeout):
            shown.show(kept.told(job))
            if job["state"] in TERMINAL:
                return job
    except KeyboardInterrupt:
        said = f"interrupted; job {job_id} goes on. {advice}"
        raise Failure(said, code=Exit.INTERRUPTED) from None
    raise Failure(
        f"job {job_id} has not ended after {timeout:g} s; it goes on. "
        f"`chot why {job_id}` says what keeps it, {advice}",
        code=Exit.TIMEOUT,
    )


class Keeper:
    """Finds out what keeps a job that has been pending for some seconds, say a paused queue.

    It asks again from time to time while the job waits, and never for longer than a look takes.
    """

    def __init__(self, api: Api, shown: Screen, timeout: float | None) -> None:
        self._api = api
        self._ends = math.inf if timeout is None else time.monotonic() + timeout - HOLD_SECONDS
        self._seen = not isinstance(shown, Quiet)
        self._due: float | None = None
        self._sentence = ""

    def told(self, job: dict[str, Any]) -> dict[str, Any]:
        """The job, with what keeps it where that is known."""
        if job["state"] != "pending" or show.not_before(job) or not self._seen:
            self._due, self._sentence = None, ""
            return job
        now = time.monotonic()
        if self._due is None:
            self._due = now + ASKED_AFTER_SECONDS
        elif self._due <= now < self._ends:
            self._sentence = self._why(job["id"])
            self._due = now + ASKED_AGAIN_SECONDS
        return {**job, KEPT_BY: self._sentence}

    def _why(self, job_id: str) -> str:
        with suppress(Failure):
            said = self._api.get(job_path(job_id, "why"), within=HOLD_SECONDS).body
            return in_commands(str(said["sentence"]))
        return ""


def _states(api: Api, job_id: str, timeout: float | None) -> Iterator[dict[str, Any]]:
    """The job now, then each time the api has waited for its end: it tells of it at once.

    After `timeout` it ends, a look that has begun then in a second at most.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    within = None if timeout is None else max(timeout, HOLD_SECONDS)
    yield job_of(api.get(job_path(job_id), within=within))
    while True:
        left = HOLD_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return
        held = min(HOLD_SECONDS, left)
        began = time.monotonic()
        within = None if deadline is None else left + HOLD_SECONDS
        try:
            job = job_of(api.get(job_path(job_id), {"wait": f"{held:.3f}"}, within=within))
        except Failure as failure:
            passed = deadline is not None and time.monotonic() >= deadline
            if failure.code != Exit.UNAVAILABLE or not passed:
                raise
            return
        yield job
        # An api that is about to end answers at once.
        time.sleep(max(0.0, min(held, LEAST_SECONDS) - (time.monotonic() - began)))


def report(job: dict[str, Any], *, as_json: bool) -> Exit:
    """Print how it ended; the exit code says whether it is what was asked for."""
    if as_json:
        print_json(job)
    else:
        print_job(job)
    return exit_of(job)


def exit_of(job: dict[str, Any]) -> Exit:
    """What the end of a job means to a script: all of it was done, or not."""
    result = job.get("result")
    if job["state"] == "succeeded" and isinstance(result, dict):
        return Exit.NO if result.get("outcome") == WITH_ERRORS else Exit.OK
    return ENDS[job["state"]]

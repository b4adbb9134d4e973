"""`chot queues` and `workers`: how much waits, and who works on it."""

from datetime import timedelta
from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table

MOST_COUNTED = 10_000


@click.command()
@calls_api
def queues(*, as_json: bool, retry_for: float) -> None:
    """Show each queue: how much waits and for how long, what runs, what has died."""
    with Api(retry_for) as api:
        found = api.get("/v1/queues").body
    if as_json:
        print_json(found)
        return
    rows = [_queue_row(each) for each in found["queues"]]
    columns = ("queue", "state", "pending#", "due#", "oldest due#", "running#", "dead#")
    show.console().print(table("", columns, rows, spare=("due", "running")))


def _queue_row(queue: dict[str, Any]) -> tuple[Any, ...]:
    paused, waits = queue["paused"], queue["oldest_due_seconds"]
    return (
        queue["name"],
        Text("paused", style="yellow") if paused else "open",
        _counted(queue["pending"]),
        _counted(queue["due"]),
        "" if waits is None else show.duration(timedelta(seconds=waits)),
        queue["running"],
        Text(str(queue["dead"]), style="red" if queue["dead"] else ""),
    )


def _counted(number: int) -> str:
    return f"{number:,}{'+' if number >= MOST_COUNTED else ''}"


@click.command()
@calls_api
def workers(*, as_json: bool, retry_for: float) -> None:
    """Show each worker: its version and slots, and which jobs it runs; its kinds with --json."""
    with Api(retry_for) as api:
        found = api.get("/v1/workers").body
    if as_json:
        print_json(found)
        return
    rows = [_worker_row(each) for each in found["workers"]]
    columns = ("worker", "state", "version", "queues (free/slots)", "seen", "runs")
    console = show.console()
    console.print(
        table("", columns, rows, below=("runs",), spare=("seen", "version"))
        if rows
        else "no workers have registered"
    )


def _worker_row(worker: dict[str, Any]) -> tuple[Any, ...]:
    live = worker["live"]
    slots = (f"{q['queue']} {q['free_slots']}/{q['slots']}" for q in worker["queues"])
    runs = (f"{job['kind']} {job['job_id']}" for job in worker["running"])
    return (
        worker["worker_id"],
        show.plain(worker["state"] if live else "gone", "green" if live else "red"),
        worker["code_version"],
        ", ".join(slots),
        show.clock(worker["seen_at"]),
        Text("\n".join(map(visible, runs))),
    )

"""`chot list`: jobs newest first, by what one looks for."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from shared.cli import show
from shared.cli.http import Api, page_of
from shared.cli.names import KindName
from shared.cli.options import calls_api, print_json
from shared.cli.tables import table
from shared.types import JobState

PAGE_MAX = 200
STATES = [state.value for state in JobState]


@click.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Only jobs in this state; may be given several times.",
)
@click.option("--kind", type=KindName(), help="Only jobs of this kind.")
@click.option("--company", help="Only jobs of this company.")
@click.option("--brand", help="Only jobs of this brand.")
@click.option("--group", metavar="ID", help="Only jobs of this group.")
@click.option("--submitter", metavar="ACCOUNT", help="Only jobs that this account submitted.")
@click.option(
    "--created-from", metavar="TIME", help="From then on, e.g. 2026-02-01T00:00:00+07:00."
)
@click.option("--created-to", metavar="TIME", help="Before then.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@calls_api
def list_(
    *, states: Sequence[str], limit: int, as_json: bool, retry_for: float, **filters: str | None
) -> None:
    """List jobs, newest first."""
    filters["state"] = ",".join(states) or None
    with Api(retry_for) as api:
        jobs, more = _pages(api, filters, limit)
    if as_json:
        print_json({"jobs": jobs, "more": more})
        return
    show.console().print(_jobs_table(jobs) if jobs else "no jobs")
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(
    api: Api, filters: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Follow the cursor until `limit` jobs are there; the answer says whether more exist."""
    jobs: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(jobs), PAGE_MAX)
        page = api.get("/v1/jobs", {**filters, "limit": wanted, "cursor": cursor})
        cursor = page_of(page, "jobs", sent=cursor)
        jobs += page.body["jobs"]
        if cursor is None or len(jobs) >= limit:
            return jobs, cursor is not None


def _jobs_table(jobs: list[dict[str, Any]]) -> Any:
    rows = [
        (
            job["id"],
            job["kind"],
            show.whose(job),
            show.state(job["state"]),
            f"{show.charged(job)}/{job['max_attempts']}",
            show.progress(job) or _waits(job),
            show.clock(job.get("created_at")),
            show.took_of(job),
        )
        for job in jobs
    ]
    columns = ("id", "kind", "for", "state", "attempt#", "progress#", "created", "took#")
    return table(
        "", columns, rows, below=("progress",), spare=("took", "attempt", "created", "for")
    )


def _waits(job: Mapping[str, Any]) -> str:
    until = show.not_before(job)
    return f"not before {until}" if until else ""

"""`chot status`, `chot list`, `chot cancel`: one job, many jobs, no more of this job."""

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, job_path
from shared.cli.options import calls_api, print_json
from shared.types import JobState

PAGE_MAX = 100
FACTS = ("id", "kind", "company", "brand", "state", "attempt", "fence", "priority")
STATES = [state.value for state in JobState]


@click.command()
@click.argument("job_id", metavar="ID")
@calls_api
def status(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show one job: its state, progress, result or error, and every attempt."""
    with Api(retry_for) as api:
        job = api.get(job_path(job_id)).body
    if as_json:
        print_json(job)
        return
    print_job(job)


def print_job(job: Mapping[str, Any]) -> None:
    """Write everything the api says about one job, for a person."""
    console = show.console()
    for name, value in _facts(job):
        console.print(Text(f"{name:<12}", style="dim"), value, sep="", soft_wrap=True)
    attempts = job.get("attempts") or []
    if attempts:
        console.print()
        console.print(attempts_table(attempts))


def _facts(job: Mapping[str, Any]) -> list[tuple[str, Text]]:
    facts = [(name, job.get(name)) for name in FACTS]
    facts += [
        ("attempts", f"{job.get('attempt')} of {job.get('max_attempts')}"),
        ("progress", show.progress(job)),
        ("pace", show.pace(job)),
        ("blocked by", job.get("blocked_by")),
        ("created", show.moment(job.get("created_at"))),
        ("not before", show.not_before(job)),
        ("finished", show.moment(job.get("finished_at"))),
        ("took", show.took_of(job)),
        ("error", show.reason(job.get("error"))),
        ("where", show.where(job.get("error"))),
        ("result", _compact(job.get("result"))),
    ]
    told = [(name, value) for name, value in facts if value not in {None, ""} and name != "attempt"]
    return [
        (name, show.state(str(value)) if name == "state" else Text(str(value)))
        for name, value in told
    ]


def _compact(result: Any) -> str:
    return "" if result is None else json.dumps(result, ensure_ascii=False)


def attempts_table(attempts: list[dict[str, Any]]) -> Any:
    """The attempt history: who, when, under which fence, why it ended."""
    rows = [
        (
            attempt.get("attempt"),
            attempt.get("fence"),
            attempt.get("worker_id"),
            show.moment(attempt.get("started_at")),
            show.took(attempt.get("started_at"), attempt.get("ended_at")),
            show.state(attempt.get("outcome") or "running"),
            show.reason(attempt.get("error")),
        )
        for attempt in attempts
    ]
    columns = ("attempt#", "fence#", "worker", "started", "took#", "ended as", "why")
    return show.table("attempts", columns, rows)


@click.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--company", help="Only jobs of this company.")
@click.option("--brand", help="Only jobs of this brand.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@calls_api
def list_(*, limit: int, as_json: bool, retry_for: float, **filters: str | None) -> None:
    """List jobs, newest first."""
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
        page = api.get("/v1/jobs", {**filters, "limit": wanted, "cursor": cursor}).body
        jobs += page["jobs"]
        cursor = page.get("next_cursor")
        if cursor is None or len(jobs) >= limit:
            return jobs, cursor is not None


def _jobs_table(jobs: list[dict[str, Any]]) -> Any:
    rows = [
        (
            job["id"],
            job["kind"],
            "/".join(filter(None, (job["company"], job.get("brand")))),
            show.state(job["state"]),
            f"{job['attempt']}/{job['max_attempts']}",
            show.progress(job) or _waits(job),
            show.moment(job.get("created_at")),
            show.took_of(job),
        )
        for job in jobs
    ]
    columns = ("id", "kind", "for", "state", "attempt#", "progress#", "created", "took#")
    return show.table("", columns, rows)


def _waits(job: Mapping[str, Any]) -> str:
    until = show.not_before(job)
    return f"not before {until}" if until else ""


@click.command()
@click.argument("job_id", metavar="ID")
@calls_api
def cancel(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Cancel a pending or running job; once this says so, nothing of it commits any more.

    Exit code 5: it was too late, the job has ended already.
    """
    with Api(retry_for) as api:
        job = api.post(job_path(job_id, "cancel")).body
    if as_json:
        print_json(job)
        return
    click.echo(f"job {job_id} is {job['state']}")

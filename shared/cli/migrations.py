"""`chot migrations`: run a task, see how far it is and what it could not take, pause and resume."""

import json
from typing import Any
from urllib.parse import quote

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, page_of
from shared.cli.options import Seconds, calls_api, print_json
from shared.cli.payload import payload_text
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.tables import table
from shared.cli.wait import follow, report
from shared.client.wanted import fresh_key
from shared.json_text import to_json

PAGE_MAX = 200
COLOURS = {"running": "green", "pending": "yellow", "dead": "red", "succeeded": "cyan"}
SHOWN_REJECTS = 20


@click.group()
def migrations() -> None:
    """Tasks that go over all of a company's rows, batch by batch."""


def migration_path(job_id: str, *rest: str) -> str:
    """Path of a migration's route; whatever was given as an id stays one path segment."""
    return "/".join(("/v1/migrations", quote(job_id, safe=""), *rest))


@migrations.command("list")
@click.option("--company", help="Only this one's.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@calls_api
def list_(*, company: str | None, limit: int, as_json: bool, retry_for: float) -> None:
    """List migrations, newest first."""
    with Api(retry_for) as api:
        found, more = _pages(api, company, limit)
    if as_json:
        print_json({"migrations": found, "more": more})
        return
    rows = [
        (each["id"], each["task"] or "", _state(each), _rows(each), each["waits_for"] or "")
        for each in found
    ]
    columns = ("id", "task", "state", "rows", "waits for")
    shown = table("", columns, rows, below=("waits for",)) if rows else "no migrations"
    show.console().print(shown)
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(api: Api, company: str | None, limit: int) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        page = api.get("/v1/migrations", {"company": company, "limit": wanted, "cursor": cursor})
        cursor = page_of(page, "migrations", sent=cursor)
        found += page.body["migrations"]
        if cursor is None or len(found) >= limit:
            return found, cursor is not None


def _state(each: dict[str, Any]) -> Text:
    said = "paused" if each["paused"] else each["state"]
    return show.plain(said, COLOURS.get(each["state"], ""))


def _rows(each: dict[str, Any]) -> str:
    total = f" of {each['rows_total']:,}" if each["rows_total"] is not None else ""
    failed = f", {each['rows_failed']:,} set aside" if each["rows_failed"] else ""
    return f"{each['rows_done']:,}{total}{failed}"


@migrations.command("show")
@click.argument("job_id", metavar="ID")
@calls_api
def show_(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show how far a migration is, its checks, its newest batches and the first rejects."""
    with Api(retry_for) as api:
        found = api.get(migration_path(job_id)).body
        path = migration_path(job_id, "rejects")
        rejects = api.get(path, {"limit": SHOWN_REJECTS}).body["rejects"]
    if as_json:
        print_json(found | {"rejects": rejects})
        return
    dry = ", a dry run" if found["dry_run"] else ""
    state = "paused" if found["paused"] else found["state"]
    click.echo(
        visible(f"{found['task']} of {found['company']}{dry}: {state}; rows: {_rows(found)}")
    )
    if found["waits_for"]:
        click.echo(visible(f"waits: {found['waits_for']}"))
    counts = ", ".join(f"{rows:,} {outcome}" for outcome, rows in found["counts"].items())
    click.echo(visible(f"{found['batches']:,} batches; {counts or 'nothing yet'}"))
    for name in ("check_before", "check_after"):
        if found[name] is not None:
            click.echo(visible(f"{name.replace('_', ' ')}: {json.dumps(found[name])}"))
    _print_batches(found["recent_batches"])
    for each in rejects:
        at = f"line {each['line']}" if each["line"] is not None else "/".join(each["key"] or [])
        field = f" {each['field']}" if each["field"] else ""
        click.echo(visible(f"set aside: {at}{field}: {each['code']}: {each['rule']}"))


def _print_batches(batches: list[dict[str, Any]]) -> None:
    rows = [
        (each["number"], each["rows"], each["ms"], each["outcome"], each["error"] or "")
        for each in batches
    ]
    if rows:
        columns = ("batch#", "rows#", "ms#", "outcome", "error")
        show.console().print(table("", columns, rows, below=("error",)))


@migrations.command("run")
@click.argument("task")
@click.argument("words", nargs=-1, metavar="[NAME=TEXT | NAME:=JSON]...")
@click.option("--company", required=True, help="Whose rows.")
@click.option("--brand", help="One brand of it, of a task that takes one.")
@click.option("--dry-run", is_flag=True, help="Apply each batch, count, and take it back.")
@click.option("--batch-size", type=click.IntRange(1, 100_000), help="Of the first batch.")
@click.option("--max-rejects", type=click.IntRange(min=0), help="More rows set aside: dead.")
@click.option("--max-reject-percent", type=click.IntRange(0, 100), help="More of them: dead.")
@click.option("--window", metavar="HH:MM-HH:MM", help="Batches begin at these hours only.")
@click.option("--key", help="Idempotency-Key of your own; a repeat with it answers the same.")
@click.option("--wait", "waits", is_flag=True, help="Then wait for its end, as `chot wait` does.")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="With --wait.")
@calls_api
@click.pass_context
def run(
    context: click.Context,
    /,
    *,
    task: str,
    words: tuple[str, ...],
    company: str,
    brand: str | None,
    key: str | None,
    waits: bool,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
    **given: Any,
) -> None:
    """Run TASK and print the job's id. Words are its parameters.

    \b
    chot migrations run pools.assign --company SAMPLE by=brand valid_from=2026-01-01 --dry-run
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    options = {name: value for name, value in given.items() if value is not None}
    options = {name: value for name, value in options.items() if value is not False}
    params = payload_text(None, None, words)
    payload = f'{to_json({"task": task} | options)[:-1]},"params":{params}}}'
    job = {"kind": "migration.run", "company": company} | ({"brand": brand} if brand else {})
    body = f'{to_json(job)[:-1]},"payload":{payload}}}'
    with Api(retry_for) as api:
        answer = api.post("/v1/jobs", body, {"Idempotency-Key": key or fresh_key()})
        if not waits:
            _print_job(answer.body, as_json=as_json)
            return
        with screen(quiet=as_json) as shown:
            ended = follow(api, answer.body["id"], shown, timeout=timeout)
    context.exit(report(ended, as_json=as_json))


def _print_job(body: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(body)
        return
    click.echo(visible(body["id"]))
    how = "runs the task" if body["created"] else "is running it already"
    said = f"job {body['id']} {how}; `chot migrations show {body['id']}` tells how far it is"
    click.echo(visible(said), err=True)


@migrations.command("pause")
@click.argument("job_id", metavar="ID")
@calls_api
def pause(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Pause a migration: one that runs ends after its batch. May be repeated."""
    with Api(retry_for) as api:
        found = api.post(migration_path(job_id, "pause")).body
    if as_json:
        print_json(found)
        return
    ends = " after the batch that it is in" if found["state"] == "running" else ""
    said = f"migration {job_id} is paused{ends}; `chot migrations resume {job_id}` lets it go on"
    click.echo(visible(said))


@migrations.command("resume")
@click.argument("job_id", metavar="ID")
@calls_api
def resume(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Let a paused migration go on behind the last row that is done. May be repeated."""
    with Api(retry_for) as api:
        found = api.post(migration_path(job_id, "resume")).body
    if as_json:
        print_json(found)
        return
    click.echo(visible(f"migration {job_id} goes on; `chot wait {job_id}` follows it"))

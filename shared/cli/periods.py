"""`chot periods` and `chot period`: how a company's periods stand; close one, reopen the latest."""

from typing import Any
from urllib.parse import quote

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Answer, Api, page_of
from shared.cli.options import Seconds, calls_api, print_json
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.tables import table
from shared.cli.wait import follow, report
from shared.cli.words import in_commands
from shared.json_text import to_json

PAGE_MAX = 200
COLOURS = {"open": "green", "closing": "yellow", "closed": "cyan"}
of_company = click.option("--company", required=True, help="Whose books.")
with_approval = click.option(
    "--approval", metavar="ID", help="Another account's, where one is asked for."
)


@click.command()
@of_company
@click.option("--limit", type=click.IntRange(min=1), default=24, show_default=True)
@calls_api
def periods(*, company: str, limit: int, as_json: bool, retry_for: float) -> None:
    """Show a company's periods, newest first, and how the costs of each stand."""
    with Api(retry_for) as api:
        found, more = _pages(api, company, limit)
    if as_json:
        print_json({"periods": found, "more": more})
        return
    rows = [
        (
            each["period"],
            _status(each["status"]),
            *(each["results"][name] for name in ("total", "failed", "stale", "late")),
            _last(each["last_event"]),
        )
        for each in found
    ]
    columns = ("period", "status", "costed#", "failed#", "stale#", "late#", "last")
    shown = table("", columns, rows, below=("last",)) if rows else f"no periods of {company}"
    show.console().print(shown)
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(api: Api, company: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        asked = {"company": company, "limit": wanted, "cursor": cursor}
        page = api.get("/v1/periods", asked)
        cursor = page_of(page, "periods", sent=cursor)
        found += page.body["periods"]
        if cursor is None or len(found) >= limit:
            return found, cursor is not None


def _status(status: str) -> Text:
    return show.plain(status, COLOURS.get(status, ""))


def _last(event: dict[str, Any] | None) -> str:
    if event is None:
        return ""
    approved = f", approved by {event['approver']}" if event["approver"] else ""
    reason = f": {event['reason']}" if event["reason"] else ""
    what = event["event"].replace("_", " ")
    return f"{what} {show.clock(event['at'])} by {event['requester']}{approved}{reason}"


@click.group()
def period() -> None:
    """Show, close or reopen an accounting period of a company."""


def period_path(name: str, *rest: str) -> str:
    """Path of a period's route; whatever was given as a name stays one path segment."""
    return "/".join(("/v1/periods", quote(name, safe=""), *rest))


@period.command("show")
@click.argument("name", metavar="PERIOD")
@of_company
@calls_api
def show_(name: str, *, company: str, as_json: bool, retry_for: float) -> None:
    """Show a period, what became of it, and what its reopening would affect."""
    with Api(retry_for) as api:
        found = api.get(period_path(name), {"company": company}).body
    if as_json:
        print_json(found)
        return
    _print(found)
    for event in found["events"]:
        click.echo(visible(_last(event)))
        _print_findings(event["facts"].get("findings") or [])
    reopening = found["reopening"]
    if reopening is not None and reopening["later_closed"]:
        first = ", ".join(reversed(reopening["later_closed"]))
        click.echo(visible(f"to reopen it, reopen {first} first, in this order"))
    elif reopening is not None:
        _print_affected(reopening["affects"], "its reopening would affect")


def _print(found: dict[str, Any]) -> None:
    counts = found["results"]
    told = ", ".join(f"{counts[name]:,} {name}" for name in ("failed", "stale", "late"))
    days = f"{found['starts_on']} to {found['ends_on']}"
    said = f"period {found['period']} of {found['company']} ({days}) is {found['status']}"
    click.echo(visible(f"{said}: {counts['total']:,} items costed, {told}"))


def _print_findings(findings: list[dict[str, Any]]) -> None:
    for each in findings:
        named = ", ".join(map(str, each["first"]))
        more = ", …" if each["count"] > len(each["first"]) else ""
        says = in_commands(str(each["says"]))
        click.echo(visible(f"  {each['code']} ({each['count']:,}): {says}: {named}{more}"))


def _print_affected(affects: list[dict[str, Any]], what: str) -> None:
    for each in affects:
        told = f"{each['results']:,} results of {each['items_total']:,} items"
        runs = ", ".join(each["runs"])
        said = f"{what} period {each['period']} ({each['status']}): {told}, runs {runs}"
        click.echo(visible(said))


@period.command("close")
@click.argument("name", metavar="PERIOD")
@of_company
@click.option("--reason", help="For the audit.")
@with_approval
@click.option("--wait", "waits", is_flag=True, help="Then wait for its end, as `chot wait` does.")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="With --wait.")
@calls_api
@click.pass_context
def close(
    context: click.Context,
    name: str,
    *,
    company: str,
    reason: str | None,
    approval: str | None,
    waits: bool,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Ask for the close of PERIOD and print the job's id; the job closes it, or says why not.

    \b
    chot period close 2026-01 --company SAMPLE --wait
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    body = _body(company=company, reason=reason, approval=approval)
    with Api(retry_for) as api:
        answer = api.post(period_path(name, "close"), body)
        if not waits:
            _print_job(answer, as_json=as_json)
            return
        with screen(quiet=as_json) as shown:
            job = follow(api, answer.body["id"], shown, timeout=timeout)
    code = report(job, as_json=as_json)
    if not as_json:
        details = (job.get("error") or {}).get("details") or {}
        _print_findings(details.get("findings") or [])
    context.exit(code)


def _print_job(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer.body)
        return
    job_id = answer.body["id"]
    click.echo(visible(job_id))
    how = "closes the period" if answer.body["created"] else "is closing the period already"
    click.echo(visible(f"job {job_id} {how}; `chot wait {job_id}` follows it"), err=True)


@period.command("reopen")
@click.argument("name", metavar="PERIOD")
@of_company
@click.option("--reason", required=True, help="For the audit.")
@with_approval
@calls_api
def reopen(
    name: str,
    *,
    company: str,
    reason: str,
    approval: str | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Reopen PERIOD, the latest closed one, and list what was built on it."""
    body = _body(company=company, reason=reason, approval=approval)
    with Api(retry_for) as api:
        found = api.post(period_path(name, "reopen"), body).body
    if as_json:
        print_json(found)
        return
    _print(found)
    _print_affected(found["affects"], "what was built on it:")


def _body(**given: str | None) -> str:
    return to_json({name: value for name, value in given.items() if value is not None})

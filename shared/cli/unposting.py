"""`chot unpost`: take posted documents off the ledger. `chot outcomes`: what became of each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from shared.cli import show
from shared.cli.documents import DAY, TYPES
from shared.cli.exits import Exit
from shared.cli.http import Api, job_path, page_of
from shared.cli.options import Seconds, calls_api, print_json
from shared.cli.periods import of_company, with_approval
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.tables import table
from shared.cli.wait import follow, report
from shared.client.wanted import fresh_key, key_header
from shared.json_text import to_json

KIND = "posting.unpost"
PAGE_MAX = 200
SHOWN_FAILURES = 10
SELECTABLE = tuple(each for each in TYPES if each != "cost")


@click.command()
@click.argument("documents", nargs=-1, type=click.IntRange(min=1), metavar="[DOCUMENT]...")
@of_company
@click.option("--brand", help="Only documents of this brand.")
@click.option("--type", "types", type=click.Choice(SELECTABLE), multiple=True, help="Of this type.")
@click.option("--from", "since", type=DAY, help="Posted on this day or later.")
@click.option("--to", "until", type=DAY, help="Posted on this day or before.")
@click.option("--store", "stores", multiple=True, help="Of this store.")
@click.option("--reason", required=True, help="For the reversing entries and the audit.")
@click.option("--on", "day", type=DAY, help="Day of the reversals; else that of each entry.")
@click.option("--with-costs", is_flag=True, help="Reverse the costs of each slip with it.")
@with_approval
@click.option("--approve", "approves", is_flag=True, help="Approve it, for another account to ask.")
@click.option("--wait", "waits", is_flag=True, help="Then wait for its end, as `chot wait` does.")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="With --wait.")
@calls_api
@click.pass_context
def unpost(
    context: click.Context,
    /,
    *,
    company: str,
    brand: str | None,
    approval: str | None,
    approves: bool,
    waits: bool,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
    **wanted: Any,
) -> None:
    """Take posted DOCUMENTs (their ids), or all that fit the options, off the ledger.

    \b
    chot unpost 8121 8122 --company SAMPLE --reason "wrong customer" --wait
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    if approves and (approval is not None or waits):
        raise click.UsageError("--approve approves what another account asks for: it does not ask")
    job = {"kind": KIND, "company": company, "payload": _payload(wanted)}
    job |= {} if brand is None else {"brand": brand}
    with Api(retry_for) as api:
        if approves:
            _approve(api, job, as_json=as_json)
            return
        body = job | ({} if approval is None else {"approval": approval})
        key = {"Idempotency-Key": key_header(fresh_key())}
        made = api.post("/v1/jobs", to_json(body), key).body
        if not waits:
            _say(made, as_json=as_json)
            return
        with screen(quiet=as_json) as shown:
            ended = follow(api, made["id"], shown, timeout=timeout)
    context.exit(_told(ended, as_json=as_json))


def _payload(wanted: Mapping[str, Any]) -> dict[str, Any]:
    day = wanted["day"]
    named = {
        "documents": list(wanted["documents"]),
        "types": list(wanted["types"]),
        "stores": list(wanted["stores"]),
        "date_from": _day(wanted["since"]),
        "date_to": _day(wanted["until"]),
        "reversal_date": _day(day),
        "dependants": "reverse" if wanted["with_costs"] else None,
        "reason": wanted["reason"],
    }
    payload = {name: value for name, value in named.items() if value}
    if not payload.keys() & {"documents", "types", "stores", "date_from", "date_to"}:
        raise click.UsageError("nothing is selected: name documents, or give --type, --from, …")
    return payload


def _day(day: datetime | None) -> str | None:
    return None if day is None else day.date().isoformat()


def _approve(api: Api, job: Mapping[str, Any], *, as_json: bool) -> None:
    given = api.post("/v1/approvals", to_json({"action": KIND, "job": job})).body
    if as_json:
        print_json(given)
        return
    click.echo(visible(given["id"]))
    until = show.moment(given["expires_at"])
    said = f"this unposting is approved once, until {until}; pass the id to who asks for it"
    click.echo(visible(said), err=True)


def _say(made: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    job_id = made["id"]
    click.echo(visible(job_id))
    how = "accepted" if made["created"] else "the same unposting is active already: joined it"
    click.echo(visible(f"job {job_id}: {how}; `chot wait {job_id}` follows it"), err=True)


def _told(job: dict[str, Any], *, as_json: bool) -> Exit:
    """What became of the documents; the exit code says whether all of them are off the ledger."""
    result = job.get("result")
    if job["state"] != "succeeded" or not isinstance(result, dict):
        return report(job, as_json=as_json)
    failed = int(result.get("failures_total") or 0)
    if as_json:
        print_json(job)
    else:
        counts = dict(result.get("outcomes") or {})
        told = ", ".join(f"{many:,} {outcome}" for outcome, many in counts.items())
        click.echo(visible(told or "nothing to unpost"))
        for each in list(result.get("failures") or [])[:SHOWN_FAILURES]:
            click.echo(visible(f"document {each['document_id']}: {each['detail']}"), err=True)
        if failed > SHOWN_FAILURES:
            click.echo(f"all of them: `chot outcomes {job['id']} --failed`", err=True)
    return Exit.NO if failed else Exit.OK


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--outcome", "wanted", multiple=True, help="Only those that ended so.")
@click.option("--failed", is_flag=True, help="Only those that did not end well.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@calls_api
def outcomes(
    job_id: str,
    *,
    wanted: Sequence[str],
    failed: bool,
    limit: int,
    as_json: bool,
    retry_for: float,
) -> None:
    """Show what became of each document of a posting or unposting."""
    asked = {"outcome": ",".join(wanted) or None, "failed": "true" if failed else None}
    with Api(retry_for) as api:
        found, more = _pages(api, job_id, asked, limit)
    if as_json:
        print_json({"outcomes": found, "more": more})
        return
    rows = [
        (
            each["document_id"],
            each["type"],
            each["doc_no"],
            each["outcome"] or "not done yet",
            each["entry_id"],
            each["detail"],
        )
        for each in found
    ]
    columns = ("document#", "type", "number", "outcome", "entry#", "why")
    shown = table("", columns, rows, below=("why",)) if rows else "no such documents"
    show.console().print(shown)
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(
    api: Api, job_id: str, asked: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        query = {**asked, "limit": wanted, "cursor": cursor}
        page = api.get(job_path(job_id, "outcomes"), query)
        cursor = page_of(page, "outcomes", sent=cursor)
        found += page.body["outcomes"]
        if cursor is None or len(found) >= limit:
            return found, cursor is not None

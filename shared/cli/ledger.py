"""`chot ledger`: a company's ledger, its entries with their proof, reports, and its chart."""

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.text import Text

from shared.cli import show
from shared.cli.chart import account, accounts, adopt, of_company, role, roles, rule, rules
from shared.cli.control import control
from shared.cli.exits import Exit
from shared.cli.export import fetch_file, form_of
from shared.cli.http import Api, page_of
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.tables import table
from shared.cli.wait import follow, report

PAGE_MAX = 200
REPORTS = ("trial_balance", "general_ledger", "journal")
SIX = (
    "opening_debit",
    "opening_credit",
    "debit",
    "credit",
    "closing_debit",
    "closing_credit",
)
DAY = click.DateTime(["%Y-%m-%d"])
limited = click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)


def spanned(command: Any) -> Any:
    """Add the options that say which days: a period, or from one day to another."""
    for option in (
        click.option("--to", "until", type=DAY, help="Last day."),
        click.option("--from", "since", type=DAY, help="First day."),
        click.option("--period", help="Such as 2026-01."),
        of_company,
    ):
        command = option(command)
    return command


def asked_days(
    company: str, period: str | None, since: datetime | None, until: datetime | None
) -> dict[str, str]:
    """As the api takes them; UsageError where it is neither, or both."""
    if (period is None) == (since is None and until is None):
        raise click.UsageError("give --period, or --from and --to")
    if period is not None:
        return {"company": company, "period": period}
    if since is None or until is None:
        raise click.UsageError("give both --from and --to")
    days = {"date_from": since.date().isoformat(), "date_to": until.date().isoformat()}
    return {"company": company} | days


@click.group()
def ledger() -> None:
    """A company's ledger: entries, reports, chart of accounts."""


@ledger.command("balance")
@spanned
@click.option("--level", type=click.IntRange(1, 10), help="1: the shortest codes.")
@calls_api
def balance(
    *,
    company: str,
    period: str | None,
    since: datetime | None,
    until: datetime | None,
    level: int | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Trial balance: opening, debits, credits and closing of every account."""
    asked: dict[str, Any] = {**asked_days(company, period, since, until), "level": level}
    with Api(retry_for) as api:
        found = api.get("/v1/ledger/trial-balance", asked).body
    if as_json:
        print_json(found)
        return
    rows = [
        (each["account"], each["name_vi"] or each["name"], *(each[name] for name in SIX))
        for each in found["accounts"]
    ]
    rows.append(("", "total", *(found["totals"][name] for name in SIX)))
    columns = ("account", "name", *(f"{name.replace('_', ' ')}#" for name in SIX))
    show.console().print(table("", columns, rows, below=("name",)))
    if not found["balanced"]:
        click.echo("debits are not credits: these are lines of some brands only", err=True)


@ledger.command("book")
@click.argument("code")
@spanned
@click.option("--store")
@click.option("--party")
@click.option("--item")
@limited
@calls_api
def book(
    code: str,
    *,
    company: str,
    period: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
    retry_for: float,
    **filters: str | None,
) -> None:
    """General ledger of account CODE and those below it: each line, with the balance after it."""
    asked = asked_days(company, period, since, until) | {"account": code} | filters
    with Api(retry_for) as api:
        lines, more, body = pages(api, "/v1/ledger/general-ledger", "lines", asked, limit)
    if as_json:
        print_json(body | {"lines": lines, "more": more})
        return
    rows = [("", "", "opening", "", "", "", body["opening"], "")]
    rows += [
        (
            each["date"],
            f"{each['series']} {each['entry_no']}",
            each["doc_no"],
            ", ".join(each["contra"]),
            each["debit"],
            each["credit"],
            each["balance"],
            each["memo"] or "",
        )
        for each in lines
    ]
    columns = ("date", "number", "document", "contra", "debit#", "credit#", "balance#", "memo")
    show.console().print(table("", columns, rows, below=("memo",)))
    _tell_more(limit, more=more)


@ledger.command("journal")
@spanned
@limited
@calls_api
def journal(
    *,
    company: str,
    period: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
    retry_for: float,
) -> None:
    """Journal: every line of every entry, by day."""
    asked = asked_days(company, period, since, until)
    with Api(retry_for) as api:
        lines, more, body = pages(api, "/v1/ledger/journal", "lines", asked, limit)
    if as_json:
        print_json(body | {"lines": lines, "more": more})
        return
    rows = [
        (
            each["date"],
            f"{each['series']} {each['entry_no']}",
            each["doc_no"],
            each["account"],
            each["debit"],
            each["credit"],
            " ".join(each[name] or "" for name in ("party", "store", "item")).strip(),
        )
        for each in lines
    ]
    columns = ("date", "number", "document", "account", "debit#", "credit#", "of")
    show.console().print(table("", columns, rows, below=("of",)) if rows else "no lines")
    _tell_more(limit, more=more)


@ledger.command("entries")
@of_company
@click.option("--from", "date_from", type=DAY)
@click.option("--to", "date_to", type=DAY)
@click.option("--account", help="Only those with a line of it.")
@click.option("--store")
@click.option("--party")
@click.option("--series")
@click.option("--document", type=click.IntRange(min=1), help="Of the document with this id.")
@limited
@calls_api
def entries(limit: int, *, as_json: bool, retry_for: float, **filters: Any) -> None:
    """List entries, newest first."""
    asked = {
        name: value.date().isoformat() if isinstance(value, datetime) else value
        for name, value in filters.items()
    }
    with Api(retry_for) as api:
        found, more, _ = pages(api, "/v1/ledger/entries", "entries", asked, limit)
    if as_json:
        print_json({"entries": found, "more": more})
        return
    rows = [
        (
            each["id"],
            each["posting_date"],
            f"{each['series']} {each['entry_no']}",
            each["type"],
            each["doc_no"],
            each["amount"],
            _undone(each),
        )
        for each in found
    ]
    columns = ("id#", "date", "number", "type", "document", "amount#", "")
    show.console().print(table("", columns, rows) if rows else "no entries")
    _tell_more(limit, more=more)


def _undone(entry: dict[str, Any]) -> str:
    if entry["reversed_by"] is not None:
        return f"reversed by {entry['reversed_by']}"
    return f"reverses {entry['reverses']}" if entry["reverses"] is not None else ""


def entry_path(entry_id: str, *rest: str) -> str:
    """Path of an entry's route; whatever was given as an id stays one path segment."""
    return "/".join(("/v1/ledger/entries", quote(entry_id, safe=""), *rest))


@ledger.command("entry")
@click.argument("entry_id", metavar="ENTRY")
@calls_api
def entry(entry_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show an entry with its lines, and what has taken it back."""
    with Api(retry_for) as api:
        found = api.get(entry_path(entry_id)).body
    if as_json:
        print_json(found)
        return
    facts = [
        ("entry", f"{found['id']}, number {found['entry_no']} of {found['series']}"),
        ("year", found["fiscal_year"]),
        ("day", found["posting_date"]),
        ("document", f"{found['type']} {found['doc_no']} (id {found['document_id']})"),
        ("version", f"{found['document_version']}, by rule version {found['rule_version']}"),
        ("job", found["job_id"]),
        ("undone", _undone(found) or None),
        ("hash", found["hash"]),
    ]
    for name, value in facts:
        if value is not None:
            show.console().print(Text(f"{name.ljust(9)} ") + show.plain(value))
    rows = [
        (
            line["account"],
            line.get("name_vi") or line["name"],
            line["debit"],
            line["credit"],
            _of(line),
        )
        for line in found["entry_lines"]
    ]
    columns = ("account", "name", "debit#", "credit#", "of")
    show.console().print(table("", columns, rows, below=("name", "of")))


def _of(line: dict[str, Any]) -> str:
    told = [line[name] for name in ("party", "store", "item", "memo") if line[name]]
    if line["qty"] is not None:
        told.append(f"{line['qty']} {line['unit'] or ''}".strip())
    return ", ".join(told)


@ledger.command("chain")
@click.argument("entry_id", metavar="ENTRY")
@click.option("--whole", is_flag=True, help="From number 1 of its series to the last.")
@calls_api
@click.pass_context
def chain(
    context: click.Context, entry_id: str, *, whole: bool, as_json: bool, retry_for: float
) -> None:
    """Prove the chain that ENTRY stands in: every hash is made anew. Exit code 1: it is broken."""
    broken: list[dict[str, Any]] = []
    checked, first = 0, 1 if whole else None
    with Api(retry_for) as api:
        while True:
            asked = {"first": first, "limit": PAGE_MAX if whole else 100}
            page = api.get(entry_path(entry_id, "chain"), asked).body
            checked += len(page["links_checked"])
            broken += [each for each in page["links_checked"] if each["broken"] is not None]
            if not whole or page["next_from"] is None or page["next_from"] == first:
                break
            first = page["next_from"]
    named = {name: page[name] for name in ("company", "series", "fiscal_year", "last_no")}
    if as_json:
        print_json(named | {"checked": checked, "ok": not broken, "broken": broken})
    else:
        for each in broken:
            click.echo(visible(f"number {each['entry_no']}: {each['broken']}"))
        said = f"{len(broken)} broken" if broken else "each is what its hash says"
        place = f"{page['series']} {page['fiscal_year']} of {page['company']}"
        click.echo(visible(f"{checked:,} entries of series {place}: {said}"))
    if broken:
        context.exit(Exit.NO)


@ledger.command("export")
@click.argument("report_name", metavar="REPORT", type=click.Choice(REPORTS))
@spanned
@click.option("--account", help="Of a general ledger.")
@click.option("--level", type=click.IntRange(1, 10), help="Of a trial balance.")
@click.option("--brand", help="Lines of this brand only.")
@click.option("--format", "form", type=click.Choice(["csv", "xlsx"]), help="Else by the name.")
@click.option("--file", "target", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--bom", is_flag=True, help="CSV for Excel: begin with a byte order mark.")
@calls_api
@click.pass_context
def export(
    context: click.Context,
    /,
    report_name: str,
    *,
    company: str,
    period: str | None,
    since: datetime | None,
    until: datetime | None,
    form: str | None,
    target: Path | None,
    as_json: bool,
    retry_for: float,
    **more: Any,
) -> None:
    """Write REPORT into a file here, once a worker has made it.

    \b
    chot ledger export trial_balance --company SAMPLE --period 2026-01 --file january.xlsx
    chot ledger export general_ledger --account 1561 --company SAMPLE --period 2026-01 --format csv
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    body: dict[str, Any] = asked_days(company, period, since, until) | {"report": report_name}
    body |= {name: value for name, value in more.items() if value not in (None, False)}
    body["format"] = form or form_of(target)
    with Api(retry_for) as api:
        key = {"Idempotency-Key": f"export-{uuid.uuid4()}"}
        answer = api.post("/v1/ledger/exports", json.dumps(body), key)
        with screen(quiet=as_json) as shown:
            job = follow(api, answer.body["id"], shown)
        if job["state"] != "succeeded":
            context.exit(report(job, as_json=as_json))
        file = job["result"]["file"]
        path = target or Path(file["name"])
        fetch_file(api, file, path)
    if as_json:
        print_json(job["result"] | {"path": str(path)})
        return
    click.echo(visible(path))
    click.echo(f"{job['result']['rows']:,} rows, {file['size']:,} bytes", err=True)


def pages(
    api: Api, path: str, name: str, asked: dict[str, Any], limit: int
) -> tuple[list[dict[str, Any]], bool, dict[str, Any]]:
    """Up to `limit` rows, whether there are more, and the last page's other members."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        page = api.get(path, {**asked, "limit": wanted, "cursor": cursor})
        cursor = page_of(page, name, sent=cursor)
        found += page.body[name]
        if cursor is None or len(found) >= limit:
            rest = {each: page.body[each] for each in page.body if each != "next_cursor"}
            return found, cursor is not None, rest


def _tell_more(limit: int, *, more: bool) -> None:
    if more:
        click.echo(visible(f"there are more; --limit {limit * 2} shows them"), err=True)


for _command in (adopt, accounts, account, roles, role, rules, rule, control):
    ledger.add_command(_command)

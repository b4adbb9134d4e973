"""`chot methods`: how an item is costed, and the decision that it is costed otherwise."""

from datetime import datetime
from typing import Any

import click

from shared.cli import show
from shared.cli.http import Api
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table
from shared.json_text import to_json

METHODS = ("periodic_avg", "moving_avg", "fifo", "specific")


@click.group()
def methods() -> None:
    """Show how an item is costed, or decide it."""


@methods.command("show")
@click.argument("company")
@click.argument("item")
@calls_api
def show_(company: str, item: str, *, as_json: bool, retry_for: float) -> None:
    """Show how ITEM has been and will be costed: who decided it, when and why."""
    with Api(retry_for) as api:
        found = api.get("/v1/costing-methods", {"company": company, "item": item}).body
    if as_json:
        print_json(found)
        return
    rows = [_row(each) for each in found["decisions"]]
    rows.append(("at first", found["initial"], "", "", ""))
    columns = ("from", "method", "decided by", "at", "reason")
    show.console().print(table("", columns, rows))


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    why = each["reason"] or ""
    day = f"{each['valid_from']}{' (mid-year)' if each['mid_year'] else ''}"
    return (day, each["method"], each["decided_by"], show.clock(each["decided_at"]), why)


@methods.command("decide")
@click.argument("company")
@click.argument("item")
@click.argument("method", type=click.Choice(METHODS))
@click.option(
    "--from", "since", required=True, type=click.DateTime(["%Y-%m-%d"]), help="First day of it."
)
@click.option("--mid-year", is_flag=True, help="It is no first day of a fiscal year.")
@click.option("--reason", help="For the audit; a change within a year needs one.")
@calls_api
def decide(
    company: str,
    item: str,
    method: str,
    since: datetime,
    reason: str | None,
    *,
    mid_year: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """Cost ITEM by METHOD from a day on: the first of a fiscal year, or with a reason."""
    if mid_year and not reason:
        raise click.UsageError("--mid-year needs a --reason")
    body = {
        "company": company,
        "item": item,
        "method": method,
        "valid_from": since.date().isoformat(),
        "mid_year": mid_year,
        "reason": reason,
    }
    with Api(retry_for) as api:
        answer = api.put("/v1/costing-methods", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    day, before = answer["valid_from"], answer["former"]
    did = f"instead of {before}" if answer["changed"] else "as before"
    click.echo(visible(f"item {item} of {company} is costed by {method} from {day} on, {did}"))

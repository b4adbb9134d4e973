"""`chot ledger control`: whether the ledger values goods as costing does, and what explains it."""

from typing import Any

import click

from shared.cli import show
from shared.cli.chart import of_company
from shared.cli.exits import Exit
from shared.cli.http import Api
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table

SAYS = {"costs": "cost documents: chot submit posting.costs", "before": "left by earlier periods"}


@click.command()
@of_company
@click.option("--period", required=True, help="Such as 2026-01.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@calls_api
def control(*, company: str, period: str, limit: int, as_json: bool, retry_for: float) -> None:
    """Compare goods in the ledger with what costing says of them; exit code 1 where they differ."""
    asked = {"company": company, "period": period, "limit": limit}
    with Api(retry_for) as api:
        found = api.get("/v1/ledger/control", asked).body
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not found["agrees"]:
        click.get_current_context().exit(Exit.NO)


def _print(found: dict[str, Any]) -> None:
    rows = [row for each in found["differences"] for row in _rows(each)]
    if rows:
        columns = ("item", "pool", "value#", "ledger#", "difference#", "because of")
        show.console().print(table("", columns, rows, below=("because of",)))
    told = (
        f"{found['pools']:,} items in pools, {found['differing']:,} differ; "
        f"value {found['value']}, ledger {found['ledger']}; {found['drafts']:,} drafts"
    )
    click.echo(visible(told), err=True)
    if found["first_drafts"]:
        click.echo(visible("drafts: " + ", ".join(found["first_drafts"])), err=True)
    if not found["chart"]:
        click.echo("the company has no chart of accounts: chot ledger adopt", err=True)


def _rows(each: dict[str, Any]) -> list[tuple[str, ...]]:
    pool = "/".join(part for part in (each["brand"], each["pool"]) if part)
    first = (each["item"] or "", pool, each["value"], each["ledger"], each["difference"], "")
    return [first] + [
        ("", "", reason["expected"], reason["booked"], "", _reason(reason))
        for reason in each["reasons"]
    ]


def _reason(reason: dict[str, Any]) -> str:
    if reason["what"] != "document":
        return SAYS[reason["what"]]
    return f"{reason['type'] or 'not posted:'} {reason['doc_no']}"

"""`chot cost-runs` and `chot costs`: what costings found, its proof, what they could not cost."""

from typing import Any
from urllib.parse import quote

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, page_of
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table

PAGE_MAX = 200
STATUSES = ("building", "active", "superseded", "previewed", "failed")
limited = click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
priced = click.option(
    "--digits",
    type=click.IntRange(2, 6),
    default=2,
    show_default=True,
    help="Digits of unit prices.",
)


def _of_results(command: Any) -> Any:
    for option in (
        click.option("--store", help="Only pools that this store lies in."),
        click.option("--pool", help="Only this pool."),
        click.option("--item", help="Only this item."),
        priced,
        limited,
        calls_api,
    ):
        command = option(command)
    return command


@click.group("cost-runs")
def cost_runs() -> None:
    """What costings have found."""


@cost_runs.command("list")
@click.option("--company", required=True)
@click.option("--period", help="Only of this period, such as 2026-01.")
@click.option("--status", type=click.Choice(STATUSES))
@limited
@calls_api
def list_(limit: int, *, as_json: bool, retry_for: float, **filters: str | None) -> None:
    """List a company's cost runs, newest first."""
    with Api(retry_for) as api:
        runs, more, _ = _pages(api, "/v1/cost-runs", "runs", filters, limit)
    if as_json:
        print_json({"runs": runs, "more": more})
        return
    rows = [
        (
            run["id"],
            run["period"],
            run["brand"] or "all",
            run["status"],
            (run["items"] or {}).get("total"),
            (run["items"] or {}).get("failed"),
            run["movements"],
            show.clock(run["activated_at"] or run["created_at"]),
        )
        for run in runs
    ]
    columns = ("run#", "period", "brand", "status", "items#", "failed#", "movements#", "at")
    _print(columns, rows, "no cost runs", more, limit)


@cost_runs.command("show")
@click.argument("run_id", metavar="RUN")
@calls_api
def show_(run_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show one cost run with its proof."""
    with Api(retry_for) as api:
        run = api.get(run_path(run_id)).body
    if as_json:
        print_json(run)
        return
    proof = run["proof"]
    facts = [
        ("run", f"{run['id']} of {run['company']}/{run['brand'] or 'all'}, {run['period']}"),
        ("status", run["status"]),
        (
            "method",
            f"{run['method']}, pools: {run['pool_policy']}, residues: {run['residue_policy']}",
        ),
        ("items", _counted(run["items"])),
        *((name, value) for name, value in (proof["totals"] or {}).items()),
        *(
            (check["id"], f"{check['broken']} broken of {check['checked']}: {check['says']}")
            for check in proof["checks"]
        ),
        ("checksum", proof["checksum"]),
        ("snapshot", proof["snapshot"]),
        ("code", proof["code_version"]),
    ]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        if value is not None:
            show.console().print(Text(f"{name.ljust(width)}  ") + show.plain(value))


def _counted(items: dict[str, Any] | None) -> str | None:
    if items is None:
        return None
    told = {name: count for name, count in items.items() if count is not None}
    return ", ".join(f"{count} {name}" for name, count in told.items())


@cost_runs.command("results")
@click.argument("run_id", metavar="RUN")
@_of_results
def results(
    run_id: str,
    *,
    limit: int,
    as_json: bool,
    retry_for: float,
    **filters: str | int | None,
) -> None:
    """Show opening, in, out, closing and unit price of each item and pool of a run."""
    with Api(retry_for) as api:
        found = _pages(api, run_path(run_id, "results"), "results", filters, limit)
    _print_results(*found, limit=limit, as_json=as_json)


@click.command("costs")
@click.option("--company", required=True)
@click.option("--period", required=True)
@_of_results
def costs(limit: int, *, as_json: bool, retry_for: float, **filters: str | int | None) -> None:
    """Show what holds for a period now, whichever run found each item's result."""
    with Api(retry_for) as api:
        found = _pages(api, "/v1/costs", "results", filters, limit)
    _print_results(*found, limit=limit, as_json=as_json)
    items = found[2]["items"]
    # An api of an older version tells of no late ones.
    late = items.get("late", 0)
    if not as_json and (items["failed"] or items["stale"] or late):
        told = f"{items['failed']} of {items['total']} items could not be costed"
        told += f", {items['stale']} are stale, {late} have late movements"
        click.echo(told, err=True)


def _print_results(
    rows: list[dict[str, Any]],
    more: bool,  # noqa: FBT001 - as _pages answers it
    body: dict[str, Any],
    *,
    limit: int,
    as_json: bool,
) -> None:
    if as_json:
        shown = {name: body[name] for name in ("company", "period", "items") if name in body}
        print_json(shown | {"results": rows, "more": more})
        return
    lines = [
        (
            row["item"],
            row["brand"] or "all",
            row["pool"],
            *_amount(row["opening"]),
            *_amount(row["in"]["total"]),
            *_amount(row["out"]["total"]),
            *_amount(row["closing"]),
            (row["unit_price"] or {}).get("shown"),
            ", ".join(_marks(row)),
        )
        for row in rows
    ]
    flows = [
        f"{name}{side}#" for name in ("opening", "in", "out", "closing") for side in ("", " value")
    ]
    columns = ("item", "brand", "pool", *flows, "price#", "notes")
    _print(columns, lines, "no results", more, limit)


def _amount(flow: dict[str, Any]) -> tuple[str, str]:
    return flow["qty"], flow["value"]


def _marks(row: dict[str, Any]) -> list[str]:
    told = {
        "replaced by a later run": not row["speaks"],
        "stale": row["stale"],
        "negative within the period": row["negative_within_period"],
    }
    return [words for words, so in told.items() if so]


@cost_runs.command("errors")
@click.argument("run_id", metavar="RUN")
@click.option("--item", help="Only this item.")
@click.option("--code", help="Only this error, such as NEGATIVE_STOCK.")
@limited
@calls_api
def errors(
    run_id: str, *, limit: int, as_json: bool, retry_for: float, **filters: str | None
) -> None:
    """Show which items a run could not cost, and the documents that cause it."""
    with Api(retry_for) as api:
        found, more, _ = _pages(api, run_path(run_id, "errors"), "errors", filters, limit)
    if as_json:
        print_json({"errors": found, "more": more})
        return
    rows = [
        (
            each["item"],
            each["brand"],
            each["pool"],
            each["code"],
            each["detail"],
            ", ".join(f"{m['date']} {m['document']}/{m['line']}" for m in each["movements"]),
        )
        for each in found
    ]
    columns = ("item", "brand", "pool", "error", "meaning", "documents")
    _print(columns, rows, "no errors", more, limit, below=("meaning", "documents"))


@cost_runs.command("differences")
@click.argument("run_id", metavar="RUN")
@click.option("--item", help="Only this item.")
@click.option("--account", help="Only this account.")
@limited
@calls_api
def differences(
    run_id: str, *, limit: int, as_json: bool, retry_for: float, **filters: str | None
) -> None:
    """Show what a preview would change, by item and account, and each account's sum."""
    with Api(retry_for) as api:
        path = run_path(run_id, "differences")
        found, more, body = _pages(api, path, "differences", filters, limit)
    if as_json:
        print_json({"accounts": body["accounts"], "differences": found, "more": more})
        return
    sums = [{"item": "all", "brand": "", **each} for each in body["accounts"]]
    names = ("item", "brand", "account", "before", "after", "difference")
    rows = [tuple(each[name] for name in names) for each in found + sums]
    columns = ("item", "brand", "account", "before#", "after#", "difference#")
    _print(columns, rows, "no differences", more, limit)


def _pages(
    api: Api, path: str, name: str, filters: dict[str, Any], limit: int
) -> tuple[list[dict[str, Any]], bool, dict[str, Any]]:
    """Up to `limit` rows, whether there are more, and the last page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        page = api.get(path, {**filters, "limit": wanted, "cursor": cursor})
        cursor = page_of(page, name, sent=cursor)
        found += page.body[name]
        if cursor is None or len(found) >= limit:
            return found, cursor is not None, page.body


def _print(
    columns: tuple[str, ...],
    rows: list[tuple[Any, ...]],
    none: str,
    more: bool,  # noqa: FBT001 - as _pages answers it
    limit: int,
    *,
    below: tuple[str, ...] = ("notes",),
) -> None:
    if rows:
        show.console().print(table("", columns, rows, below=below))
    else:
        click.echo(none)
    if more:
        click.echo(visible(f"there are more; --limit {limit * 2} shows them"), err=True)


def run_path(run_id: str, *more: str) -> str:
    """Path of a run's route; whatever was typed as a number stays one path segment."""
    return "/".join(["/v1/cost-runs", quote(run_id, safe=""), *more])

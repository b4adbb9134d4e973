"""`chot limits` and `chot weights`: how many may run at once, and whose turn counts for more."""

from decimal import Decimal, InvalidOperation
from typing import Any

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api, queue_path, seen
from shared.cli.names import KindName, QueueName
from shared.cli.options import as_json as json_option
from shared.cli.options import calls_api, print_json
from shared.cli.tables import table
from shared.json_text import to_json


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def limits(context: click.Context, *, as_json: bool) -> None:
    """Show the running limits, and how much of each is in use; set or remove one."""
    if context.invoked_subcommand is not None:
        return
    with Api() as api:
        found = api.get("/v1/limits").body
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each["kind"] or "any",
            each["company"] or "any",
            each["brand"] or "any",
            "" if each["running"] is None else each["running"],
            each["max_running"],
        )
        for each in found["limits"]
    ]
    columns = ("kind", "company", "brand", "running#", "at most#")
    show.console().print(table("", columns, rows) if rows else "no running limits are set")


def _names(command: Any) -> Any:
    for option in (
        click.option("--brand", help="Only jobs of this brand of it."),
        click.option("--company", help="Only jobs of this company."),
        click.option("--kind", type=KindName(), help="Only jobs of this kind."),
    ):
        command = option(command)
    return command


@limits.command("set")
@click.argument("most", type=click.IntRange(min=1), metavar="N")
@_names
@calls_api
def set_(
    most: int,
    kind: str | None,
    company: str | None,
    brand: str | None,
    *,
    as_json: bool,
    retry_for: float,
) -> None:
    """Let at most N jobs of what is named run at once; what runs already goes on."""
    body = {"kind": kind, "company": company, "brand": brand, "max_running": most}
    with Api(retry_for) as api:
        answer = api.put("/v1/limits", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    click.echo(f"at most {most:,} of {_said(answer)} run at once from now on")


@limits.command("remove")
@_names
@calls_api
def remove(
    kind: str | None,
    company: str | None,
    brand: str | None,
    *,
    as_json: bool,
    retry_for: float,
) -> None:
    """Take the limit of exactly what is named away. May be repeated."""
    given = {"kind": kind, "company": company, "brand": brand}
    with Api(retry_for) as api:
        held = as_json or _is_set(api, given)
        answer = api.delete("/v1/limits", given).body
    if as_json:
        print_json(answer)
        return
    did = "no limit of just that holds any more" if held else "no limit of just that was set"
    click.echo(f"{_said(answer)}: {did}")


def _is_set(api: Api, which: dict[str, str | None]) -> bool:
    """Whether just that limit is set; of a key that may not look, it may be."""
    found = seen(api, "/v1/limits")
    if found is None:
        return True
    return any(all(each[name] == which[name] for name in which) for each in found["limits"])


def _said(which: dict[str, Any]) -> str:
    named = (f"{name} {which[name]}" for name in ("kind", "brand", "company") if which[name])
    return " of ".join(named)


@click.command()
@click.argument("queue", type=QueueName())
@click.argument("weights", nargs=-1, metavar="[COMPANY/BRAND=WEIGHT]…")
@click.option("--none", is_flag=True, help="Every brand has 1 again.")
@calls_api
def weights(
    queue: str, weights: tuple[str, ...], *, none: bool, as_json: bool, retry_for: float
) -> None:
    """Show the brands' weights in a queue, or set them: messages of each round, where not 1.

    The ones given are all there are then. COMPANY/=WEIGHT is of the jobs without a brand.
    """
    if weights and none:
        raise click.UsageError("give weights, or --none")
    with Api(retry_for) as api:
        if weights or none:
            body = {"weights": [_parsed(each) for each in weights]}
            found = api.put(queue_path(queue, "weights"), to_json(body)).body
        else:
            found = _queue(api.get("/v1/queues").body["queues"], queue)
    if as_json:
        print_json({"name": queue, "weights": found["weights"]})
        return
    rows = [
        (each["company"] or "any", each["brand"] or "none", str(each["weight"]))
        for each in found["weights"] or []
    ]
    shown = table("", ("company", "brand", "weight#"), rows) if rows else "every brand has 1"
    show.console().print(shown)


def _queue(listed: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for each in listed:
        if each["name"] == name:
            return each
    raise Failure(f"there is no queue {name}; `chot queues` shows them", code=Exit.NOT_FOUND)


def _parsed(said: str) -> dict[str, Any]:
    books, separated, weight = said.rpartition("=")
    company, slash, brand = books.partition("/")
    try:
        number = Decimal(weight)
    except InvalidOperation:
        number = Decimal("NaN")
    if not (separated and slash and company and number.is_finite()):
        raise click.BadParameter(f"{said!r} is not COMPANY/BRAND=WEIGHT", param_hint="WEIGHT")
    return {"company": company, "brand": brand or None, "weight": number}

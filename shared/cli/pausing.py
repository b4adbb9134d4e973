"""`chot pause`, `resume`, `kinds`, `freeze`, `thaw`, `freezes`: what an operator stops."""

from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, kind_path, queue_path
from shared.cli.names import KindName, QueueName
from shared.cli.options import calls_api, print_json
from shared.cli.tables import table
from shared.json_text import to_json

of_kind = click.option("--kind", type=KindName(), help="A kind, in place of a queue.")
of_brand = click.option("--brand", help="One brand of it; else the whole company.")


def _path(queue: str | None, kind: str | None, verb: str) -> tuple[str, str]:
    """What is meant, and its route; a UsageError for none or both."""
    if (queue is None) == (kind is None):
        raise click.UsageError("name a queue, or a kind with --kind")
    if kind is not None:
        return f"kind {kind}", kind_path(kind, verb)
    return f"queue {queue}", queue_path(str(queue), verb)


@click.command()
@click.argument("queue", type=QueueName(), required=False)
@of_kind
@calls_api
def pause(queue: str | None, kind: str | None, *, as_json: bool, retry_for: float) -> None:
    """Stop claims of a queue's jobs, or a kind's; those that run go on. May be repeated."""
    what, path = _path(queue, kind, "pause")
    with Api(retry_for) as api:
        answer = api.post(path).body
    if as_json:
        print_json(answer)
        return
    again = queue if kind is None else f"--kind {kind}"
    click.echo(f"{what} is paused{_running(answer)}; `chot resume {again}` lets its jobs go on")


@click.command()
@click.argument("queue", type=QueueName(), required=False)
@of_kind
@calls_api
def resume(queue: str | None, kind: str | None, *, as_json: bool, retry_for: float) -> None:
    """Let a queue's jobs, or a kind's, be claimed again. May be repeated."""
    what, path = _path(queue, kind, "resume")
    with Api(retry_for) as api:
        answer = api.post(path).body
    if as_json:
        print_json(answer)
        return
    click.echo(f"{what} is open; {_staged(answer)}")


def _running(answer: dict[str, Any]) -> str:
    """How many go on; an api that is older does not say."""
    running = answer.get("running") or 0
    return f" ({running:,} of its jobs go on running)" if running else ""


def _staged(answer: dict[str, Any]) -> str:
    staged = answer["staged"]
    said = "1 message was" if staged == 1 else f"{staged:,} messages were"
    return f"{said} staged for due jobs"


@click.command()
@calls_api
def kinds(*, as_json: bool, retry_for: float) -> None:
    """Show each kind: its queue, whether it is paused, how many of it may run and do."""
    with Api(retry_for) as api:
        found = api.get("/v1/kinds").body
    if as_json:
        print_json(found)
        return
    rows = [
        (
            kind["name"],
            kind["queue"],
            Text("paused", style="yellow") if kind["paused"] else "open",
            kind["running"],
            "" if kind["max_running"] is None else kind["max_running"],
        )
        for kind in found["kinds"]
    ]
    show.console().print(table("", ("kind", "queue", "state", "running#", "at most#"), rows))


@click.command()
@click.argument("company")
@of_brand
@click.option("--reason", help="For `chot why` and the audit.")
@calls_api
def freeze(
    company: str, brand: str | None, reason: str | None, *, as_json: bool, retry_for: float
) -> None:
    """Stop claims of jobs that write the books of a company, or of one brand.

    A frozen brand stops the company's jobs without a brand, too. Those that run go on.
    """
    with Api(retry_for) as api:
        body = {"company": company, "brand": brand, "reason": reason}
        answer = api.post("/v1/books/freeze", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    again = company if brand is None else f"{company} --brand {brand}"
    click.echo(
        f"the books of {_books(company, brand)} are frozen{_running(answer)}; "
        f"`chot thaw {again}` lets their jobs go on"
    )


@click.command()
@click.argument("company")
@of_brand
@calls_api
def thaw(company: str, brand: str | None, *, as_json: bool, retry_for: float) -> None:
    """Let jobs that write these very books be claimed again. May be repeated."""
    with Api(retry_for) as api:
        body = to_json({"company": company, "brand": brand})
        answer = api.post("/v1/books/thaw", body).body
    if as_json:
        print_json(answer)
        return
    click.echo(f"the books of {_books(company, brand)} are open; {_staged(answer)}")


def _books(company: str, brand: str | None) -> str:
    return f"company {company}" if brand is None else f"brand {brand} of company {company}"


@click.command()
@calls_api
def freezes(*, as_json: bool, retry_for: float) -> None:
    """Show whose books are frozen, since when, by whom and why."""
    with Api(retry_for) as api:
        found = api.get("/v1/freezes").body
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each["company"],
            each["brand"] or "all",
            show.clock(each["frozen_at"]),
            each["principal"],
            each["reason"] or "",
        )
        for each in found["freezes"]
    ]
    columns = ("company", "brand", "since", "by", "reason")
    shown = table("", columns, rows, below=("reason",)) if rows else "no books are frozen"
    show.console().print(shown)

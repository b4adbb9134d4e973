"""`chot pause`, `resume`, `kinds`, `freeze`, `thaw`, `freezes`: what an operator stops."""

from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, kind_path, queue_path, seen
from shared.cli.names import KindName, QueueName
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
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
    if not staged:
        return "no message had to be staged: jobs that have one waiting already go on by it"
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
            (kind.get("made_by") or "the platform") if kind.get("internal") else "",
        )
        for kind in found["kinds"]
    ]
    columns = ("kind", "queue", "state", "running#", "at most#", "made by")
    show.console().print(table("", columns, rows))


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
        before = None if as_json else _freezes_of(api, company)
        body = {"company": company, "brand": brand, "reason": reason}
        answer = api.post("/v1/books/freeze", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    again = _words(company, brand)
    lets = f"`chot thaw {again}` lets their jobs go on"
    first = next((each for each in before or () if each["brand"] == brand), None)
    frozen = f"are frozen{_running(answer)}" if first is None else _already(first)
    click.echo(visible(f"the books of {_books(company, brand)} {frozen}; {lets}"))


@click.command()
@click.argument("company")
@of_brand
@calls_api
def thaw(company: str, brand: str | None, *, as_json: bool, retry_for: float) -> None:
    """Let jobs that write these very books be claimed again. May be repeated."""
    with Api(retry_for) as api:
        before = None if as_json else _freezes_of(api, company)
        body = to_json({"company": company, "brand": brand})
        answer = api.post("/v1/books/thaw", body).body
        left = None if as_json else _freezes_of(api, company)
    if as_json:
        print_json(answer)
        return
    stays = [each for each in left or () if brand is None or each["brand"] in {None, brand}]
    if before is None or answer["staged"] or any(each["brand"] == brand for each in before):
        did = f"are {'thawed' if stays else 'open'}; {_staged(answer)}"
    else:
        did = "were not frozen"
    click.echo(visible("; ".join([f"the books of {_books(company, brand)} {did}", *_still(stays)])))


def _freezes_of(api: Api, company: str) -> list[dict[str, Any]] | None:
    """The freezes of a company's books; None for a key that may not look."""
    found = seen(api, "/v1/freezes")
    if found is None:
        return None
    return [each for each in found["freezes"] if each["company"] == company]


def _already(first: dict[str, Any]) -> str:
    """What a second freeze has left as it was."""
    reason = first["reason"]
    kept = "without a reason" if reason is None else f"and keep their first reason: {reason}"
    since = f"since {show.moment(first['frozen_at'])}, by {first['principal']}"
    return f"were frozen already ({since}) {kept}"


def _still(left: list[dict[str, Any]]) -> list[str]:
    """What else stops these books' jobs, and what lets them go on."""
    return [
        f"those of {_books(each['company'], each['brand'])} are still frozen"
        f" (`chot thaw {_words(each['company'], each['brand'])}`)"
        for each in left
    ]


def _words(company: str, brand: str | None) -> str:
    return company if brand is None else f"{company} --brand {brand}"


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

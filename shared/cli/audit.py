"""`chot audit` and `chot approve`: who did what, and the second pair of eyes."""

import json
from typing import Any

import click

from shared.cli import show
from shared.cli.http import Api, page_of
from shared.cli.names import ActionName
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table
from shared.cli.words import approval_advice

PAGE_MAX = 200


@click.command()
@click.option("--action", type=ActionName(), help="Only this act, e.g. job.cancel.")
@click.option("--principal", help="Only acts of this account.")
@click.option("--job", "job_id", metavar="ID", help="Only acts on this job.")
@click.option("--company", help="Only acts for this company.")
@click.option("--brand", help="Only acts for this brand.")
@click.option("--from", "since", metavar="TIME", help="From this instant on, with an offset.")
@click.option("--to", "until", metavar="TIME", help="Before this instant, with an offset.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@calls_api
def audit(
    *,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
    retry_for: float,
    **filters: str | None,
) -> None:
    """Show who did what, when and from where, newest first. Asks for a key with role admin."""
    with Api(retry_for) as api:
        acts, more = _pages(api, {**filters, "from": since, "to": until}, limit)
    if as_json:
        print_json({"acts": acts, "more": more})
        return
    show.console().print(_table(acts) if acts else "no acts")
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(
    api: Api, filters: dict[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    acts: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(acts), PAGE_MAX)
        page = api.get("/v1/audit", {**filters, "limit": wanted, "cursor": cursor})
        cursor = page_of(page, "acts", sent=cursor)
        acts += page.body["acts"]
        if cursor is None or len(acts) >= limit:
            return acts, cursor is not None


def _table(acts: list[dict[str, Any]]) -> Any:
    rows = [
        (
            show.clock(act["at"]),
            act["action"],
            _who(act),
            act["approver"],
            act["source"],
            act["target"] or act["job_id"],
            "/".join(filter(None, (act["company"], act["brand"]))),
            _facts(act),
        )
        for act in acts
    ]
    columns = ("at", "act", "who", "approved by", "from", "target", "for", "facts")
    return table("", columns, rows, below=("who", "approved by", "for", "facts"), spare=("from",))


def _who(act: dict[str, Any]) -> str:
    key = f" ({act['key_id']})" if act["key_id"] else ""
    return f"{act['principal']}{key}"


def _facts(act: dict[str, Any]) -> str:
    told = {name: value for name, value in act["facts"].items() if value is not None}
    if act["target"] and act["job_id"]:
        told["job"] = act["job_id"]
    return ", ".join(f"{name}={_plain(value)}" for name, value in told.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@click.command()
@click.argument("action", type=ActionName(approvable=True))
@click.argument("target")
@click.option("--reason", help="Why, for the audit.")
@calls_api
def approve(
    action: str, target: str, *, reason: str | None, as_json: bool, retry_for: float
) -> None:
    """Approve ACTION on TARGET, once, for whoever asks for it: never for this account itself.

    \b
    chot approve job.redrive 019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    if action == "posting.unpost":
        raise click.UsageError(f"{approval_advice(action, target)}: it names what it unposts")
    body: dict[str, str] = {"action": action, "target": target}
    if reason is not None:
        body["reason"] = reason
    with Api(retry_for) as api:
        given = api.post("/v1/approvals", json.dumps(body)).body
    if as_json:
        print_json(given)
        return
    click.echo(visible(given["id"]))
    until = show.moment(given["expires_at"])
    said = f"{action} of {target} is approved once, until {until}; pass the id to who asks for it"
    click.echo(visible(said), err=True)

"""`chot ledger` on a company's chart: adopt a template, accounts, roles, posting rules."""

import json
from pathlib import Path
from typing import Any

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api, page_of
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table
from shared.json_text import to_json

PAGE_MAX = 200
KINDS = ("asset", "liability", "equity", "revenue", "expense", "result")
FLAGS = ("postable", "needs_party", "needs_store", "needs_item", "is_stock")
of_company = click.option("--company", required=True, help="Whose books.")


@click.command()
@of_company
@click.option("--template", required=True, metavar="NAME", help="TT200 or TT99.")
@calls_api
def adopt(*, company: str, template: str, as_json: bool, retry_for: float) -> None:
    """Give the company the accounts of a template; what it has stays as it is."""
    with Api(retry_for) as api:
        body = to_json({"company": company, "template": template})
        answer = api.post("/v1/ledger/chart", body).body
    if as_json:
        print_json(answer)
        return
    click.echo(visible(f"{answer['added']} accounts of {template} are new to {company}"))


@click.command()
@of_company
@click.option("--below", help="Only accounts whose codes begin so.")
@calls_api
def accounts(*, company: str, below: str | None, as_json: bool, retry_for: float) -> None:
    """List the company's chart of accounts."""
    with Api(retry_for) as api:
        found = all_accounts(api, company, below)
    if as_json:
        print_json({"company": company, "accounts": found})
        return
    rows = [
        (each["code"], each["name_vi"] or each["name"], each["kind"], _flags(each))
        for each in found
    ]
    columns = ("account", "name", "kind", "what it asks for")
    none = f"no accounts of {company}: `chot ledger adopt` gives it some"
    show.console().print(
        table("", columns, rows, below=("name", "what it asks for")) if rows else none
    )


def all_accounts(api: Api, company: str, below: str | None = None) -> list[dict[str, Any]]:
    """Every account, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        asked = {"company": company, "below": below, "limit": PAGE_MAX, "cursor": cursor}
        page = api.get("/v1/ledger/accounts", asked)
        cursor = page_of(page, "accounts", sent=cursor)
        found += page.body["accounts"]
        if cursor is None:
            return found


def _flags(account: dict[str, Any]) -> str:
    told = [name.replace("needs_", "") for name in FLAGS[1:] if account[name]]
    if not account["postable"]:
        told.append("takes no entries")
    days = [account[name] for name in ("active_from", "active_to")]
    if any(days):
        told.append(f"{days[0] or ''}…{days[1] or ''}")
    return ", ".join(told)


@click.command()
@click.argument("code")
@of_company
@click.option("--name", required=True)
@click.option("--name-vi", help="Its Vietnamese name.")
@click.option("--kind", required=True, type=click.Choice(KINDS), help="It never changes.")
@click.option("--parent", is_flag=True, help="It takes no entries; accounts below it do.")
@click.option("--needs", multiple=True, type=click.Choice(["party", "store", "item"]))
@click.option("--stock", is_flag=True, help="Its balance is the goods' value; needs item, store.")
@calls_api
def account(
    code: str,
    *,
    company: str,
    name: str,
    name_vi: str | None,
    kind: str,
    parent: bool,
    needs: tuple[str, ...],
    stock: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """Add account CODE, or make it what is said, whole."""
    body = {
        "company": company,
        "code": code,
        "name": name,
        "name_vi": name_vi,
        "kind": kind,
        "postable": not parent,
        **{f"needs_{each}": each in needs for each in ("party", "store", "item")},
        "is_stock": stock,
    }
    with Api(retry_for) as api:
        answer = api.put("/v1/ledger/accounts", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    click.echo(visible(f"account {code} of {company}: {answer['outcome']}"))


@click.command()
@of_company
@calls_api
def roles(*, company: str, as_json: bool, retry_for: float) -> None:
    """Show which account plays which role in posting rules and cost entries."""
    with Api(retry_for) as api:
        found = api.get("/v1/ledger/roles", {"company": company}).body
    if as_json:
        print_json(found)
        return
    rows = [
        (each["role"], each["account"], each["name"] or "not in the chart", _own(each))
        for each in found["roles"]
    ]
    show.console().print(table("", ("role", "account", "name", ""), rows, below=("name",)))


def _own(role: dict[str, Any]) -> str:
    return f"instead of {role['initial']}" if role["own"] else ""


@click.command()
@click.argument("role")
@click.argument("code")
@of_company
@calls_api
def role(role: str, code: str, *, company: str, as_json: bool, retry_for: float) -> None:
    """Let account CODE play ROLE from now on; what is posted stays where it is."""
    body = to_json({"company": company, "role": role, "account": code})
    with Api(retry_for) as api:
        answer = api.put("/v1/ledger/roles", body).body
    if as_json:
        print_json(answer)
        return
    did = f"instead of {answer['former']}" if answer["changed"] else "as before"
    click.echo(visible(f"{role} of {company} is {code}, {did}"))


@click.command()
@of_company
@click.option("--type", "doc_type", help="Only rules for documents of this type.")
@calls_api
def rules(*, company: str, doc_type: str | None, as_json: bool, retry_for: float) -> None:
    """Show the posting rules: which lines a document of a type yields, by version."""
    with Api(retry_for) as api:
        found = api.get("/v1/ledger/rules", {"company": company, "type": doc_type}).body
    if as_json:
        print_json(found)
        return
    rows = [
        (each["type"], whose(each), each["valid_from"], each["series"], _lines(each["lines"]))
        for each in found["rules"]
    ]
    columns = ("type", "version", "from", "series", "lines")
    show.console().print(table("", columns, rows, below=("lines",)))


def whose(rule: dict[str, Any]) -> str:
    """Its version, and whether all companies share it."""
    return f"{rule['version']}{' (shared)' if rule['shared'] else ''}"


def _lines(lines: list[dict[str, Any]]) -> str:
    told = []
    for line in lines:
        own = " or own account" if line["own_account"] and line["role"] else ""
        where = f"{line['role'] or 'as the document says'}{own}"
        side = f"{line['side']} " if line["side"] else ""
        told.append(f"{side}{where}: {line['amount']} per {line['per']}")
    return "; ".join(told)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@calls_api
def rule(file: Path, *, as_json: bool, retry_for: float) -> None:
    """Add the next version of a posting rule, as FILE (JSON) has it.

    It is the body of POST /v1/ledger/rules: company, type, valid_from, lines.
    """
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"{file}: {error}", code=Exit.USAGE) from None
    with Api(retry_for) as api:
        answer = api.post("/v1/ledger/rules", to_json(body)).body
    if as_json:
        print_json(answer)
        return
    said = f"version {answer['version']} of {answer['type']} holds from {answer['valid_from']} on"
    click.echo(visible(said))

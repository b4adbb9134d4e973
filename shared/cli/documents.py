"""`chot documents`: put a file of documents, list them, show one, void a draft."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from typing import Any, BinaryIO

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api, page_of
from shared.cli.job_lines import BOM, LONGEST_LINE, Slip, checked, read_jobs
from shared.cli.options import calls_api, print_json
from shared.cli.periods import of_company
from shared.cli.plain import visible
from shared.cli.tables import table
from shared.client.wanted import document_bodies, fresh_key
from shared.exact_json import load_exact
from shared.json_text import to_json

PAGE_MAX = 200
MOST_SHOWN = 50
COLOURS = {"draft": "yellow", "posted": "green", "void": "dim"}
TYPES = (
    "sale",
    "sale_return",
    "purchase",
    "purchase_return",
    "transfer",
    "cash_in",
    "cash_out",
    "manual",
    "opening",
    "cost",
)
# Where a document stands in its request; a person has its place in the file.
IN_BATCH = re.compile(r"^documents\[\d+\]\.?")
DAY = click.DateTime(["%Y-%m-%d"])


@click.group()
def documents() -> None:
    """Put, list, show and void documents: what is posted to the ledger."""


@documents.command("put")
@click.argument("file", type=click.File("rb"))
@of_company
@click.option("--all", "everything", is_flag=True, help="Show every document, not only the first.")
@calls_api
@click.pass_context
def put(
    context: click.Context,
    file: BinaryIO,
    *,
    company: str,
    everything: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """Put the documents of FILE (- is stdin): a JSON list, or one JSON object a line.

    New ones are made, drafts that say something else are replaced, posted ones are never touched;
    the same command again changes nothing. Exit code 4: those that it shows were refused, with
    every rule that they break; all others are there.
    """
    found = list(_documents(file))
    outcomes: list[dict[str, Any]] = []
    with Api(retry_for) as api:
        for body in document_bodies(company, (said for _, said in found)):
            answer = api.post("/v1/documents:batch", body, {"Idempotency-Key": fresh_key()})
            outcomes += answer.body["documents"]
    if len(outcomes) != len(found):
        said = f"the api's answers have not one outcome for each of {len(found):,} documents"
        raise Failure(said, code=Exit.UNAVAILABLE)
    told = [{"number": number} | each for (number, _), each in zip(found, outcomes, strict=True)]
    counts = Counter(each["outcome"] for each in told)
    if as_json:
        print_json({"outcomes": counts, "documents": told})
    else:
        _show_outcomes(told, counts, most=None if everything else MOST_SHOWN)
    context.exit(Exit.REFUSED if counts["error"] else Exit.OK)


def _documents(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Each as it was written, with its place in a list or the number of its line."""
    whole = file.read().removeprefix(BOM)
    if not whole.lstrip().startswith(b"["):
        yield from read_jobs(BytesIO(whole))
        return
    try:
        listed = load_exact(whole)
    except ValueError as error:
        said = f"the file is no JSON: {error}; nothing was put"
        raise Failure(visible(said), code=Exit.USAGE) from None
    for number, each in enumerate(listed, 1):
        try:
            text = to_json(each).encode()
            yield number, checked(text) if len(text) <= LONGEST_LINE else _too_long(text)
        except Slip as slip:
            said = f"document {number}: {slip}; nothing was put"
            raise Failure(visible(said), code=Exit.USAGE) from None


def _too_long(text: bytes) -> str:
    raise Slip(f"has {len(text):,} bytes; {LONGEST_LINE:,} are allowed")


def _show_outcomes(told: list[dict[str, Any]], counts: Counter[str], *, most: int | None) -> None:
    """Refused ones first: they are what somebody has to see to."""
    ordered = sorted(told, key=lambda each: (each["outcome"] != "error", each["number"]))
    rows = [
        (
            each["number"],
            each["outcome"],
            each.get("id") or "",
            each.get("status") or "",
            _why(each),
        )
        for each in ordered[:most]
    ]
    if rows:
        columns = ("document#", "outcome", "id", "status", "why")
        show.console().print(table("", columns, rows, below=("why",)))
    if most is not None and len(told) > most:
        click.echo(f"{len(told) - most:,} more; --all shows them", err=True)
    names = ("created", "updated", "unchanged", "error")
    said = ", ".join(f"{counts[name]:,} {name}" for name in names if counts[name])
    click.echo(said or "no documents", err=True)


def _why(each: dict[str, Any]) -> str:
    faults = each.get("faults") or []
    told = [
        f"{IN_BATCH.sub('', fault['field']) or 'the document'}: {fault['rule']}"
        + (f" ({fault['value']})" if fault["value"] is not None else "")
        for fault in faults
    ]
    more = each.get("faults_total", 0) - len(faults)
    return "\n".join([*told, *([f"and {more:,} more"] if more > 0 else [])])


@documents.command("list")
@of_company
@click.option("--type", "kind", type=click.Choice(TYPES))
@click.option("--status", type=click.Choice(tuple(COLOURS)))
@click.option("--store", help="From or to it.")
@click.option("--party")
@click.option("--number", "doc_no", help="The document's number.")
@click.option("--from", "since", type=DAY, help="First posting date.")
@click.option("--to", "until", type=DAY, help="Last posting date.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@calls_api
def list_(
    *,
    company: str,
    kind: str | None,
    status: str | None,
    store: str | None,
    party: str | None,
    doc_no: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
    retry_for: float,
) -> None:
    """List documents, the latest posting date first."""
    asked = {
        "company": company,
        "type": kind,
        "status": status,
        "store": store,
        "party": party,
        "doc_no": doc_no,
        "date_from": None if since is None else since.date().isoformat(),
        "date_to": None if until is None else until.date().isoformat(),
    }
    with Api(retry_for) as api:
        found, more = _pages(api, asked, limit)
    if as_json:
        print_json({"documents": found, "more": more})
        return
    columns = ("id#", "date", "type", "number", "store", "party", "total#", "status")
    rows = [_row(each) for each in found]
    show.console().print(table("", columns, rows) if rows else "no such documents")
    if more:
        click.echo(f"there are more; --limit {limit * 2} shows them", err=True)


def _pages(api: Api, asked: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        wanted = min(limit - len(found), PAGE_MAX)
        page = api.get("/v1/documents", asked | {"limit": wanted, "cursor": cursor})
        cursor = page_of(page, "documents", sent=cursor)
        found += page.body["documents"]
        if cursor is None or len(found) >= limit:
            return found, cursor is not None


def _row(each: dict[str, Any]) -> tuple[Any, ...]:
    store = each["store"] or ""
    if each["to_store"]:
        store = f"{store} → {each['to_store']}"
    total = each["total"] or ""
    if each["fc_total"]:
        total = f"{each['fc_total']} {each['currency']}"
    status = show.plain(each["status"], COLOURS.get(each["status"], ""))
    head = (each["id"], each["posting_date"], each["type"], each["doc_no"])
    return (*head, store, each["party"] or "", total, status)


@documents.command("show")
@click.argument("document_id", metavar="ID", type=click.IntRange(min=1))
@calls_api
def show_(document_id: int, *, as_json: bool, retry_for: float) -> None:
    """Show document ID, its lines, and the entries that its versions have in the ledger."""
    with Api(retry_for) as api:
        found = api.get(f"/v1/documents/{document_id}").body
    if as_json:
        print_json(found)
        return
    _print(found)
    columns = ("line#", "item", "qty#", "unit", "net#", "vat#", "side", "account", "memo")
    rows = [
        (
            each["line_no"],
            *(each[name] or "" for name in ("item", "qty", "uom")),
            each["net"] or each["fc_net"] or "",
            each["vat"] or each["fc_vat"] or "",
            *(each[name] or "" for name in ("side", "account", "memo")),
        )
        for each in found["lines"]
    ]
    if rows:
        show.console().print(table("", columns, rows))
    if found["next_line"] is not None:
        click.echo(f"there are more lines behind line {found['next_line']}", err=True)
    for entry in found["entries"]:
        number = f"{entry['series']} {entry['fiscal_year']}/{entry['entry_no']}"
        said = f"version {entry['document_version']}: {entry['kind']} entry {number}"
        click.echo(visible(f"{said} of {entry['posting_date']}, {entry['amount']}"))


def _print(found: dict[str, Any]) -> None:
    where = f" of {found['store']}" if found["store"] else ""
    total = f", {found['total']}" if found["total"] else ""
    said = f"{found['type']} {found['doc_no']}{where}, {found['posting_date']}{total}"
    refers = found["refers_to"]
    about = f", about {refers['type']} {refers['doc_no']}" if refers else ""
    state = f"version {found['version']} is {found['status']}"
    click.echo(visible(f"document {found['id']}: {said}{about}; {state}"))


@documents.command("void")
@click.argument("document_id", metavar="ID", type=click.IntRange(min=1))
@click.option("--reason", help="For the audit.")
@calls_api
def void(document_id: int, *, reason: str | None, as_json: bool, retry_for: float) -> None:
    """Void draft ID: it stays to be seen, and its number is never given again."""
    body = to_json({} if reason is None else {"reason": reason})
    with Api(retry_for) as api:
        found = api.post(f"/v1/documents/{document_id}/void", body).body
    if as_json:
        print_json(found)
        return
    _print(found)

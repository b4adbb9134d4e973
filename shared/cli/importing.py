"""`chot import`: a file of this machine into the books, and what became of each of its lines."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from shared.cli.exits import Exit, Failure
from shared.cli.http import Api
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.wait import follow, report
from shared.cli.words import in_commands
from shared.client.wanted import fresh_key, key_header

KINDS = ("movements", "documents", "items", "openings")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SHOWN_REJECTS = 10
KIND = "migration.run"


@click.command("import")
@click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--as", "kind", type=click.Choice(KINDS), required=True, help="What its lines are.")
@click.option("--company", required=True, help="The legal entity whose books it goes into.")
@click.option("--brand", help="Only stores of this brand; the import is of it.")
@click.option("--dry-run", is_flag=True, help="Say what would become of each line; write nothing.")
@click.option(
    "--decimal", type=click.Choice([".", ","]), help="What stands before decimals, if unclear."
)
@click.option("--date-order", type=click.Choice(["dmy", "mdy"]), help="Of 31/01/2026: dmy.")
@click.option(
    "--delimiter", type=click.Choice(list(DELIMITERS)), help="Of a CSV; else it is found."
)
@click.option(
    "--encoding",
    type=click.Choice(["utf-8", "utf-16", "windows-1258", "windows-1252"]),
    help="Of a CSV without byte order mark; utf-8.",
)
@click.option("--sheet", help="Of an XLSX; else the first one.")
@click.option("--head-line", type=click.IntRange(1, 1000), help="Where the heads are; else first.")
@click.option("--ignore-others", is_flag=True, help="Leave columns out that are not known.")
@click.option("--max-rejects", type=click.IntRange(0), help="Stop beyond so many refused lines.")
@click.option(
    "--max-reject-percent",
    type=click.IntRange(0, 100),
    help="... or so many of all; 5, of a dry run 100.",
)
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the refused lines into a CSV file.",
)
@click.option("--wait/--no-wait", "waits", default=True, help="Wait for its end; the default.")
@calls_api
@click.pass_context
def import_(
    context: click.Context,
    /,
    *,
    path: Path,
    kind: str,
    company: str,
    brand: str | None,
    dry_run: bool,
    ignore_others: bool,
    max_rejects: int | None,
    max_reject_percent: int | None,
    rejects: Path | None,
    waits: bool,
    as_json: bool,
    retry_for: float,
    **written: Any,
) -> None:
    """Import FILE (.csv, .csv.gz or .xlsx) into the company's books; a second time changes nothing.

    Ends with 0 when every line is in the books, with 1 when some were refused.

    \b
    chot import movements.xlsx --as movements --company SAMPLE --dry-run
    chot import documents.csv --as documents --company SAMPLE --rejects refused.csv
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    params = _params(written, ignore_others=ignore_others)
    if dry_run and max_reject_percent is None:
        max_reject_percent = 100  # whoever tries a file wants to hear of all its lines
    limits = {"max_rejects": max_rejects, "max_reject_percent": max_reject_percent}
    with Api(retry_for) as api:
        file = _send(api, path, company, brand, quiet=as_json)
        payload = {
            "task": f"import.{kind}",
            "params": {"file": file["id"], **params},
            "dry_run": dry_run,
        } | {name: value for name, value in limits.items() if value is not None}
        body = {"kind": KIND, "company": company, "brand": brand, "payload": payload}
        key = {"Idempotency-Key": key_header(fresh_key())}
        job_id = api.post("/v1/jobs", json.dumps(body), key).body["id"]
        if not waits:
            _say(job_id, as_json=as_json)
            return
        with screen(quiet=as_json) as shown:
            job = follow(api, job_id, shown)
        if rejects is not None:
            _save_rejects(api, job_id, rejects)
        if _too_many(job) and not as_json:
            context.exit(_told_too_many(api, job))
    context.exit(_told(job, as_json=as_json))


def _params(written: Mapping[str, Any], *, ignore_others: bool) -> dict[str, Any]:
    params = {name: value for name, value in written.items() if value is not None}
    if "delimiter" in params:
        params["delimiter"] = DELIMITERS[params["delimiter"]]
    if ignore_others:
        params["other_columns"] = "ignore"
    return params


def _send(api: Api, path: Path, company: str, brand: str | None, *, quiet: bool) -> dict[str, Any]:
    """The file at the api, byte for byte what it is here; one that is there already is not new."""
    try:
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            size = path.stat().st_size
            if not quiet:
                click.echo(f"sending {visible(path.name)}, {size:,} bytes", err=True)
            query = {"company": company, "brand": brand, "name": path.name, "sha256": digest}
            return api.upload("/v1/files", query, source, size).body
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", code=Exit.NO) from None


def _say(job_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": job_id})
        return
    click.echo(visible(job_id))
    click.echo(f"job {job_id}: accepted; `chot wait {job_id}` follows it", err=True)


def _save_rejects(api: Api, job_id: str, target: Path) -> None:
    try:
        with target.open("wb") as file:
            api.download(f"/v1/migrations/{job_id}/rejects?format=csv", file)
    except OSError as error:
        raise Failure(f"{target}: {error.strerror or error}", code=Exit.NO) from None


def _told(job: dict[str, Any], *, as_json: bool) -> Exit:
    """What became of the lines; the exit code says whether all of them are in the books."""
    result = job.get("result")
    if job["state"] != "succeeded" or not isinstance(result, dict):
        return report(job, as_json=as_json)
    refused = int(result.get("rows_failed") or 0)
    if as_json:
        print_json(job)
    else:
        counts = ", ".join(f"{rows:,} {name}" for name, rows in dict(result["counts"]).items())
        tried = "a dry run: " if result.get("dry_run") else ""
        nothing = "nothing taken" if refused else "nothing to do"
        click.echo(visible(f"{tried}{counts or nothing}, {refused:,} refused"))
        _name(job, list(result.get("first_rejects") or []))
    return Exit.NO if refused else Exit.OK


def _too_many(job: Mapping[str, Any]) -> bool:
    return job["state"] == "dead" and (job.get("error") or {}).get("code") == "TOO_MANY_REJECTS"


def _told_too_many(api: Api, job: Mapping[str, Any]) -> Exit:
    """The lines that stopped it: nobody should have to ask for them."""
    path = f"/v1/migrations/{job['id']}/rejects"
    found = api.get(path, {"limit": SHOWN_REJECTS}).body["rejects"]
    click.echo(visible(in_commands(str(job["error"].get("message")))))
    _name(job, found)
    return Exit.NO


def _name(job: Mapping[str, Any], rejects: Sequence[Mapping[str, Any]]) -> None:
    for reject in rejects[:SHOWN_REJECTS]:
        click.echo(visible(_sentence(reject)), err=True)
    if rejects:
        click.echo(f"job {job['id']}: all of them with --rejects FILE", err=True)


def _sentence(reject: Mapping[str, Any]) -> str:
    field = "" if reject.get("field") is None else f", {reject['field']}"
    value = "" if reject.get("value") is None else f" '{reject['value']}'"
    return f"line {reject.get('line')}{field}{value}: {reject.get('rule')}"

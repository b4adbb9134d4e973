"""`chot export`: a table of a cost run as a file on this machine, whole or not at all."""

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import click

from shared.cli.cost_runs import run_path
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.wait import follow, report

TABLES = ("results", "stores", "movements", "errors", "differences")


@click.command("export")
@click.argument("run_id", metavar="RUN")
@click.option("--table", type=click.Choice(TABLES), default="results", show_default=True)
@click.option(
    "--format", "form", type=click.Choice(["csv", "xlsx"]), help="Else by the file's name."
)
@click.option(
    "--to",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Else as named by the api.",
)
@click.option("--brand", help="Rows of this brand only.")
@click.option(
    "--digits",
    type=click.IntRange(2, 6),
    default=2,
    show_default=True,
    help="Digits of unit prices.",
)
@click.option("--bom", is_flag=True, help="CSV for Excel: begin with a byte order mark.")
@calls_api
@click.pass_context
def export(
    context: click.Context,
    run_id: str,
    *,
    table: str,
    form: str | None,
    target: Path | None,
    brand: str | None,
    digits: int,
    bom: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """Write a table of cost run RUN into a file here, once a worker has made it.

    \b
    chot export 42 --to january.xlsx
    chot export 42 --table movements --format csv --bom
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    chosen = form or form_of(target)
    body: dict[str, Any] = {"table": table, "format": chosen, "digits": digits, "bom": bom}
    if brand is not None:
        body["brand"] = brand
    with Api(retry_for) as api:
        key = {"Idempotency-Key": f"export-{uuid.uuid4()}"}
        answer = api.post(run_path(run_id, "exports"), json.dumps(body), key)
        with screen(quiet=as_json) as shown:
            job = follow(api, answer.body["id"], shown)
        if job["state"] != "succeeded":
            context.exit(report(job, as_json=as_json))
        file = job["result"]["file"]
        path = target or Path(file["name"])
        fetch_file(api, file, path)
    if as_json:
        print_json(job["result"] | {"path": str(path)})
        return
    click.echo(visible(path))
    click.echo(f"{job['result']['rows']:,} rows, {file['size']:,} bytes", err=True)


def form_of(target: Path | None) -> str:
    """The format that the file's name tells; UsageError for any other name, and for none."""
    form = "" if target is None else target.suffix.removeprefix(".").lower()
    if form in {"csv", "xlsx"}:
        return form
    raise click.UsageError("give --format csv or xlsx, or a FILE that ends so")


def fetch_file(api: Api, file: dict[str, Any], path: Path) -> None:
    """The file under its name only once every byte of it is here, and is what was written."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as target:
            api.download(str(file["url"]), target)
        with part.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        if digest != file["sha256"]:
            said = f"what arrived of {file['name']} is not what was written: ask again"
            raise Failure(said, code=Exit.UNAVAILABLE)
        part.replace(path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", code=Exit.NO) from None
    finally:
        part.unlink(missing_ok=True)

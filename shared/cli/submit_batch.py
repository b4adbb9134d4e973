"""`chot submit-batch`: a file of jobs, each submitted once, however often it is asked for."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Answer, Api
from shared.cli.options import calls_api, print_json
from shared.cli.tables import table
from shared.client.wanted import batch_bodies

MOST_SHOWN = 50
NOTHING = "nothing was submitted"
KEY_LETTERS = 48
# Where an item stands in its request; a person has the number of the line.
IN_BATCH = re.compile(r"^jobs(\[\d+\]|\.\d+)\.?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What became of one line of the file; `number` counts from 1.

    `replayed`: an earlier request of the same lines has decided it, asked in `tries`.
    """

    number: int
    outcome: str
    body: dict[str, Any]
    replayed: bool
    tries: int

    @property
    def counted(self) -> str:
        """Under which name of OUTCOMES it is counted."""
        if self.outcome != "created" or not self.replayed:
            return self.outcome
        return "earlier" if self.tries == 1 else "retried"


@click.command("submit-batch")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option(
    "--again",
    metavar="WORD",
    default="",
    help="Submit the same lines anew: they go out under other keys, made of this word.",
)
@click.option(
    "--refused-to",
    type=click.File("w", encoding="utf-8"),
    metavar="FILE",
    help="Write the refused lines there, to be corrected and submitted as a file of their own.",
)
@click.option("--all", "everything", is_flag=True, help="Show every line, not only the first 50.")
@calls_api
@click.pass_context
def submit_batch(
    context: click.Context,
    file: TextIO,
    *,
    again: str,
    refused_to: TextIO | None,
    everything: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """Submit the jobs of FILE (- is stdin), one JSON object a line.

    Each line is the body of a submit: {"kind": …, "company": …, "payload": {…}}. A thousand at a
    time are one request, whose Idempotency-Key is made of its content: the same command again
    finds what the first one did, and submits only what is missing. A corrected file is another
    one: all of it is submitted anew. Exit code 4: the lines that it shows were refused, all
    others were submitted.
    """
    jobs = list(_read(file))
    with Api(retry_for) as api:
        bodies = batch_bodies(text for _, text in jobs)
        answers = [_send(api, body, again) for body in bodies]
    lines = list(_lines([number for number, _ in jobs], answers))
    if refused_to is not None:
        refused = {each.number for each in lines if each.outcome == "error"}
        refused_to.writelines(f"{text}\n" for number, text in jobs if number in refused)
    if as_json:
        _print(lines)
    else:
        _show(lines, most=None if everything else MOST_SHOWN)
    refusals = any(each.outcome == "error" for each in lines)
    context.exit(Exit.REFUSED if refusals else Exit.OK)


def _read(file: TextIO) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers, each sent as it was written.

    Nothing is sent before all have been read: a file with a slip in it changes nothing.
    """
    for number, line in enumerate(file, 1):
        text = line.strip()
        if not text:
            continue
        try:
            parsed = json.loads(text, parse_constant=_refuse_constant)
        except ValueError as error:
            raise click.UsageError(f"line {number} is not JSON: {error}; {NOTHING}") from None
        if not isinstance(parsed, dict):
            raise click.UsageError(f"line {number} must be a JSON object: {{…}}; {NOTHING}")
        yield number, text


def _lines(numbers: list[int], answers: list[Answer]) -> Iterator[Line]:
    items = ((item, each) for each in answers for item in each.body["jobs"])
    for number, (item, answer) in zip(numbers, items, strict=True):
        yield Line(
            number=number,
            outcome=item["outcome"],
            body=item.get("job") or item["error"],
            replayed=answer.replayed,
            tries=answer.tries,
        )


def _refuse_constant(said: str) -> NoReturn:
    raise ValueError(f"{said} is no number of JSON")


def _send(api: Api, body: str, again: str) -> Answer:
    digest = hashlib.sha256(f"{again}\n{body}".encode()).hexdigest()[:KEY_LETTERS]
    try:
        return api.post("/v1/jobs:batch", body, {"Idempotency-Key": f"batch-{digest}"})
    except Failure as failure:
        if failure.code != Exit.UNAVAILABLE:
            raise
        raise Failure(
            f"{failure.message}\nWhether the last thousand was accepted is not known. The same "
            "command again submits what is missing, and nothing twice.",
            code=failure.code,
            problem=failure.problem,
        ) from None


def _print(lines: list[Line]) -> None:
    told = [
        {"line": each.number, "outcome": each.outcome, "replayed": each.replayed, **each.body}
        for each in lines
    ]
    print_json({"outcomes": Counter(each.outcome for each in lines), "jobs": told})


def _show(lines: list[Line], *, most: int | None) -> None:
    """Refused lines first: they are what somebody has to see to."""
    ordered = sorted(lines, key=lambda each: (each.outcome != "error", each.number))
    rows = [_row(each) for each in ordered[:most]]
    console = show.console()
    if rows:
        console.print(table("", ("line#", "outcome", "job", "state", "why"), rows, below=("why",)))
    if most is not None and len(lines) > most:
        click.echo(f"{len(lines) - most:,} more lines; --all shows them", err=True)
    click.echo(_counted(Counter(each.counted for each in lines)), err=True)


# How a line is counted → how one of it is said, and how many.
OUTCOMES = {
    "created": ("created", "created"),
    "earlier": ("created by an earlier run of these lines",) * 2,
    "retried": ("created by an earlier request of these lines",) * 2,
    "duplicate": ("duplicate of active work", "duplicates of active work"),
    "error": ("refused", "refused"),
}


def _counted(counts: Counter[str]) -> str:
    """How many of each; what was created now is told apart, be it nothing, from what was before."""
    told = [
        f"{counts[name]:,} {one if counts[name] == 1 else many}"
        for name, (one, many) in OUTCOMES.items()
        if counts[name]
    ]
    if counts["earlier"] or counts["retried"]:
        told = [f"{counts['created']:,} created now", *told[bool(counts["created"]) :]]
    return ", ".join(told) or "no jobs in this file"


def _row(line: Line) -> tuple[Any, ...]:
    if line.outcome == "error":
        fields = [
            f"{IN_BATCH.sub('', each['field'])}: {each['rule']}"
            for each in line.body.get("errors") or ()
        ]
        why = "; ".join(fields) or IN_BATCH.sub("", str(line.body.get("detail") or ""))
        return (line.number, "refused", "", "", why)
    said = line.body.get("duplicate") or line.outcome
    return (line.number, said, line.body["id"], show.state(line.body["state"]), "")

"""`chot submit-batch`: a file of jobs, each submitted once, however often it is asked for."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TextIO

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Answer, Api
from shared.cli.job_lines import read_jobs
from shared.cli.options import calls_api, print_json
from shared.cli.tables import table
from shared.client.wanted import batch_bodies

MOST_SHOWN = 50
LOST = (
    "Whether the last thousand was accepted is not known. The same command again submits what is "
    "missing, and nothing twice."
)
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
@click.argument("file", type=click.File("rb"))
@click.option(
    "--again",
    metavar="WORD",
    default="",
    help="Submit the same lines anew: they go out under other keys, made of this word.",
)
@click.option(
    "--refused-to",
    # Opened before anything is sent, and emptied only when there is something to say.
    type=click.File("a", encoding="utf-8", lazy=False),
    metavar="FILE",
    help="Write the refused lines there, to be corrected and submitted as a file of their own.",
)
@click.option("--all", "everything", is_flag=True, help="Show every line, not only the first 50.")
@calls_api
@click.pass_context
def submit_batch(
    context: click.Context,
    file: BinaryIO,
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
    others were submitted. Exit code 2: lines are no JSON objects, and nothing was submitted.
    """
    jobs = read_jobs(file)
    lines: list[Line] = []
    try:
        with Api(retry_for) as api:
            for each in _submitted(api, jobs, again):
                lines += each
    except Failure as failure:
        if lines:
            _write_refused(refused_to, jobs, lines)
            raise _after(failure, lines, everything=everything) from None
        raise
    _write_refused(refused_to, jobs, lines)
    if as_json:
        print_json(_document(lines))
    else:
        _show(lines, most=None if everything else MOST_SHOWN)
    refusals = any(each.outcome == "error" for each in lines)
    context.exit(Exit.REFUSED if refusals else Exit.OK)


def _submitted(api: Api, jobs: list[tuple[int, str]], again: str) -> Iterator[list[Line]]:
    """What became of the lines of each request, as the answers come."""
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number, text in jobs:
            taken.append(number)
            yield text

    for body in batch_bodies(texts()):
        yield _lines(taken, _send(api, body, again))
        taken.clear()


def _lines(numbers: list[int], answer: Answer) -> list[Line]:
    items = answer.body["jobs"]
    if not isinstance(items, list) or len(items) != len(numbers):
        said = f"the api's answer has not one outcome for each of {len(numbers):,} lines; {LOST}"
        raise Failure(said, code=Exit.UNAVAILABLE)
    return [
        Line(
            number=number,
            outcome=item["outcome"],
            body=item.get("job") or item["error"],
            replayed=answer.replayed,
            tries=answer.tries,
        )
        for number, item in zip(numbers, items, strict=True)
    ]


def _write_refused(file: TextIO | None, jobs: list[tuple[int, str]], lines: list[Line]) -> None:
    if file is not None:
        refused = {each.number for each in lines if each.outcome == "error"}
        if file.name != "<stdout>" and file.seekable():
            file.truncate(0)
        file.writelines(f"{text}\n" for number, text in jobs if number in refused)


def _after(failure: Failure, lines: list[Line], *, everything: bool) -> Failure:
    """The failure of a later request, once it was told what the earlier ones did."""
    if not failure.as_json:
        _show(lines, most=None if everything else MOST_SHOWN)
    counted = _counted(Counter(each.counted for each in lines))
    return Failure(
        f"lines {lines[0].number:,} to {lines[-1].number:,}: {counted}. "
        f"Then, from line {lines[-1].number + 1:,} on: {failure.message}",
        code=failure.code,
        problem=failure.problem,
        done=_document(lines),
    )


def _send(api: Api, body: str, again: str) -> Answer:
    digest = hashlib.sha256(f"{again}\n{body}".encode()).hexdigest()[:KEY_LETTERS]
    try:
        return api.post("/v1/jobs:batch", body, {"Idempotency-Key": f"batch-{digest}"})
    except Failure as failure:
        if failure.code != Exit.UNAVAILABLE:
            raise
        raise Failure(
            f"{failure.message}\n{LOST}",
            code=failure.code,
            problem=failure.problem,
        ) from None


def _document(lines: list[Line]) -> dict[str, Any]:
    told = [
        {"line": each.number, "outcome": each.outcome, "replayed": each.replayed, **each.body}
        for each in lines
    ]
    return {"outcomes": Counter(each.outcome for each in lines), "jobs": told}


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
    if line.counted in {"earlier", "retried"}:
        said = "created earlier"
    return (line.number, said, line.body["id"], show.state(line.body["state"]), "")

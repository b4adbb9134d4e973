"""`chot status`, `chot cancel`: one job, and no more of it."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, job_of, job_path
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible, visible_lines
from shared.cli.tables import table
from shared.lock_words import locked

LINE = 78
FACTS = ("id", "kind", "company", "brand", "state", "attempt", "fence", "priority", "group")


@click.command()
@click.argument("job_id", metavar="ID")
@calls_api
def status(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show one job: its state, progress, result or error, and every attempt."""
    with Api(retry_for) as api:
        job = job_of(api.get(job_path(job_id)))
    if as_json:
        print_json(job)
        return
    print_job(job)


def print_job(job: Mapping[str, Any]) -> None:
    """Write everything the api says about one job, for a person."""
    console = show.console()
    for name, value in _facts(job):
        console.print(Text(f"{name:<12}", style="dim"), value, sep="", soft_wrap=True)
    if job.get("result") is not None:
        console.print(Text("result", style="dim"))
        console.print(Text(visible_lines(pretty(job["result"]))), soft_wrap=True)
    attempts = job.get("attempts") or []
    if attempts:
        console.print()
        console.print(attempts_table(attempts))
        for number, why in _whole_reasons(job, attempts):
            console.print(Text(f"attempt {number:<4}", style="dim"), why, sep="", soft_wrap=True)


def _whole_reasons(
    job: Mapping[str, Any], attempts: list[dict[str, Any]]
) -> Iterator[tuple[Any, Text]]:
    """Reasons that the table cut and that the job's own error does not say: each one once."""
    told = {show.reason(job.get("error"))}
    for attempt in attempts:
        why = show.reason(attempt.get("error"))
        if why not in told and show.brief(why) != why:
            told.add(why)
            yield attempt.get("attempt"), show.plain(why)


def _facts(job: Mapping[str, Any]) -> list[tuple[str, Text]]:
    facts = [(name, job.get(name)) for name in FACTS]
    facts += [
        ("join of", job.get("joins")),
        ("locks", "; ".join(_lock(each) for each in job.get("locks") or ())),
        ("attempts", _attempts(job)),
        ("redriven", _redriven(job.get("redriven"))),
        ("progress", show.progress(job)),
        ("pace", show.pace(job)),
        ("blocked by", job.get("blocked_by")),
        ("created", show.moment(job.get("created_at"))),
        ("submitter", job.get("principal")),
        ("approved by", job.get("approver")),
        ("not before", show.not_before(job)),
        ("finished", show.moment(job.get("finished_at"))),
        ("took", show.took_of(job)),
        ("error", show.reason(job.get("error"))),
        ("where", show.where(job.get("error"))),
    ]
    told = [(name, value) for name, value in facts if value not in {None, ""} and name != "attempt"]
    return [
        (name, show.state(str(value)) if name == "state" else show.plain(value))
        for name, value in told
    ]


def _attempts(job: Mapping[str, Any]) -> str:
    """How many of how many; the budget of a redrive comes on top of what was used before it."""
    free = (("lost_leases", "lost with their worker"), ("interruptions", "handed back"))
    beside = "".join(f", {job[name]} {what}" for name, what in free if job.get(name))
    said = f"{show.charged(job)} of {job.get('max_attempts')}"
    if not job.get("redriven"):
        return f"{said}{beside}"
    redriven_at = datetime.fromisoformat(job["redriven"]["at"])
    begun = [each.get("started_at") for each in job.get("attempts") or []]
    since = sum(bool(at) and datetime.fromisoformat(at) >= redriven_at for at in begun)
    return f"{said} in all, {since} begun since the redrive{beside}"


def _lock(lock: Mapping[str, Any]) -> str:
    what = locked(lock["root"], lock["part"], lock["period_from"], lock["period_to"])
    return f"{what} ({lock['mode']})"


def _redriven(last: Mapping[str, Any] | None) -> str:
    if not last:
        return ""
    approved = f", approved by {last['approver']}" if last.get("approver") else ""
    return f"{show.moment(last['at'])} by {last['by']}{approved}"


def pretty(result: Any, *, indent: str = "  ") -> str:
    """A result for a person: a line for each member, what fits into one stays in one."""
    if isinstance(result, dict) and result:
        parts = [f"{json.dumps(name, ensure_ascii=False)}: " for name in result]
        values = list(result.values())
        around = "{}"
    elif isinstance(result, list) and result:
        parts, values, around = [""] * len(result), result, "[]"
    else:
        return indent + json.dumps(result, ensure_ascii=False)
    if not any(isinstance(value, dict | list) for value in result) and around == "[]":
        return _filled(result, indent)
    flat = json.dumps(result, ensure_ascii=False)
    if len(indent) + len(flat) <= LINE and indent != "  ":
        return indent + flat
    inner = indent + "  "
    lines = [
        inner + part + pretty(value, indent=inner).removeprefix(inner)
        for part, value in zip(parts, values, strict=True)
    ]
    return f"{indent}{around[0]}\n" + ",\n".join(lines) + f"\n{indent}{around[1]}"


def _filled(values: list[Any], indent: str) -> str:
    """Plain values, as many in a line as fit."""
    lines, line = [], f"{indent}["
    for number, value in enumerate(values, 1):
        said = json.dumps(value, ensure_ascii=False) + ("]" if number == len(values) else ", ")
        if len(line) + len(said.rstrip()) > LINE and line.strip() != "[":
            lines.append(line.rstrip())
            line = f"{indent} "
        line += said
    return "\n".join([*lines, line])


def attempts_table(attempts: list[dict[str, Any]]) -> Any:
    """The attempt history: who, when, under which fence, why it ended, in short."""
    rows = [
        (
            attempt.get("attempt"),
            attempt.get("fence"),
            attempt.get("worker_id"),
            show.clock(attempt.get("started_at")),
            show.took(attempt.get("started_at"), attempt.get("ended_at")),
            show.state(attempt.get("outcome") or "running"),
            show.brief(show.reason(attempt.get("error"))),
        )
        for attempt in attempts
    ]
    columns = ("attempt#", "fence#", "worker", "started", "took#", "ended as", "why")
    return table("attempts", columns, rows, below=("why",), spare=("took", "started", "worker"))


@click.command()
@click.argument("job_id", metavar="ID")
@calls_api
def cancel(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Cancel a pending or running job; once this says so, nothing of it commits any more.

    Exit code 5: it was too late, the job has ended already.
    """
    with Api(retry_for) as api:
        job = job_of(api.post(job_path(job_id, "cancel")))
    if as_json:
        print_json(job)
        return
    click.echo(visible(f"job {job_id} is {job['state']}"))

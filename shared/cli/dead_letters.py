"""`chot dead-letters` and `chot redrive`: what was buried, and the way back."""

import json
from typing import Any

import click
from rich.console import Group

from shared.cli import show
from shared.cli.exits import Exit
from shared.cli.http import Api, job_path, page_of
from shared.cli.names import KindName
from shared.cli.options import calls_api, print_json
from shared.cli.plain import visible
from shared.cli.tables import table
from shared.cli.watch_letters import watch
from shared.cli.words import approval_advice, in_commands


@click.command("dead-letters")
@click.option("--kind", type=KindName(), help="Only jobs of this kind.")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@click.option("--watch", "watches", is_flag=True, help="Go on showing what dies, until Ctrl-C.")
@calls_api
def dead_letters(
    *, kind: str | None, limit: int, watches: bool, as_json: bool, retry_for: float
) -> None:
    """List dead jobs with the error that buried them, and messages that were none of ours.

    With --watch a table stays new on a terminal; on a pipe each letter is a line as it comes (with
    --json a JSON document a line).
    """
    with Api(retry_for) as api:
        if watches:
            watch(api, kind, limit, _tables, as_json=as_json)
            return
        answer = api.get("/v1/dead-letters", {"kind": kind, "limit": limit})
        page_of(answer, "jobs", "messages", sent=None)
    if as_json:
        print_json(answer.body)
        return
    show.console().print(_tables(answer.body["jobs"], answer.body["messages"]))


def _tables(jobs: list[dict[str, Any]], messages: list[dict[str, Any]]) -> Group:
    parts: list[Any] = [_jobs_table(jobs) if jobs else "no dead jobs"]
    if messages:
        parts += ["", _messages_table(messages)]
    return Group(*parts)


def _jobs_table(jobs: list[dict[str, Any]]) -> Any:
    rows = [
        (
            job["id"],
            job["kind"],
            show.whose(job),
            job.get("attempt"),
            job.get("lost_leases"),
            show.clock(job.get("finished_at")),
            show.reason(job.get("error")),
        )
        for job in jobs
    ]
    columns = ("job", "kind", "for", "attempts#", "leases lost#", "died", "why")
    return table(
        "dead jobs",
        columns,
        rows,
        below=("why",),
        spare=("leases lost", "attempts", "died", "for"),
    )


def _messages_table(messages: list[dict[str, Any]]) -> Any:
    rows = [
        (
            message.get("id"),
            message.get("queue"),
            show.clock(message.get("created_at")),
            message.get("reason"),
            str(message.get("body"))[:60],
        )
        for message in messages
    ]
    columns = ("message#", "queue", "buried", "why", "body")
    return table("dead messages", columns, rows, below=("why", "body"))


@click.command()
@click.argument("job_id", metavar="ID", required=False)
@click.option("--kind", type=KindName(), help="All dead jobs of this kind.")
@click.option("--all", "everything", is_flag=True, help="All dead jobs.")
@click.option("--approval", metavar="ID", help="Another account's approval (`chot approve`).")
@calls_api
@click.pass_context
def redrive(
    context: click.Context,
    job_id: str | None,
    *,
    kind: str | None,
    everything: bool,
    approval: str | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Put dead jobs back to pending, with a fresh budget of attempts and their history kept.

    One job by ID, all of a kind, or all. Exit code 5: a job could not be redriven, because the
    same work is active again, or what the dead attempts left is still being removed.
    """
    if sum((job_id is not None, kind is not None, everything)) != 1:
        raise click.UsageError("say which: an ID, --kind KIND, or --all")
    if approval is not None and job_id is None:
        raise click.UsageError("--approval is of one job: give its ID")
    body = None if approval is None else json.dumps({"approval": approval})
    with Api(retry_for) as api:
        if job_id is not None:
            answer = api.post(job_path(job_id, "redrive"), body).body
        else:
            answer = _redrive_matching(api, {"kind": kind} if kind else {"all": True})
    if as_json:
        print_json(answer)
    else:
        click.echo(_said(job_id, answer))
    context.exit(Exit.CONFLICT if answer.get("refused") else Exit.OK)


def _redrive_matching(api: Api, which: dict[str, Any]) -> dict[str, Any]:
    """Follow the cursor to the end; each job is redriven or refused by itself."""
    report: dict[str, Any] = {"redriven": [], "refused": []}
    cursor: str | None = None
    while True:
        body = which if cursor is None else which | {"cursor": cursor}
        page = api.post("/v1/dead-letters/redrive", json.dumps(body))
        cursor = page_of(page, *report, sent=cursor)
        for name in report:
            report[name] += page.body[name]
        if cursor is None:
            return report


def _said(job_id: str | None, answer: dict[str, Any]) -> str:
    if job_id is not None:
        return visible(f"job {job_id} is {answer['state']} again; `chot wait {job_id}` follows it")
    redriven, refused = answer["redriven"], answer["refused"]
    lines = [f"{len(redriven)} redriven, {len(refused)} refused"]
    waiting = [item["id"] for item in refused if item["reason"] == "approval-required"]
    lines += [
        visible(f"  {item['id']}: {in_commands(item['detail'])}")
        for item in refused
        if item["reason"] != "approval-required"
    ]
    if waiting:
        lines += [f"  one by one: {approval_advice('job.redrive', 'ID')}. ID is each of"]
        lines += [visible(f"    {job_id}") for job_id in waiting]
    return "\n".join(lines)

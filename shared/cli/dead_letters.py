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
@click.option("--by-cause", is_flag=True, help="Count dead jobs by what they died of.")
@click.option("--cause", metavar="CAUSE", help="Only jobs that died of it (see --by-cause).")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@click.option("--watch", "watches", is_flag=True, help="Go on showing what dies, until Ctrl-C.")
@calls_api
def dead_letters(
    *,
    kind: str | None,
    by_cause: bool,
    cause: str | None,
    limit: int,
    watches: bool,
    as_json: bool,
    retry_for: float,
) -> None:
    """List dead jobs with the error that buried them, and messages that were none of ours.

    With --watch a table stays new on a terminal; on a pipe each letter is a line as it comes (with
    --json a JSON document a line). With --by-cause jobs that died of the same thing are one line.
    """
    if watches and (by_cause or cause is not None):
        raise click.UsageError("--watch shows every letter: neither --by-cause nor --cause")
    if by_cause and cause is not None:
        raise click.UsageError("--by-cause counts all causes, --cause lists the jobs of one")
    with Api(retry_for) as api:
        if watches:
            watch(api, kind, limit, _tables, as_json=as_json)
            return
        if by_cause:
            answer = api.get("/v1/dead-letters/causes", {"kind": kind, "limit": limit})
            _show_causes(answer.body, as_json=as_json)
            return
        asked = {"kind": kind, "cause": cause, "limit": limit}
        answer = api.get("/v1/dead-letters", asked)
        page_of(answer, "jobs", "messages", sent=None)
    if as_json:
        print_json(answer.body)
        return
    show.console().print(_tables(answer.body["jobs"], answer.body["messages"]))


def _show_causes(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each.get("cause"),
            each.get("kind"),
            each.get("jobs"),
            show.clock(each.get("first_at")),
            show.clock(each.get("last_at")),
            each["example"].get("id"),
            show.reason({name: each.get(name) for name in ("code", "type", "message")}),
        )
        for each in found["causes"]
    ]
    if not rows:
        show.console().print("no dead jobs")
        return
    columns = ("cause", "kind", "jobs#", "first", "last", "example", "why")
    left_out = found["total_causes"] - len(rows)
    parts: list[Any] = [
        table("causes", columns, rows, below=("example", "why"), spare=("first", "last"))
    ]
    if left_out > 0:
        parts += ["", show.plain(f"{left_out:,} more causes; --limit shows more")]
    show.console().print(Group(*parts))


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
@click.option("--cause", metavar="CAUSE", help="All that died of it (`dead-letters --by-cause`).")
@click.option("--all", "everything", is_flag=True, help="All dead jobs.")
@click.option("--approval", metavar="ID", help="Another account's approval (`chot approve`).")
@calls_api
@click.pass_context
def redrive(
    context: click.Context,
    job_id: str | None,
    *,
    kind: str | None,
    cause: str | None,
    everything: bool,
    approval: str | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Put dead jobs back to pending, with a fresh budget of attempts and their history kept.

    One job by ID, all of a kind or of a cause, or all. Exit code 5: a job could not be redriven,
    because the same work is active again, or what the dead attempts left is still being removed.
    """
    given = {"kind": kind, "cause": cause, "all": everything or None}
    which = {name: value for name, value in given.items() if value is not None}
    if len(which) + (job_id is not None) != 1:
        raise click.UsageError("say which: an ID, --kind KIND, --cause CAUSE, or --all")
    if approval is not None and job_id is None:
        raise click.UsageError("--approval is of one job: give its ID")
    body = None if approval is None else json.dumps({"approval": approval})
    with Api(retry_for) as api:
        if job_id is not None:
            answer = api.post(job_path(job_id, "redrive"), body).body
        else:
            answer = _redrive_matching(api, which)
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

"""`chot group`: many jobs that belong together, and one that starts when all have ended."""

import hashlib
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import quote

import click

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.http import Api
from shared.cli.job_lines import read_jobs
from shared.cli.names import KindName
from shared.cli.options import calls_api, print_json
from shared.cli.payload import payload_text
from shared.client.wanted import batch_bodies
from shared.json_text import to_json
from shared.types import TERMINAL

POLICIES = ("finish", "fail_fast", "join")
KEY_LETTERS = 48
MOST_REFUSALS = 20
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.2, 2.0
# Of a group its outcome, of a join its state.
ENDS = {
    "succeeded": Exit.OK,
    "failed": Exit.NO,
    "dead": Exit.NO,
    "cancelled": Exit.CANCELLED,
}


@click.group()
def group() -> None:
    """Open a group of jobs, fill and seal it, and see it to its end."""


def group_path(group_id: str, *rest: str) -> str:
    """Path of a group's route; whatever was given as an id stays one path segment."""
    return "/".join((f"/v1/groups/{quote(group_id, safe='')}", *rest))


@group.command("open")
@click.option("--company", required=True, help="Whose books its jobs are of.")
@click.option("--brand", help="Only jobs of this brand of it.")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="finish",
    show_default=True,
    help="What a member that dies means: the others finish, are cancelled, or the join sees it.",
)
@click.option("--join", type=KindName(), metavar="KIND", help="Starts once when all have ended.")
@click.option("--payload", help="Of the join, a JSON object.")
@click.argument("words", nargs=-1, metavar="[name=text | name:=json]…")
@calls_api
def open_(
    words: tuple[str, ...],
    *,
    company: str,
    brand: str | None,
    policy: str,
    join: str | None,
    payload: str | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Open a group, and print its id. Words are members of the join's payload."""
    if join is None and (payload is not None or words):
        raise click.UsageError("a payload is the join's: give --join KIND, too")
    given = {"company": company, "brand": brand, "policy": policy}
    body = to_json({name: value for name, value in given.items() if value is not None})
    if join is not None:
        of_join = f'{{"kind":{to_json(join)},"payload":{payload_text(payload, None, words)}}}'
        body = f'{body[:-1]},"join":{of_join}}}'
    with Api(retry_for) as api:
        answer = api.post("/v1/groups", body, {"Idempotency-Key": f"group-{uuid.uuid4()}"})
    _print(answer.body, as_json=as_json, only_id=True)


@group.command("append")
@click.argument("group_id", metavar="ID")
@click.argument("file", type=click.File("rb"))
@calls_api
@click.pass_context
def append(
    context: click.Context, group_id: str, file: BinaryIO, *, as_json: bool, retry_for: float
) -> None:
    """Append the jobs of FILE (- is stdin), one JSON object a line, as of `submit-batch`.

    The same command again appends what is missing and counts nothing twice. Exit code 4: the
    lines that it shows were refused, all others are members.
    """
    jobs = read_jobs(file)
    refused: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    earlier: Counter[str] = Counter()
    with Api(retry_for) as api:
        for number, item, by in _appended(api, group_id, jobs):
            counts[item["outcome"]] += 1
            earlier[by] += bool(by) and item["outcome"] == "created"
            if item["outcome"] == "error":
                refused.append({"line": number, **item["error"]})
    if as_json:
        print_json({"outcomes": counts, "earlier": earlier.total(), "refused": refused})
    else:
        for each in refused[:MOST_REFUSALS]:
            click.echo(show.plain(f"line {each['line']}: {each.get('detail')}").plain)
        click.echo(_counted(counts, earlier), err=True)
    context.exit(Exit.REFUSED if refused else Exit.OK)


def _counted(counts: Counter[str], earlier: Counter[str]) -> str:
    """How many of each; what is a stored answer is told apart, as `submit-batch` does."""
    told = f"{counts['created'] - earlier.total():,} appended{' now' if +earlier else ''}, "
    for by, count in (+earlier).items():
        told += f"{count:,} appended by an earlier {by} of these lines, "
    return f"{told}{counts['duplicate']:,} were members already, {counts['error']:,} refused"


def _appended(
    api: Api, group_id: str, jobs: list[tuple[int, str]]
) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Each line's number and outcome, and what earlier of this text decided it, if anything."""
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number, text in jobs:
            taken.append(number)
            yield text

    for body in batch_bodies(texts()):
        digest = hashlib.sha256(f"{group_id}\n{body}".encode()).hexdigest()[:KEY_LETTERS]
        key = {"Idempotency-Key": f"append-{digest}"}
        answer = api.post(group_path(group_id, "jobs:batch"), body, key)
        items = answer.body["jobs"]
        if not isinstance(items, list) or len(items) != len(taken):
            said = "the api's answer has not one outcome for each line"
            raise Failure(said, code=Exit.UNAVAILABLE)
        # Of what this very command asked for twice, nobody knows which run has decided it.
        by = "" if not answer.replayed else "run" if answer.tries == 1 else "request"
        yield from ((number, item, by) for number, item in zip(taken, items, strict=True))
        taken.clear()


def _acting(name: str, says: str) -> Any:
    """A command that POSTs to the group and shows it."""

    @click.argument("group_id", metavar="ID")
    @calls_api
    def act(group_id: str, *, as_json: bool, retry_for: float) -> None:
        with Api(retry_for) as api:
            answer = api.post(group_path(group_id, name))
        _print(answer.body, as_json=as_json)

    act.__doc__ = says
    return group.command(name)(act)


seal = _acting("seal", "Say that the group has all its jobs. May be repeated.")
cancel = _acting("cancel", "Cancel the group: no job of it starts any more.")


@group.command("redrive")
@click.argument("group_id", metavar="ID")
@click.option("--approval", metavar="ID", help="Another account's, where one is asked for.")
@calls_api
def redrive(group_id: str, *, approval: str | None, as_json: bool, retry_for: float) -> None:
    """Run again what died or was cancelled of an ended group, and its join."""
    body = None if approval is None else to_json({"approval": approval})
    with Api(retry_for) as api:
        answer = api.post(group_path(group_id, "redrive"), body)
    _print(answer.body, as_json=as_json)


@group.command("status")
@click.argument("group_id", metavar="ID")
@calls_api
def status(group_id: str, *, as_json: bool, retry_for: float) -> None:
    """Show how far the group is as a whole; `chot list --group ID` has its jobs."""
    with Api(retry_for) as api:
        answer = api.get(group_path(group_id))
    _print(answer.body, as_json=as_json)


@group.command("wait")
@click.argument("group_id", metavar="ID")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Then stop, with code 124."
)
@calls_api
@click.pass_context
def wait(
    context: click.Context,
    group_id: str,
    *,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
) -> None:
    """Wait until all jobs of the group have ended, its join too: 0 succeeded, 6 cancelled.

    1: the join is dead; without a join: the group has failed. 124: not in time.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with Api(retry_for) as api:
        found = _followed(api, group_id, deadline, quiet=as_json)
    _print(found, as_json=as_json)
    context.exit(ENDS.get(_end(found), Exit.NO))


def _end(found: dict[str, Any]) -> str:
    """What the wait was for: the join's state; without one, or any more, the group's outcome."""
    return str((found["join"] or {}).get("state") or found["outcome"])


def _is_over(found: dict[str, Any]) -> bool:
    return found["state"] == "ended" and (
        not (found["join"] or {}).get("state") or found["join"]["state"] in TERMINAL
    )


def _told(found: dict[str, Any]) -> str:
    said = f"{found['total'] - found['remaining']:,} of {found['total']:,} ended"
    join = found["join"]
    waits = found["state"] == "ended" and join is not None
    return f"{said}, join {join['id']} {join['state']}" if waits else said


def _late(found: dict[str, Any]) -> Failure:
    again = f"`chot group wait {found['id']}` waits again"
    ends = f"`chot group cancel {found['id']}` ends it"
    if found["state"] == "ended":
        ends = f"`chot why {found['join']['id']}` says what keeps its join"
    said = f"group {found['id']} has not ended in time ({_told(found)}); it goes on"
    return Failure(f"{said}. {again}, {ends}", code=Exit.TIMEOUT)


def _followed(api: Api, group_id: str, deadline: float | None, *, quiet: bool) -> dict[str, Any]:
    pause, told = FIRST_LOOK_SECONDS, ""
    while True:
        found = api.get(group_path(group_id)).body
        if _is_over(found):
            return found
        said = _told(found)
        if said != told and not quiet:
            click.echo(said, err=True)
            sys.stderr.flush()
        told = said
        left = LONGEST_LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise _late(found)
        time.sleep(min(pause, left))
        pause = min(LONGEST_LOOK_SECONDS, pause * 1.5)


def _print(found: dict[str, Any], *, as_json: bool, only_id: bool = False) -> None:
    if as_json:
        print_json(found)
        return
    if only_id:
        click.echo(found["id"])
        return
    outcome = f", {found['outcome']}" if found["outcome"] else ""
    facts = f"policy {found['policy']}  generation {found['generation']}"
    click.echo(f"{found['id']}  {found['state']}{outcome}  {facts}")
    click.echo(
        f"{found['total']:,} jobs: {found['remaining']:,} to end, "
        f"{found['succeeded']:,} succeeded, {found['dead']:,} dead, "
        f"{found['cancelled']:,} cancelled"
    )
    if found["join"] is not None:
        click.echo(f"join {found['join']['id']} {found['join']['state']}")

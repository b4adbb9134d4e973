"""`chot submit`: one job, once, however often the request has to be repeated."""

import json
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TextIO

import click

from shared.cli.exits import Exit, Failure
from shared.cli.http import Answer, Api
from shared.cli.names import KindName
from shared.cli.options import Seconds, calls_api, print_json
from shared.cli.payload import payload_text
from shared.cli.plain import visible
from shared.cli.progress import screen
from shared.cli.wait import follow, report
from shared.client.wanted import fresh_key, key_header

DUPLICATES = {
    "joined": "the same work is already active: joined that job",
    "merged": "the same work was pending: merged into that job",
    "follow_up": "the same work is running; this payload becomes a job of its own when that ends",
}
UNKNOWN_MEMBER = "is not a member of this object"


@click.command()
@click.argument("kind", type=KindName(submitted=True))
@click.argument("words", nargs=-1, metavar="[NAME=TEXT | NAME:=JSON]...")
@click.option("--company", required=True, help="The legal entity whose books it works on.")
@click.option("--brand", help="A brand of the company.")
@click.option("--payload", metavar="JSON", help="The payload as a JSON object.")
@click.option(
    "--payload-file", type=click.File(encoding="utf-8"), help="A file with it; - is stdin."
)
@click.option("--run-at", metavar="TIME", help="Not before, e.g. 2026-02-01T02:00:00+07:00.")
@click.option("--priority", type=click.IntRange(0, 9), help="Larger first; 5 by default.")
@click.option("--max-attempts", type=click.IntRange(min=1), help="Up to the kind's cap.")
@click.option("--key", help="Idempotency-Key of your own; a repeat with it answers the same.")
@click.option("--wait", "waits", is_flag=True, help="Then wait for its end, as `chot wait` does.")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="With --wait.")
@calls_api
@click.pass_context
def submit(
    context: click.Context,
    /,
    *,
    kind: str,
    words: tuple[str, ...],
    payload: str | None,
    payload_file: TextIO | None,
    key: str | None,
    waits: bool,
    timeout: float | None,
    as_json: bool,
    retry_for: float,
    **given: Any,
) -> None:
    """Submit a job of KIND and print its id.

    \b
    chot submit costing.run --company SAMPLE --brand LUA period=2026-01 --wait
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    if key is not None:
        _refuse_unsayable(key)
    body = _body(kind, payload_text(payload, payload_file, words), given)
    with Api(retry_for) as api:
        answer = _send(api, body, fresh_key() if key is None else key, words)
        if key is None or not answer.replayed:
            _note_past(given["run_at"], answer)
        if not waits:
            _print(answer, as_json=as_json, again=key is not None)
            return
        if not as_json:
            click.echo(visible(_sentence(answer, then="", again=key is not None)), err=True)
        with screen(quiet=as_json) as shown:
            job = follow(api, answer.body["id"], shown, timeout=timeout)
    context.exit(report(job, as_json=as_json))


def _refuse_unsayable(key: str) -> None:
    """UsageError for what no header can say: `--key "$UNSET"` would protect from nothing."""
    try:
        key_header(key)
    except ValueError as error:
        raise click.UsageError(f"--key: {error}") from None


def _body(kind: str, payload: str, given: dict[str, Any]) -> str:
    """Compose the request around the payload's own text: no number of it passes through a float."""
    members = {"kind": kind} | {name: value for name, value in given.items() if value is not None}
    head = json.dumps(members, ensure_ascii=False)
    return f'{head[:-1]}, "payload": {payload}}}'


def _send(api: Api, body: str, key: str, words: tuple[str, ...]) -> Answer:
    try:
        return api.post("/v1/jobs", body, {"Idempotency-Key": key_header(key)})
    except Failure as failure:
        advice = _text_for_json(failure, words)
        if failure.code == Exit.UNAVAILABLE:
            advice = (
                "Whether the job was accepted is not known. The same command with "
                f"`--key {key}` asks again and submits it once."
            )
        if not advice:
            raise
        raise Failure(
            f"{failure.message}\n{advice}", code=failure.code, problem=failure.problem
        ) from None


def _text_for_json(failure: Failure, words: tuple[str, ...]) -> str:
    """Advice for who wrote count=5, which is text, where the kind wants a number."""
    errors = (failure.problem or {}).get("errors") or []
    refused = {
        str(error.get("field"))
        for error in errors
        if isinstance(error, dict) and not str(error.get("rule")).startswith(UNKNOWN_MEMBER)
    }
    for word in words:
        name, _, value = word.partition("=")
        if f"payload.{name}" in refused and _is_json_of_another_type(value):
            return f"NAME=… is always text; a number, true or a list is {name}:={value}"
    return ""


def _is_json_of_another_type(value: str) -> bool:
    try:
        return not isinstance(json.loads(value), str)
    except ValueError:
        return False


def _note_past(run_at: str | None, answer: Answer) -> None:
    """Say on stderr that a new job is held back by nothing: its time is past by the api's clock."""
    told = answer.headers.get("Date")
    if run_at is None or told is None or answer.body.get("duplicate"):
        return
    try:
        past = datetime.fromisoformat(run_at.upper()) < parsedate_to_datetime(told)
    except (TypeError, ValueError):  # a Date that is none, or without a zone
        return
    if past:
        said = f"--run-at {run_at} is past (the api's clock: {told}): it runs at once"
        click.echo(visible(said), err=True)


def _print(answer: Answer, *, as_json: bool, again: bool) -> None:
    if as_json:
        print_json(answer.body | {"replayed": answer.replayed})
        return
    click.echo(visible(answer.body["id"]))
    said = _sentence(answer, then="; `chot wait {}` follows it", again=again)
    click.echo(visible(said), err=True)


def _sentence(answer: Answer, *, then: str, again: bool) -> str:
    """What became of it; `again`: the key is the caller's own, and may have been used before."""
    job_id = answer.body["id"]
    if answer.replayed and again:
        how = f"`chot status {job_id}` shows how it stands"
        return f"job {job_id}: accepted before under this key; {how}"
    duplicate = answer.body.get("duplicate")
    said = DUPLICATES.get(str(duplicate), "accepted")
    if duplicate == "follow_up":
        then = then.replace("follows it", "follows the one that runs")
    return f"job {job_id}: {said}{then.format(job_id)}"

"""`chot dead-letters --watch`: a table that stays new on a terminal, on a pipe line by line."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, page_of
from shared.cli.plain import json_text, visible

PAGE = 200
# From look to look; a look that takes long (thousands of dead jobs) is made more seldom.
EVERY_SECONDS = 2.0
SHARE_OF_TIME = 10
Letter = dict[str, Any]
Tables = Callable[[list[Letter], list[Letter]], Any]


def watch(api: Api, kind: str | None, limit: int, tables: Tables, *, as_json: bool) -> None:
    """Follow the dead letters until Ctrl-C, which is how it ends and no failure."""
    try:
        if sys.stdout.isatty() and not as_json:
            _on_screen(api, kind, limit, tables)
        else:
            _as_lines(api, kind, limit, as_json=as_json)
    except KeyboardInterrupt:
        return


def _looks(api: Api, kind: str | None) -> Iterator[tuple[list[Letter], list[Letter]]]:
    while True:
        began = time.monotonic()
        yield _everything(api, kind)
        time.sleep(max(EVERY_SECONDS, SHARE_OF_TIME * (time.monotonic() - began)))


def _everything(api: Api, kind: str | None) -> tuple[list[Letter], list[Letter]]:
    """All dead jobs and messages, the last to die first; the api lists by when they began."""
    jobs: dict[Any, Letter] = {}
    messages: dict[Any, Letter] = {}
    cursor: str | None = None
    while True:
        page = api.get("/v1/dead-letters", {"kind": kind, "limit": PAGE, "cursor": cursor})
        cursor = page_of(page, "jobs", "messages", sent=cursor)
        jobs |= {each["id"]: each for each in page.body["jobs"]}
        messages |= {each["id"]: each for each in page.body["messages"]}
        if cursor is None:
            break
    return (
        sorted(jobs.values(), key=lambda each: str(each["finished_at"]), reverse=True),
        sorted(messages.values(), key=lambda each: int(each["id"]), reverse=True),
    )


def _on_screen(api: Api, kind: str | None, limit: int, tables: Tables) -> None:
    with Live(console=show.console(), screen=False, auto_refresh=False) as live:
        for jobs, messages in _looks(api, kind):
            counted = f"{len(jobs):,} dead jobs, {len(messages):,} dead messages; Ctrl-C ends"
            shown = tables(jobs[:limit], messages[:limit])
            live.update(Group(shown, Text(counted, style="dim")), refresh=True)


def _as_lines(api: Api, kind: str | None, limit: int, *, as_json: bool) -> None:
    """What is there first, the newest `limit`, oldest above; then each that comes, once.

    A job that was redriven and has died again has come again.
    """
    seen: set[tuple[str, Any, Any]] = set()
    for jobs, messages in _looks(api, kind):
        found = [("job", each["id"], each["finished_at"], each) for each in jobs]
        found += [("message", each["id"], each["created_at"], each) for each in messages]
        new = sorted(
            (each for each in found if each[:3] not in seen), key=lambda each: str(each[2])
        )
        for what, _, at, letter in new if seen else new[-limit:]:
            click.echo(_json_line(what, letter) if as_json else _line(what, at, letter))
        sys.stdout.flush()
        seen = {each[:3] for each in found} or {("nothing", 0, 0)}


def _json_line(what: str, letter: Letter) -> str:
    return json_text({what: letter})


def _line(what: str, at: str, letter: Letter) -> str:
    if what == "job":
        facts = (letter["id"], letter["kind"], show.whose(letter), show.reason(letter["error"]))
    else:
        facts = (f"message {letter['id']}", letter["queue"], letter["reason"], "")
    return visible("  ".join(filter(None, (show.moment(at), *facts))))

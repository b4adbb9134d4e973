"""`chot why`: the one thing that keeps a job, in a sentence, and the facts it is made of."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
from rich.text import Text

from shared.cli import show
from shared.cli.http import Api, job_path
from shared.cli.options import calls_api, print_json
from shared.cli.words import in_commands

# What the sentence has said, or what a person does not look for here.
LEFT_OUT = frozenset({"sentence", "id", "error", "owner.progress"})


@click.command()
@click.argument("job_id", metavar="ID")
@calls_api
def why(job_id: str, *, as_json: bool, retry_for: float) -> None:
    """Say why a job is not running, or not done: the first thing that keeps it, and what to do."""
    with Api(retry_for) as api:
        said = api.get(job_path(job_id, "why")).body
    if as_json:
        print_json(said)
        return
    console = show.console()
    console.print(show.plain(in_commands(str(said["sentence"]))), soft_wrap=True)
    console.print()
    for name, value in _facts(said):
        label = name.replace("_", " ").replace(".", ": ")
        console.print(show.plain(f"{label:<24}", "dim"), value, sep="", soft_wrap=True)


def _facts(said: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Text]]:
    """Every fact that is known, those of a group by `group.name`."""
    for name, value in said.items():
        path = f"{under}{name}"
        if path in LEFT_OUT or value is None:
            continue
        if isinstance(value, dict):
            yield from _facts(value, f"{path}.")
        elif name == "state":
            yield path, show.state(str(value))
        else:
            yield path, show.plain(_word(value))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""Options that several commands share, and the one way to print an answer."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from shared.cli.http import RETRY_SECONDS
from shared.cli.plain import json_text

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout instead."
)


def calls_api(command: F) -> F:
    """Add the options of every command that talks to the api."""
    retry = click.option(
        "--retry-for",
        type=click.FloatRange(min=0),
        default=RETRY_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Keep trying while the api is out of reach.",
    )
    return functools.reduce(lambda made, option: option(made), (retry, as_json), command)


def print_json(document: Any) -> None:
    """Print the command's one document, as the api sent it where it came from there."""
    click.echo(json_text(document, indent=2))

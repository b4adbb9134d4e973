"""Options that several commands share, and the one way to print an answer."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from shared.cli.http import RETRY_SECONDS
from shared.cli.plain import json_text

YEAR_SECONDS = 366 * 24 * 3600.0
F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A time of 0 or more; without end (`inf`) is a year, which every clock can count."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The time; UsageError for what is none."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no time", param, ctx)
        return min(seconds, YEAR_SECONDS)


as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout instead."
)


def calls_api(command: F) -> F:
    """Add the options of every command that talks to the api."""
    retry = click.option(
        "--retry-for",
        type=Seconds(),
        default=RETRY_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Keep trying while the api is out of reach.",
    )
    return functools.reduce(lambda made, option: option(made), (retry, as_json), command)


def print_json(document: Any) -> None:
    """Print the command's one document, as the api sent it where it came from there."""
    click.echo(json_text(document, indent=2))

"""Commands that become another process: `chot dev|api|worker` and `chot costing check`.

This package may import none of them (an image holds only its own side), so it executes them.
"""

import importlib.util
import os
import sys

import click

from shared.cli.exits import Exit, Failure

PASS_ON = {"ignore_unknown_options": True, "help_option_names": []}
MISSING = {
    "dev": "the development stack is not installed here; run it from a checkout after `make venv`",
    "api": "the api is not installed here; this looks like the worker's image",
    "worker": "the worker is not installed here; this looks like the api's image",
}
arguments = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")


@click.command(context_settings=PASS_ON, add_help_option=False)
@arguments
def dev(words: tuple[str, ...]) -> None:
    """Everything on this machine, until Ctrl-C: PostgreSQL, an SQS emulator, api, workers."""
    become("dev.stack", *words)


@click.command(context_settings=PASS_ON, add_help_option=False)
@arguments
def api(words: tuple[str, ...]) -> None:
    """Run one api process in the foreground; SIGTERM ends it."""
    become("api", *words)


@click.command(context_settings=PASS_ON, add_help_option=False)
@arguments
def worker(words: tuple[str, ...]) -> None:
    """Run one worker process in the foreground; SIGTERM drains it."""
    become("worker", *words)


@click.group()
def costing() -> None:
    """Try the costing without a database."""


@costing.command(context_settings=PASS_ON, add_help_option=False)
@arguments
def check(words: tuple[str, ...]) -> None:
    """Run the worked examples of a FILE.json and print the result as JSON."""
    become("worker.costing.check", *words)


def become(module: str, *words: str) -> None:
    """Replace this process by `python -m module words`; signals and exit code are then its own.

    A Failure with exit code 78 where the module is not installed.
    """
    if not is_installed(module):
        raise Failure(MISSING[module.partition(".")[0]], code=Exit.CONFIG)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *words])  # noqa: S606 - no shell


def is_installed(module: str) -> bool:
    """Whether `python -m module` would find it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False

"""Exit codes and failures of the command line: what scripts may rely on (docs/cli.md)."""

from enum import IntEnum
from typing import Any

import click

from shared.cli.plain import json_text, visible


class Exit(IntEnum):
    """Stable exit codes; those above 63 are of sysexits.h, timeout(1) and the shell."""

    OK = 0
    NO = 1  # the question was answered, with no: the job is dead, the schema is behind
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    CONFLICT = 5
    CANCELLED = 6  # of a wait: somebody has cancelled the job
    UNAVAILABLE = 69
    BUG = 70
    CONFIG = 78
    TIMEOUT = 124
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command with a sentence on stderr, and with --json a document on stdout.

    `done` has the further members of that document: what was done before it failed.
    """

    def __init__(
        self,
        message: str,
        *,
        code: Exit,
        problem: dict[str, Any] | None = None,
        done: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.problem = problem
        self.done = done or {}
        context = click.get_current_context(silent=True)
        self.as_json = context is not None and context.params.get("as_json") is True

    def show(self) -> None:
        """Say it: the first line after our name, further ones indented."""
        if self.as_json:
            error = {"exit_code": int(self.code), "message": self.message}
            problem = {} if self.problem is None else {"problem": self.problem}
            click.echo(json_text({"error": error | problem} | self.done))
        first, *rest = map(visible, self.message.split("\n"))
        click.echo("\n".join([f"chot: {first}", *(f"  {line}" for line in rest)]), err=True)

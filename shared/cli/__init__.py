"""The `chot` command. It starts fast: a command's module is imported when that command runs."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import click
from click.shell_completion import CompletionItem

from shared.cli.exits import Exit, Failure
from shared.cli.plain import visible
from shared.errors import ConfigRefused

# Command → (module, name in it, what `chot --help` says). Order is the order of the help.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "dev": ("processes", "dev", "Everything on this machine, until Ctrl-C."),
    "api": ("processes", "api", "Run one api process."),
    "worker": ("processes", "worker", "Run one worker process."),
    "migrate": ("migrate", "migrate", "Bring the database to the newest schema."),
    "keys": ("keys", "keys", "Make, list and revoke API keys."),
    "submit": ("submit", "submit", "Submit a job."),
    "submit-batch": ("submit_batch", "submit_batch", "Submit a file of jobs, each once."),
    "status": ("jobs", "status", "Show one job with its attempts."),
    "why": ("why", "why", "Say why a job is not running, or not done."),
    "wait": ("wait", "wait", "Wait until a job has ended, with a progress bar."),
    "list": ("listing", "list_", "List jobs, newest first."),
    "group": ("groups", "group", "Many jobs that belong together, and a join."),
    "cancel": ("jobs", "cancel", "Cancel a pending or running job."),
    "redrive": ("dead_letters", "redrive", "Run dead jobs again."),
    "dead-letters": ("dead_letters", "dead_letters", "List dead jobs and dead messages."),
    "approve": ("audit", "approve", "Approve another account's act, once."),
    "audit": ("audit", "audit", "Show who did what, and from where."),
    "queues": ("queues", "queues", "Show how much waits in each queue."),
    "workers": ("queues", "workers", "Show the workers and what they run."),
    "kinds": ("pausing", "kinds", "Show the kinds, and how many of each run."),
    "pause": ("pausing", "pause", "Stop claims of a queue's jobs, or a kind's."),
    "resume": ("pausing", "resume", "Let them be claimed again."),
    "freeze": ("pausing", "freeze", "Stop jobs that write a company's books, or a brand's."),
    "thaw": ("pausing", "thaw", "Let them be claimed again."),
    "freezes": ("pausing", "freezes", "Show whose books are frozen."),
    "periods": ("periods", "periods", "Show a company's accounting periods."),
    "period": ("periods", "period", "Show, close or reopen one."),
    "limits": ("limits", "limits", "Show, set and remove running limits."),
    "weights": ("limits", "weights", "Show or set the brands' weights in a queue."),
    "methods": ("methods", "methods", "Show how an item is costed; decide it."),
    "cost-runs": ("cost_runs", "cost_runs", "Show what costings found, and what proves it."),
    "costs": ("cost_runs", "costs", "Show what holds for a period now."),
    "documents": ("documents", "documents", "Put, list, show and void documents."),
    "ledger": ("ledger", "ledger", "A company's ledger, its reports, its chart."),
    "unpost": ("unposting", "unpost", "Take posted documents off the ledger."),
    "outcomes": ("unposting", "outcomes", "Show what became of a posting's documents."),
    "migrations": ("migrations", "migrations", "Run a task over all rows; pause and resume it."),
    "import": ("importing", "import_", "Bring a file's lines into the books."),
    "export": ("export", "export", "Write a table of a cost run into a file."),
    "alerts": ("alerts", "alerts", "Alert rules, what fires now, silence."),
    "doctor": ("doctor", "doctor", "Look for what hangs; put a restored database right."),
    "config": ("config", "config", "Print the effective settings, without secrets."),
    "completion": ("completion", "completion", "Print a shell's completion script."),
    "costing": ("processes", "costing", "Try the costing on a worked example."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"shared.cli.{module}"), name)
        assert isinstance(command, click.Command), f"{module}.{name} is a command"
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table, so that no command is imported for it, and from the options."""
        named = [
            CompletionItem(name, help=said)
            for name, (_, _, said) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, _, said) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chot", message="%(version)s")
def chot() -> None:
    """Chốt: jobs whose effects are committed once, by their one owner, or not at all.

    Commands that work on jobs talk to CHOT_API_URL with CHOT_TOKEN. Each has --json; exit codes
    are stable: 0 done, 1 the answer is no (the job died, the schema is old), 2 usage, 3 not
    found, 4 refused, 5 conflict, 6 the job was cancelled, 69 out of reach, 78 wrong
    configuration, 124 waited too long.
    """


def main() -> None:
    """Run the command line; every failure of the world is a sentence and an exit code."""
    sys.excepthook = _exit_on_bug
    sys.exit(run())


def run(words: Sequence[str] | None = None) -> int:
    """Run one command (None: that of this process) and return its exit code."""
    try:
        _refuse_other_than_text(sys.argv[1:] if words is None else words)
        code = chot.main(words, prog_name="chot", standalone_mode=False)
    except Failure as failure:
        failure.show()
        return failure.code
    except ConfigRefused as refusal:
        Failure(str(refusal), code=Exit.CONFIG).show()
        return Exit.CONFIG
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return Exit.INTERRUPTED
    return code if isinstance(code, int) else Exit.OK


def _refuse_other_than_text(words: Sequence[str]) -> None:
    """UsageError for a word that no request can carry; a file may be named as it likes."""
    for word in words:
        broken = any("\ud800" <= character <= "\udfff" for character in word)
        if broken and not Path(word).exists():
            raise click.UsageError(f"this is not UTF-8: {visible(word)}")


def _exit_on_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show a bug as Python does, but not with exit code 1, which has a meaning of its own."""
    sys.__excepthook__(kind, error, trace)
    sys.exit(Exit.BUG)

"""Names that the shell completes: kinds and queues, of this machine and of the api; acts."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from shared.cli.exits import Failure
from shared.cli.http import Api
from shared.errors import ConfigRefused

if TYPE_CHECKING:
    from shared.kinds import Kind

SECONDS = 1.0  # whoever has pressed a key waits no longer for the api


class KindName(click.ParamType):  # type: ignore[type-arg] # generic in newer click only
    """A kind of job; any text is taken, since only the api knows all kinds.

    `submitted`: one of which a job is to be submitted.
    """

    name = "kind"

    def __init__(self, *, submitted: bool = False) -> None:
        self._submitted = submitted

    def shell_complete(
        self, _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Kinds that this machine declares, and those that a worker of the api knows.

        Where a job is submitted, without the internal ones.
        """
        declared = _declared()
        known = set(declared) | {name for each in _asked("workers") for name in each["kinds"]}
        if self._submitted:
            known -= {name for name, kind in declared.items() if kind.internal}
        return [CompletionItem(name) for name in sorted(known) if name.startswith(incomplete)]


class QueueName(click.ParamType):  # type: ignore[type-arg] # generic in newer click only
    """A queue of the api."""

    name = "queue"

    def shell_complete(
        self, _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Queues that the api lists."""
        known = sorted(each["name"] for each in _asked("queues"))
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


class ActionName(click.ParamType):  # type: ignore[type-arg] # generic in newer click only
    """An act of the audit; `approvable`: one that can ask for an approval. Any text is taken."""

    name = "action"

    def __init__(self, *, approvable: bool = False) -> None:
        self._approvable = approvable

    def shell_complete(
        self, _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The acts that this version knows."""
        from shared.approvals import APPROVABLE  # noqa: PLC0415 - for a completion only
        from shared.audit import Action  # noqa: PLC0415

        # An unposting is approved by `chot unpost … --approve`, with what it is about to unpost.
        known = sorted(APPROVABLE - {Action.POSTING_UNPOST} if self._approvable else Action)
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def _declared() -> Mapping[str, "Kind"]:
    from shared.kinds.registry import load_kinds  # noqa: PLC0415 - for a completion only

    with suppress(ConfigRefused):
        return load_kinds(os.environ.get("CHOT_KIND_MODULES", ""))
    return {}


def _asked(what: str) -> list[dict[str, Any]]:
    with suppress(Failure), Api(retry_for=0, timeout=SECONDS) as api:
        found: list[dict[str, Any]] = api.get(f"/v1/{what}").body[what]
        return found
    return []

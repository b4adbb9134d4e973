"""A migration's task: what the api must know of it, without the worker's code."""

from dataclasses import dataclass

from shared.kinds import Payload


class NoParams(Payload):
    """Of a task that asks for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task of data migration, as it is asked for.

    `version` counts up when `apply` or the key changes what a run means: a run that one version
    has begun is never gone on with by another. `params` refuses unknown members, as payloads do.
    A task that is not `per_brand` is of a whole company: its job has no brand. `operates`: it
    changes what others have made, so that asking for it needs role operate.
    """

    name: str
    description: str
    version: int = 1
    params: type[Payload] = NoParams
    per_brand: bool = False
    operates: bool = True

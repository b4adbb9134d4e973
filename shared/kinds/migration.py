"""Kind `migration.run`: a registered task over all of its rows, batch by batch."""

import re
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from shared.json_text import to_json
from shared.kinds import Kind, Lock, Payload, RetryPolicy
from shared.migrations import TaskSpec
from shared.migrations.registry import known_tasks

WINDOW = r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$"
MOST_TOLD = 20
MOST_SHOWN = 80


class MigrationRunPayload(Payload):
    """Which task, on what, and how carefully.

    `version` asserts which version of the task runs. `dry_run` applies every batch, counts, and
    takes it back. `batch_size` is that of the first batch, later ones are made to take `target_ms`
    each. The run is dead once more than `max_rejects` rows, or more than `max_reject_percent` of
    all, could not be taken. Within the `window` (HH:MM-HH:MM of the company's day) batches begin.
    """

    task: Annotated[str, Field(min_length=1, max_length=100, examples=["pools.assign"])]
    version: Annotated[int, Field(ge=1)] | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    dry_run: bool = False
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    target_ms: Annotated[int, Field(ge=50, le=20_000)] = 2_000
    max_rejects: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    max_reject_percent: Annotated[int, Field(ge=0, le=100)] = 5
    window: Annotated[str, Field(pattern=WINDOW, examples=["22:00-05:00"])] | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        spec = known_tasks().get(self.task)
        if spec is None:
            known = ", ".join(sorted(known_tasks())[:MOST_TOLD])
            raise _refused(f"task {self.task!r} is none of those known here: {known}")
        if self.version not in {None, spec.version}:
            raise _refused(f"version {self.version}: task {spec.name} is of version {spec.version}")
        params_of(spec, self.params)
        if self.window is not None and len(set(re.split("-", self.window))) == 1:
            raise _refused(f"window {self.window!r} begins when it ends: leave it out for all day")
        return self


def params_of(spec: TaskSpec, params: dict[str, Any]) -> Payload:
    """The task's parameters as its model has them; PydanticCustomError names member and rule."""
    try:
        return spec.params.model_validate_json(to_json(params), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        field = ".".join(("params", *map(str, found["loc"])))
        if found["type"] == "missing":
            raise _refused(f"{field}: is required") from None
        value = to_json(found["input"])[:MOST_SHOWN]
        said = f"{field}: {found['msg']}{_like(spec, found)}; it is {value}"
        raise _refused(said) from None


def _like(spec: TaskSpec, found: ErrorDetails) -> str:
    """An example, where the member has one."""
    member = spec.params.model_fields.get(str(found["loc"][0])) if found["loc"] else None
    return f", such as {member.examples[0]}" if member is not None and member.examples else ""


def _refused(rule: str) -> PydanticCustomError:
    return PydanticCustomError("migration", "{rule}", {"rule": rule})


# Of one task only one run of a company runs; others wait. An attempt ends itself every few
# minutes, so the timeout is that of one that hangs.
MIGRATION_RUN = Kind(
    name="migration.run",
    payload=MigrationRunPayload,
    queue="default",
    timeout=timedelta(hours=1),
    retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), cap=timedelta(minutes=2)),
    fingerprint_fields=("*",),
    locks=(Lock(root="migration/{company}/{payload.task}"),),
    by_account=True,  # a task that changes what others have made asks for role operate
)

KINDS = (MIGRATION_RUN,)

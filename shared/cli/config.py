"""`chot config`: the settings a process would start with, where each comes from, no secret."""

import importlib
import os
from dataclasses import dataclass
from typing import Any

import click
from pydantic import SecretStr
from pydantic_settings import BaseSettings
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.options import as_json, print_json
from shared.cli.processes import MISSING, is_installed
from shared.cli.settings import ClientSettings
from shared.cli.tables import table
from shared.errors import ConfigRefused
from shared.settings import MigrateSettings, SharedSettings, load

# Named, not imported: an image holds one side only, and shared stands below both.
PROCESSES = {
    "api": ("api.settings", "ApiSettings"),
    "worker": ("worker.settings", "WorkerSettings"),
}
HIDDEN = "********"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as it is in force; origin is default, environment, scaled or unset."""

    name: str
    value: Any
    origin: str
    meaning: str


@click.command()
@click.argument("process", type=click.Choice([*PROCESSES, "client", "migrate"]), required=False)
@as_json
def config(*, process: str | None, as_json: bool) -> None:
    """Print the effective settings of a process (without one: those both sides share).

    Exit code 78 names the settings that are wrong or disagree, as the process itself would.
    """
    chosen = _settings_class(process)
    try:
        found = effective(load(chosen))
    except ConfigRefused as refusal:
        raise Failure(f"{refusal}\n{_advice(process)}", code=Exit.CONFIG) from None
    if as_json:
        print_json({each.name: {"value": each.value, "origin": each.origin} for each in found})
        return
    rows = [(each.name, each.value, each.origin, each.meaning) for each in found]
    show.console().print(
        table("", ("setting", "value", "origin", "meaning"), rows, below=("meaning",))
    )


def _settings_class(process: str | None) -> type[BaseSettings]:
    if process == "client":
        return ClientSettings
    if process == "migrate":
        return MigrateSettings
    if process is None:
        return SharedSettings
    module, name = PROCESSES[process]
    if not is_installed(module):
        raise Failure(MISSING[process], code=Exit.CONFIG)
    found: type[BaseSettings] = getattr(importlib.import_module(module), name)
    return found


def _advice(process: str | None) -> str:
    asked = f"`chot config {process}`" if process else "`chot config`, without a process,"
    shared = {None: "api and worker share", "client": "this command line itself uses"}
    what = shared.get(process, f"`chot {process}` starts with")
    return (
        f"{asked} checks the settings that {what}. `chot dev` prints those of its stack; "
        "`chot config client` needs no database."
    )


def effective(settings: BaseSettings) -> list[Setting]:
    """Every setting in force, in the order they are declared."""
    prefix = str(settings.model_config.get("env_prefix", ""))
    given = {name.upper() for name in os.environ}
    scaled = _scaled(settings)
    found = []
    for field, info in type(settings).model_fields.items():
        assert info.description, f"{field} is shown without a meaning"
        name = (prefix + field).upper()
        value = getattr(settings, field)
        origin = "environment" if name in given else "default"
        if value is None and field in scaled:
            value, origin = scaled[field], "scaled"
        elif value is None:
            origin = "unset"
        found.append(
            Setting(
                name=name,
                value=_public(field, value),
                origin=origin,
                meaning=info.description,
            )
        )
    return found


def _scaled(settings: BaseSettings) -> dict[str, float]:
    """What settings become where they are not set; refuses times of the lease that disagree."""
    if not isinstance(settings, SharedSettings):
        return {}
    settings.timing.refuse_unsafe()
    return settings.scaled


def _public(field: str, value: Any) -> Any:
    """A value that may be shown: of a database URL all but its password, of a token nothing."""
    if not isinstance(value, SecretStr):
        return value if isinstance(value, int | float | bool | None) else str(value)
    if not field.endswith("database_url"):
        return HIDDEN
    try:
        url = make_url(value.get_secret_value())
    except ArgumentError:
        return HIDDEN
    return url.set(query={}).render_as_string(hide_password=True)

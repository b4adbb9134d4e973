"""Names of kinds and tasks, and the modules that offer them."""

import importlib
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from shared.errors import ConfigRefused

NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


def split_modules(setting: str) -> list[str]:
    """Module names of a comma-separated setting."""
    return [name.strip() for name in setting.split(",") if name.strip()]


def import_setting(name: str, setting: str) -> ModuleType:
    """Import a module that a setting names; ConfigRefused says which and why not."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ConfigRefused(f"CHOT_{setting}_MODULES names {name!r}, but {said}") from error


def exported(module: ModuleType, name: str) -> Sequence[Any]:
    """The list that a module offers under `name`."""
    found = getattr(module, name, None)
    if not isinstance(found, Sequence):
        raise ConfigRefused(f"module {module.__name__} offers no list named {name}")
    return found

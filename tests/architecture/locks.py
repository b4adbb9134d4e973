"""The images' locks, read as pip reads them."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)( ;.*)? \\$")


def lock_text(side: str) -> str:
    """Return the lock of `api` or `worker`."""
    return (ROOT / "requirements" / f"{side}.txt").read_text()


def pins(side: str) -> dict[str, str]:
    """Return normalized name → version of everything the lock installs."""
    found = (PIN.match(line) for line in lock_text(side).splitlines())
    return {normal(pin["name"]): pin["version"] for pin in found if pin}


def locked_names(side: str) -> list[str]:
    """Return the normalized names of everything the lock installs."""
    return sorted(pins(side))


def project() -> dict[str, Any]:
    """Return the [project] table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def normal(name: str) -> str:
    """Return the name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()

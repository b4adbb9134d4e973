"""On what it was measured: machine, load before, versions, settings of the server."""

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asyncpg

from bench.place import SERVER_SETTINGS, Place
from dev.stack_config import ROOT

LIBRARIES = (
    *("fastapi", "uvicorn", "pydantic", "sqlalchemy", "asyncpg", "aiobotocore", "botocore"),
    *("alembic", "structlog", "ministack"),
)
KIB_A_GIB = 1024**2
DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")


def read_machine() -> dict[str, Any]:
    """Processor, cores, memory, and how busy it is now: to be asked before anything starts."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / KIB_A_GIB),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "kernel": platform.release(),
    }


async def read_versions(place: Place) -> dict[str, Any]:
    """Of all that takes part, ours by its commit."""
    connection = await asyncpg.connect(place.postgres.url())
    try:
        server = await connection.fetchval("SHOW server_version")
        durable = {name: await connection.fetchval(f"SHOW {name}") for name in DURABILITY}
    finally:
        await connection.close()
    return {
        "commit": read_commit(),
        "python": platform.python_version(),
        "postgresql": server,
        "libraries": {name: version(name) for name in LIBRARIES},
        "server_settings": SERVER_SETTINGS,
        "durability": durable,
        "data_on": file_system_of(place.postgres.data),
    }


def read_commit() -> str:
    """Our commit, with a plus where the tree has changes; "unknown" outside of git."""
    try:
        commit = _git("rev-parse", "--short=10", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments],  # noqa: S607 - whichever git is there
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The kind of file system that holds the path: ext4, xfs, tmpfs, overlay and so on."""
    told = Path("/proc/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    places = [line.split()[1:3] for line in told.splitlines()]
    above = [(Path(at), kind) for at, kind in places if path.is_relative_to(at)]
    return max(above, key=lambda found: len(found[0].parts))[1] if above else "unknown"


def machine_line(machine: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """All of it in a sentence."""
    durable = ", ".join(f"{name} {value}" for name, value in versions["durability"].items())
    libraries = ", ".join(f"{name} {number}" for name, number in versions["libraries"].items())
    return (
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, load "
        f"{machine['load_before'][0]:g} before; commit {versions['commit']}; Python "
        f"{versions['python']}, PostgreSQL {versions['postgresql']} ({durable}; data on "
        f"{versions['data_on']}); {libraries}"
    )

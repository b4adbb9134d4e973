"""The page that a run of the bench writes: what was measured, on which machine, and when."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.costing import Measured
from bench.peer import Compared
from bench.posting import Posted
from dev.stack_config import ROOT

PAGE = ROOT / "docs" / "bench.md"
PHASES = ("list", "read", "compute", "write", "settle", "activate")
ALSO = ("CPU worker, database", "peak MiB", "results MB", "pools", "largest circle")
KIB_A_GIB = 1024**2

TEMPLATE = ROOT / "bench" / "page.md"


def page(
    measured: Sequence[Measured],
    shared: Sequence[Measured],
    compared: Sequence[Compared],
    posted: Sequence[Posted],
    *,
    server: str,
) -> str:
    """The whole page."""
    return TEMPLATE.read_text(encoding="utf-8").format(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=_machine(),
        server=server,
        movements=measured[0].movements,
        items=measured[0].items,
        own="\n".join(_own(measured)),
        shared="\n".join(_shared(shared)),
        peer="\n".join(_peer(compared)) or "Not run this time.",
        posted="\n".join(_posted(posted)),
    )


def write_page(text: str) -> Path:
    """Put the page where it is read."""
    PAGE.write_text(text, encoding="utf-8")
    return PAGE


def _own(measured: Sequence[Measured]) -> list[str]:
    rows = [
        "| method | seconds | movements/s | "
        + " | ".join(PHASES)
        + " | CPU worker + child, database"
        " | peak MiB | results MB | pools | largest circle |",
        "|---|--:|--:|" + "--:|" * (len(PHASES) + len(ALSO)),
    ]
    for one in measured:
        phases = " | ".join(f"{one.phases.get(phase, 0.0):.1f}" for phase in PHASES)
        rows.append(
            f"| {one.method} | {one.seconds:.1f} | {one.movements / one.seconds:,.0f} | {phases} | "
            f"{one.cpu['worker']:.1f}, {one.cpu['database']:.1f} | {one.peaks.together} | "
            f"{one.result_megabytes} | {one.pools:,} | {one.largest_circle} |"
        )
    return rows


def _shared(shared: Sequence[Measured]) -> list[str]:
    rows = [
        "| method | workers | parts | seconds | CPU workers + children, database | checksum |",
        "|---|--:|--:|--:|--:|---|",
    ]
    rows += [
        f"| {one.method} | {one.workers} | {one.parts} | {one.seconds:.1f} | "
        f"{one.cpu['worker']:.1f}, {one.cpu['database']:.1f} | `{one.checksum[:8]}` |"
        for one in shared
    ]
    return rows


def _peer(compared: Sequence[Compared]) -> list[str]:
    if not compared:
        return []
    rows = [
        "| method | moves | items | Tryton, s | moves/s | ours, s | moves/s | differs | may be |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in compared:
        theirs = ("not tried", "")
        if one.theirs is not None:
            theirs = (f"{one.theirs:.1f}", f"{one.movements / one.theirs:,.0f}")
        rows.append(
            f"| {one.method} | {one.movements:,} | {one.items:,} | {theirs[0]} | {theirs[1]} | "
            f"{one.ours:.2f} | {one.movements / one.ours:,.0f} | {one.largest_difference or ''} | "
            f"{one.allowed_there or ''} |"
        )
    return rows


def _posted(posted: Sequence[Posted]) -> list[str]:
    rows = [
        "| way | documents | lines | seconds | documents/s | as the plain INSERT |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    plain = posted[-1].seconds
    rows += [
        f"| {one.way} | {one.documents:,} | {one.lines:,} | {one.seconds:.1f} | "
        f"{one.documents / one.seconds:,.0f} | {one.seconds / plain:.1f} × |"
        for one in posted
    ]
    return rows


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]) / KIB_A_GIB
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}, {memory:.0f} GiB, "
        f"load {load:.1f} at the end, Python {platform.python_version()}"
    )

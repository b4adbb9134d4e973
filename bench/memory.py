"""What a process and all that it starts take: peak memory and CPU, by the kernel's own counts."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

LOOK_SECONDS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Largest resident sizes in MiB: of the process, of its largest child, of all at one moment."""

    process: int
    largest_child: int
    together: int


class MemoryWatch:
    """Looks at a process tree until the block ends; then `peaks` has what it saw."""

    def __init__(self, pid: int) -> None:
        self.peaks = Peaks(process=0, largest_child=0, together=0)
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory", daemon=True)

    def __enter__(self) -> Self:
        # The mark of before this run must not count for it.
        (Path("/proc") / str(self._pid) / "clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        process = largest = together = 0
        while not self._stop.wait(LOOK_SECONDS):
            own, mark = _memory(self._pid)
            children = [_memory(pid) for pid in children_of(self._pid)]
            process = max(process, mark)
            largest = max([largest, *(mark for _, mark in children)])
            together = max(together, own + sum(now for now, _ in children))
            self.peaks = Peaks(
                process=process // 1024, largest_child=largest // 1024, together=together // 1024
            )


def children_of(pid: int) -> Iterator[int]:
    """Everything that a process has started and that still runs."""
    for task in (Path("/proc") / str(pid) / "task").glob("*/children"):
        try:
            direct = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in direct:
            yield child
            yield from children_of(child)


def cpu_seconds(pid: int) -> float:
    """CPU that a process, its running children and those that it has buried have taken."""
    return _cpu(pid) + sum(_cpu(child) for child in children_of(pid))


def _cpu(pid: int) -> float:
    try:
        stat = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    # After the name, which may hold spaces: utime, stime, cutime and cstime.
    return sum(int(field) for field in stat.rpartition(")")[2].split()[11:15]) / TICKS


def _memory(pid: int) -> tuple[int, int]:
    """Resident now, and the high-water mark, in KiB; nothing of a process that is gone."""
    try:
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    if len(sizes) < 2:
        return 0, 0
    return int(sizes["VmRSS"].split()[0]), int(sizes["VmHWM"].split()[0])

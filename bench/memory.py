"""The peak memory of a process and of all that it starts, by the kernel's own high-water marks."""

import threading
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.05


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

    def __enter__(self) -> "MemoryWatch":
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
            own, marks = _memory(self._pid)
            children = [_memory(pid) for pid in _children(self._pid)]
            process = max(process, marks)
            largest = max([largest, *(mark for _, mark in children)])
            together = max(together, own + sum(now for now, _ in children))
            self.peaks = Peaks(
                process=process // 1024, largest_child=largest // 1024, together=together // 1024
            )


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in (Path("/proc") / str(pid) / "task").glob("*/children"):
        try:
            direct = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        found += direct
        for child in direct:
            found += _children(child)
    return found


def _memory(pid: int) -> tuple[int, int]:
    """Resident now, and the high-water mark, in KiB; nothing of a process that is gone."""
    try:
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    return tuple(int(sizes.get(name, "0 kB").split()[0]) for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]  # two names, two numbers

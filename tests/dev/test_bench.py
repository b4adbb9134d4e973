"""The bench's own parts: movements that the peer and we both take, what is read of processes, the page."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

from bench import timed_worker
from bench.costing import Measured
from bench.memory import MemoryWatch, Peaks, cpu_seconds
from bench.peer import Compared
from bench.peer_movements import PER_ITEM, peer_movements
from bench.posting import Posted
from bench.report import page
from worker import offload

MEASURED = Measured(
    method="fifo",
    pool="store",
    workers=2,
    parts=5,
    movements=1_000_000,
    items=20_000,
    pools=125_000,
    largest_circle=5,
    seconds=25.0,
    cpu={"worker": 20.0, "database": 8.0},
    phases={"list": 1.0, "read": 5.0},
    peaks=Peaks(process=150, largest_child=45, together=200),
    result_megabytes=200,
    checksum="00",
)
COMPARED = Compared(
    method="fifo",
    movements=400,
    items=8,
    ours=0.25,
    theirs=10.0,
    largest_difference="0.01",
    allowed_there="0.2",
)

POSTED = [
    Posted(way="atomic", documents=1_000, lines=5_000, seconds=2.0),
    Posted(way="plain INSERT", documents=1_000, lines=5_000, seconds=0.5),
]


def test_peer_movements_never_go_below_zero_and_come_in_before_they_go_out() -> None:
    moves = list(peer_movements(5_000))
    assert (len(moves), [m.id for m in moves]) == (5_000, list(range(1, 5_001)))
    assert set(Counter(m.item for m in moves).values()) == {PER_ITEM}
    assert {m.kind for m in moves} == {"receipt", "issue", "transfer"}
    held: Counter[tuple[int, int]] = Counter()
    left: set[tuple[int, object]] = set()
    for move in moves:
        shelf = (move.item, move.store)
        if move.kind == "receipt":
            assert (move.item, move.day) not in left, "the peer's FIFO takes a day as a whole"
            held[shelf] += move.quantity
            continue
        if move.kind == "issue":
            left.add((move.item, move.day))
        held[shelf] -= move.quantity
        assert held[shelf] >= 0
        if move.to_store is not None:
            held[move.item, move.to_store] += move.quantity


def test_memory_and_cpu_of_a_process_and_its_child_are_seen() -> None:
    """A child that fills 50 MiB is in the peak of all together."""
    grandchild = "x = bytearray(50_000_000); import sys; print(flush=True); sys.stdin.read()"
    child = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE); p.stdout.readline();"
        " print(flush=True); sys.stdin.read(); p.communicate()"
    )
    argv = [sys.executable, "-c", child, grandchild]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with MemoryWatch(process.pid) as memory:
            while memory.peaks.largest_child < 40:
                pass
        assert memory.peaks.together >= memory.peaks.largest_child
        assert cpu_seconds(process.pid) > 0
        process.communicate()
    assert cpu_seconds(os.getpid()) > 0


def test_every_step_that_is_timed_is_there() -> None:
    """A step that got another name would be missing here, not measured as nothing."""
    for module, names in timed_worker.STEPS.values():
        for name in names:
            assert callable(getattr(module, name))
    assert callable(getattr(offload.Child, timed_worker.ASK))


def test_the_page_has_what_was_measured() -> None:
    compared = [COMPARED, replace(COMPARED, movements=1_000_000, theirs=None)]
    text = page([MEASURED], [MEASURED], compared, POSTED, server="18")
    assert "| fifo | 25.0 | 40,000 | 1.0 | 5.0 |" in text
    assert "| fifo | 2 | 5 | 25.0 | 20.0, 8.0 | `00` |" in text
    assert "| fifo | 400 | 8 | 10.0 | 40 | 0.25 | 1,600 | 0.01 | 0.2 |" in text
    assert "| fifo | 1,000,000 | 8 | not tried |" in text
    assert "| atomic | 1,000 | 5,000 | 2.0 | 500 | 4.0 × |" in text
    assert "Not run this time." in page([MEASURED], [], [], POSTED, server="18")

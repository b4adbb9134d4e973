"""The suite that measures speed: its arithmetic, what it prints and writes; no time is judged here."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import __main__ as command
from bench.counting import parse_calls, parse_wal
from bench.figures import Figure, count, difference, quantile, ratio
from bench.machine import file_system_of, read_machine
from bench.place import Place, open_place
from bench.plot import FURTHEST, beyond, plot
from bench.readme import BEGIN, END, README, NoMarkers, between, section
from bench.row import Measured, Row, Scale, Sizes
from bench.rows.all import NAMES, row_named, rows_of
from bench.rows.memory import change
from bench.running import BenchFailed
from bench.suite import RowRun, row_run_of, run_row
from bench.words import markdown, measured, number, table, target
from dev.stack_config import ROOT

PAGE = (ROOT / "bench" / "README.md").read_text()
RATE = ratio("jobs", [60.0, 70.0, 90.0], [100.0, 100.0, 100.0], unit="/s", at_least=0.6)
TAKEN = {
    "taken_at": "2026-01-02T03:04:05+00:00",
    "scale": "usual",
    "machine": {"cpu": "Test CPU", "cores": 2, "memory_gib": 8, "load_before": [0.25, 0.2, 0.1]},
    "versions": {
        "commit": "abc",
        "python": "3.11",
        "postgresql": "18.6",
        "libraries": {"asyncpg": "0.32"},
        "durability": {"fsync": "on"},
        "data_on": "ext4",
    },
}


def run_of(*figures: Figure, failed: str | None = None, **changes: Any) -> RowRun:
    given: dict[str, Any] = {
        "name": "drain",
        "title": "drain of jobs",
        "against": "loops",
        "taken_at": "2026-01-02T03:04:05+00:00",
        "commit": "abc",
        "scale": "usual",
        "seconds": 1.5,
        "sizes": {"rounds": 3},
        "figures": list(figures),
        "failed": failed,
    }
    return RowRun(**given | changes)


def test_a_ratio_is_the_median_of_rounds_with_its_spread() -> None:
    """Round by round: a round in which the machine was slow is slow for both."""
    slow = ratio("jobs", [50.0, 8.0, 60.0], [100.0, 10.0, 100.0], unit="/s", at_least=0.6)
    assert (slow.value, slow.low, slow.high) == (0.6, 0.5, 0.8)
    assert (slow.ours, slow.limit) == (50.0, 100.0)
    assert slow.reached


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (ratio("a", [0.7], [1.0], unit="", at_least=0.7), True),
        (ratio("a", [0.69], [1.0], unit="", at_least=0.7), False),
        (ratio("a", [2.0], [1.0], unit="", at_most=2.0), True),
        (ratio("a", [2.01], [1.0], unit="", at_most=2.0), False),
        (difference("a", [12.0], [4.0], unit="ms", at_most=8.0), True),
        (difference("a", [12.1], [4.0], unit="ms", at_most=8.0), False),
        (count("a", [0.6], unit="", at_most=0.6), True),
        (count("a", [96.0], unit="%", at_least=95.0), True),
        (count("a", [94.9], unit="%", at_least=95.0), False),
        (count("a", [94.9], unit="%"), None),
    ],
)
def test_a_target_is_reached_from_its_own_side(figure: Figure, reached: bool | None) -> None:  # noqa: FBT001 - a table
    assert figure.reached is reached


def test_quantiles_are_values_that_were_measured() -> None:
    times = [float(n) for n in range(1, 101)]
    assert [quantile(times, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert quantile([7.0], 0.99) == 7.0


def test_memory_that_falls_or_grows_has_changed() -> None:
    assert change([100.0, 104.0, 98.0]) == pytest.approx(4.0)
    assert change([100.0, 100.0, 88.0]) == pytest.approx(12.0)


def test_wal_is_counted_without_full_page_images() -> None:
    """Of pg_waldump's table: the column "Record size" alone, and commits as records."""
    told = """
WAL statistics between 0/1 and 0/2:
Type                 N      (%)   Record size      (%)   FPI size      (%)   Combined size      (%)
----                 -      ---   -----------      ---   --------      ---   -------------      ---
Heap/UPDATE          3 ( 60.00)           240 ( 70.00)      24576 (100.00)           24816 ( 99.00)
Transaction/COMMIT   2 ( 40.00)           104 ( 30.00)          0 (  0.00)             104 (  1.00)
                --------                --------          --------                 --------
Total                5                      344 [1.38%]     24576 [98.62%]           24920 [100%]
"""
    assert parse_wal(told) == (344, 2)


def test_calls_to_sqs_are_added_up_by_operation() -> None:
    told = """# TYPE chot_sqs_calls_total counter
chot_sqs_calls_total{operation="send",result="ok"} 12.0
chot_sqs_calls_total{operation="send",result="failed"} 1.0
chot_sqs_calls_total{operation="receive",result="ok"} 3.0
chot_sqs_entries_refused_total{operation="send"} 9.0
"""
    assert parse_calls(told) == {"send": 13, "receive": 3}


def test_the_data_lies_on_the_file_system_that_is_mounted_deepest() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
    assert file_system_of(Path("/dev/shm/x"), mounts) == "tmpfs"  # noqa: S108 - a name
    assert file_system_of(Path("/var/x"), mounts) == "ext4"
    assert read_machine()["cores"]


def test_numbers_are_told_in_three_digits_and_ratios_with_their_spread() -> None:
    assert [number(n) for n in (0, 0.1234, 1.234, 12.34, 1234.5)] == [
        *("0", "0.123", "1.23", "12.3", "1,234")
    ]
    assert (measured(RATE), target(RATE)) == ("0.700 × (0.600 to 0.900)", "≥ 0.600 ×")
    late = difference("p50", [3.0], [5.0], unit="ms", at_most=8)
    assert (measured(late), target(late)) == ("−2.00 ms", "≤ +8.00 ms")


def test_a_failed_row_stands_in_the_table_as_failed() -> None:
    runs = [run_of(RATE), run_of(name="bulk", failed="BenchFailed: no | rows\nmore")]
    told = table(runs)
    assert "0.700 × (0.600 to 0.900)" in told
    assert "FAILED" in told
    assert "no \\| rows | | not reached |" in markdown(runs)
    assert [run.reached for run in runs] == [True, False]
    assert "1 of 2 targets reached" in section(TAKEN, runs)


def test_what_was_not_judged_is_not_in_the_readme() -> None:
    runs = [run_of(RATE, count("only told", [1.0], unit=""))]
    assert "only told" in table(runs)
    assert "only told" not in section(TAKEN, runs)


def test_rows_of_another_run_are_named() -> None:
    runs = [run_of(RATE), run_of(RATE, name="history", commit="old")]
    said = section(TAKEN, runs)
    assert "Of another run: history." in said
    assert "load 0.25 before; commit abc" in said


def test_the_readme_is_written_between_its_markers_only() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert between(text, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert between(between(text, "new"), "new") == between(text, "new")
    for broken in ("no markers", text + text, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"):
        with pytest.raises(NoMarkers):
            between(broken, "new")
    assert between(README.read_text(), "new") != README.read_text()


def test_the_picture_is_sound_and_shows_every_judged_figure() -> None:
    figures = [
        RATE,
        difference("early", [1.0], [5.0], unit="s", at_most=1.0),
        count("never", [0.0], unit="%", at_least=95.0),
        count("<told> & not judged", [1.0], unit=""),
        count("a < b", [2.0], unit="", at_most=1.0),
    ]
    drawn = ET.fromstring(plot([run_of(*figures), run_of(failed="no")]))  # noqa: S314 - our own
    bars = [each for each in drawn if each.tag.endswith("rect")]
    assert [bar.get("class") for bar in bars] == ["yes", "yes", "no", "no"]
    assert [beyond(each) for each in figures[1:3]] == [FURTHEST, -FURTHEST]
    assert beyond(figures[4]) == -1.0


def test_a_run_is_the_same_after_its_json() -> None:
    run = run_of(RATE, limits=[{"rate": 1.0}], detail={"loops": 4})
    told = json.loads(json.dumps(run.as_json()))
    assert row_run_of(told).as_json() == told
    assert row_run_of(told).figures == run.figures


def test_a_later_files_rows_win_and_stand_in_the_order_of_the_table(tmp_path: Path) -> None:
    files = []
    for place, names in enumerate((("memory", "drain"), ("submit", "drain"))):
        rows = [run_of(RATE, name=name, seconds=float(place)).as_json() for name in names]
        files.append(tmp_path / f"{place}.json")
        command.keep(TAKEN | {"rows": rows}, files[-1], tmp_path / "run.svg")
    told = command._read(files)
    found = [(row["name"], row["seconds"]) for row in told["rows"]]
    assert found == [("submit", 1.0), ("drain", 1.0), ("memory", 0.0)]


def test_sizes_are_given_by_name() -> None:
    asked = command.parser().parse_args(["drain", "--set", "jobs=5_000", "--set", "rounds=2"])
    assert (asked.rows, dict(asked.set), asked.scale) == (
        ["drain"],
        {"jobs": 5000, "rounds": 2},
        Scale.USUAL,
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_its_sizes_and_its_section_on_the_page(name: str) -> None:
    row = row_named(name)
    assert row.name == name
    assert set(row.sizes) == set(Scale)
    assert len({frozenset(sizes) for sizes in row.sizes.values()}) == 1, "one size, one scale"
    assert all(sizes["rounds"] > 0 for sizes in row.sizes.values())
    assert f"\n## {name}\n" in PAGE
    assert name in rows_of(Scale.USUAL)


def a_row(ours: Any, *, turns: bool = True, order: list[str] | None = None) -> Row[None]:
    asked = order if order is not None else []

    @asynccontextmanager
    async def prepare(_place: Place, _sizes: Sizes) -> AsyncIterator[None]:
        asked.append("prepared")
        yield
        asked.append("closed")

    async def limit(_: None) -> Measured:
        asked.append("limit")
        return {"rate": 2.0}

    async def measure(_: None) -> Measured:
        asked.append("ours")
        found: Mapping[str, float] = await ours()
        return found

    def judge(limits: Sequence[Measured], mine: Sequence[Measured]) -> list[Figure]:
        rates = [each["rate"] for each in mine], [each["rate"] for each in limits]
        return [ratio("rate", *rates, unit="/s", at_least=0.5)]

    return Row(
        name="made",
        title="made",
        against="made",
        sizes={Scale.TINY: {"rounds": 3, "jobs": 1}},
        prepare=prepare,
        limit=limit,
        ours=measure,
        judge=judge,
        turns=turns,
    )


async def run(row: Row[None], **changes: int) -> RowRun:
    place: Any = None
    said: list[str] = []
    return await run_row(row, place, Scale.TINY, changes=changes, commit="abc", say=said.append)


async def one() -> Measured:
    return {"rate": 1.0}


@pytest.mark.parametrize(
    ("turns", "order"),
    [(True, "limit ours ours limit limit ours"), (False, "ours limit ours limit ours limit")],
)
async def test_limit_and_ours_are_measured_in_turn(turns: bool, order: str) -> None:  # noqa: FBT001 - a table
    asked: list[str] = []
    found = await run(a_row(one, turns=turns, order=asked), unknown=7)
    assert asked == ["prepared", *order.split(), "closed"]
    assert (found.sizes, found.failed) == ({"rounds": 3, "jobs": 1}, None)
    assert [each.value for each in found.figures] == [0.5]


async def test_a_row_that_fails_is_told_with_its_reason_and_is_closed() -> None:
    asked: list[str] = []

    async def none() -> Measured:
        raise BenchFailed("of 20,000 jobs 3 died")

    found = await run(a_row(none, order=asked), rounds=1)
    assert (found.failed, found.figures) == ("BenchFailed: of 20,000 jobs 3 died", ())
    assert asked == ["prepared", "limit", "ours"]
    assert not found.reached


@pytest.fixture(scope="module")
def place(services_home: Path) -> Any:
    with open_place(services_home) as opened:
        yield opened


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("name", NAMES)
async def test_every_row_measures_at_its_smallest(place: Place, name: str) -> None:
    """Not how fast: that it does its work, finds figures, and leaves no process behind."""
    said: list[str] = []
    found = await run_row(
        row_named(name), place, Scale.TINY, changes={}, commit="abc", say=said.append
    )
    assert found.failed is None, "\n".join(said)
    assert [each for each in found.figures if each.target is not None]
    assert row_run_of(json.loads(json.dumps(found.as_json()))).figures == found.figures

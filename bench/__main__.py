"""`python -m bench [ROW…]`: each figure beside the limit of the same machine, in the same run.

Prints a table; JSON and a picture go to --out. --write puts the table into the project's README,
from this run or, with --from, from the JSON of earlier ones (a later file's rows win).
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine_line, read_commit, read_machine, read_versions
from bench.place import open_place
from bench.plot import plot
from bench.readme import write_readme
from bench.row import Scale
from bench.rows.all import NAMES, row_named, rows_of
from bench.suite import row_run_of, run_row
from bench.words import table
from dev.stack import say_on_stderr
from dev.stack_config import ROOT

OUT = ROOT / ".chot" / "bench"
KEPT = ROOT / "bench" / "run.json"
PICTURE = ROOT / "bench" / "run.svg"


def main() -> None:
    """Run the command line; 1 where a row failed, 0 whatever was reached."""
    asked = parser().parse_args()
    if asked.list:
        print("\n".join(f"{row.name:10} {row.title}" for row in map(row_named, NAMES)))
        return
    try:
        told = _read(asked.earlier) if asked.earlier else asyncio.run(_run(asked))
    except asyncio.CancelledError:
        sys.exit("bench: ended by SIGTERM; what was measured until then is in --out")
    runs = [row_run_of(each) for each in told["rows"]]
    print(table(runs))
    print(machine_line(told["machine"], told["versions"]))
    if asked.write:
        keep(told, KEPT, PICTURE)
        write_readme(told, runs)
    sys.exit(1 if any(run.failed is not None for run in runs) else 0)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument("rows", nargs="*", metavar="ROW", help="default: all of the scale; --list")
    made.add_argument("--scale", type=Scale, choices=list(Scale), default=Scale.USUAL)
    made.add_argument(
        "--set",
        action="append",
        type=change,
        default=[],
        metavar="NAME=N",
        help="a size of the rows that have it: jobs=5000, rounds=5, movements=5000000",
    )
    made.add_argument("--where", type=Path, help="directory for the data; default: temporary")
    made.add_argument("--out", type=Path, default=OUT, help="run.json and run.svg go there")
    made.add_argument("--write", action="store_true", help="the table into README.md")
    made.add_argument("--from", dest="earlier", action="append", type=Path, metavar="JSON")
    made.add_argument("--list", action="store_true", help="name the rows")
    return made


def change(said: str) -> tuple[str, int]:
    """NAME=N as both; ValueError for anything else."""
    name, _, value = said.partition("=")
    return name, int(value.replace("_", ""))


async def _run(asked: argparse.Namespace) -> dict[str, Any]:
    # As Ctrl-C does: servers and their data must go with whoever has started them.
    task = asyncio.current_task()
    assert task is not None, "it runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    names = asked.rows or rows_of(asked.scale)
    rows = [row_named(name) for name in names]
    told: dict[str, Any] = {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": asked.scale.value,
        "machine": read_machine(),
        "rows": [],
    }
    commit = read_commit()
    say_on_stderr("starting PostgreSQL and the emulator, migrating")
    with open_place(asked.where) as place:
        told["versions"] = await read_versions(place)
        for row in rows:
            say_on_stderr(f"{row.name}: {row.title}")
            run = await run_row(
                row,
                place,
                asked.scale,
                changes=dict(asked.set),
                commit=commit,
                say=say_on_stderr,
            )
            say_on_stderr(table([run]))
            told["rows"].append(run.as_json())
            keep(told, asked.out / "run.json", asked.out / "run.svg")
    return told


def keep(told: Mapping[str, Any], data: Path, picture: Path) -> None:
    """Write JSON and picture, after every row: what was measured outlives what fails later."""
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    picture.write_text(plot([row_run_of(each) for each in told["rows"]]), encoding="utf-8")


def _read(files: Sequence[Path]) -> dict[str, Any]:
    """The last file's run, with the rows that only an earlier one has."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    rows: dict[str, Any] = {}
    for each in found:
        rows |= {row["name"]: row for row in each["rows"]}
    told: dict[str, Any] = found[-1]
    return told | {"rows": sorted(rows.values(), key=lambda row: NAMES.index(row["name"]))}


if __name__ == "__main__":
    main()

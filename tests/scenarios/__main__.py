"""`python -m tests.scenarios`: run the scenarios' tests, then write docs/scenarios.md.

The ordinary tests by default, the long ones too with `--long`. What a run found is kept in
.chot/scenarios.json with its commit and time, so that long tests may be run one scenario at a time
(`--long F37`); `--take FILE`, as often as there are files, adds what runs of pytest with the plugin
have found. Exit code 1 when a scenario has no test, an ordinary test has not passed or a long one
has failed; what is wrong is printed, and the page is not written. With `--long` it is 1 as well
while a long test has no result; the page is written, and says so.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.page import Row, complaints, merged, page_of, rows_from, rows_to

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scenarios.md"
KEPT = ROOT / ".chot" / "scenarios.json"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "tests.scenarios.plugin")
NOTHING_SELECTED = 5
KNOWN = {scenario.id for scenario in SCENARIOS}


def main() -> int:
    """Run, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="these scenarios only, e.g. F03 F11")
    parser.add_argument("--long", action="store_true", help="the long tests as well")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--take",
        type=Path,
        action="append",
        default=[],
        help="run nothing: take what a run of pytest has found; later files win",
    )
    options = parser.parse_args()
    KEPT.parent.mkdir(exist_ok=True)
    taken = [rows_from(path.read_text()) for path in options.take]
    found = taken or [_found(options)]
    kept = rows_from(KEPT.read_text()) if KEPT.exists() else []
    rows = merged(_marked(), kept, *found)
    KEPT.write_text(rows_to(rows))
    # Who asked for some hears of those; the page is written of all or not at all.
    wrong = complaints(rows, long=options.long)
    wrong = [line for line in wrong if not options.ids or line[:3] in options.ids]
    wrong += [f"{each}: no such scenario" for each in options.ids if each not in KNOWN]
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    if not complaints(rows):
        PAGE.write_text(page_of(rows))
    tried = set(options.ids) or {row.scenario for row in rows}
    sys.stdout.write(f"{len(tried)} scenarios, {len(wrong)} complaints\n")
    return 1 if wrong else 0


def _found(options: argparse.Namespace) -> list[Row]:
    tier = "scenario" if options.long else "scenario and not long"
    return [
        row
        for which, processes in (("not alone", options.processes), ("alone", 0))
        for row in _run(f"{tier} and {which}", processes, options.ids)
    ]


def _run(which: str, processes: int, ids: list[str]) -> list[Row]:
    results = KEPT.with_name("scenarios-run.json")
    results.unlink(missing_ok=True)
    command = [*PYTEST, "-m", which, "--scenario-results", str(results)]
    command += ["--scenario-ids", ",".join(ids)]
    if processes:
        command += ["--numprocesses", str(processes), "--dist", "worksteal"]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code not in (0, 1, NOTHING_SELECTED):
        raise SystemExit(f"pytest itself ended with {code}")
    return rows_from(results.read_text())


def _marked() -> list[Row]:
    """Every marked test, as pytest collects them now."""
    results = KEPT.with_name("scenarios-marked.json")
    results.unlink(missing_ok=True)
    command = [*PYTEST, "-m", "scenario", "--collect-only", "--scenario-results", str(results)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return rows_from(results.read_text())


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.scenarios`: run every scenario's tests, then write docs/scenarios.md.

Exit code 1 when a scenario has no test or one of its tests did not pass; the page is then not
written, and what is wrong is printed. Words given as arguments choose scenarios by id, without
writing the page.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.scenarios.page import Row, complaints, page_of, rows_from

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scenarios.md"
NOTHING_SELECTED = 5


def main() -> int:
    """Run, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="these scenarios only, e.g. F03 F11")
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    rows = [
        row
        for which, processes in (("not alone", options.processes), ("alone", 0))
        for row in _run(f"scenario and {which}", processes, options.ids)
    ]
    wrong = complaints(rows, set(options.ids))
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    if not wrong and not options.ids:
        PAGE.write_text(page_of(rows))
    sys.stdout.write(f"{len({row.scenario for row in rows})} scenarios, {len(wrong)} complaints\n")
    return 1 if wrong else 0


def _run(which: str, processes: int, ids: list[str]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="chot-scenarios-") as place:
        results = Path(place) / "results.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.scenarios.plugin"]
        command += ["-m", which, "--scenario-results", str(results), *_only(ids)]
        if processes:
            command += ["--numprocesses", str(processes), "--dist", "worksteal"]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if code > 1 and code != NOTHING_SELECTED:
            raise SystemExit(f"pytest itself failed with {code}")
        return rows_from(results.read_text())


def _only(ids: list[str]) -> list[str]:
    return ["--scenario-ids", ",".join(ids)] if ids else []


if __name__ == "__main__":
    sys.exit(main())

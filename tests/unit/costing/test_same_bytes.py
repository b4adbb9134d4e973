"""Equal input gives equal bytes in every process, whatever seed its hashes have (I7)."""

import os
import subprocess
import sys
from pathlib import Path

import tests

ROOT = Path(tests.__file__).parents[1]
TELL = ["-m", "tests.costing_oracle.told"]
# A process that has imported more than it needs, as one that runs other tests, too.
IMPORTING = """
import runpy, worker.handlers.costing, worker.costing.check
runpy.run_module("tests.costing_oracle.told", run_name="__main__")
"""


def test_neither_hash_seed_nor_imports_change_a_story_or_a_byte_of_its_costs() -> None:
    programs = [(0, TELL), (1, TELL), (4242, ["-c", IMPORTING])]
    children = [
        subprocess.Popen(
            [sys.executable, *program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed, program in programs
    ]
    printed = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(printed[0].splitlines()) == 2, "what was told, and what it cost"
    assert set(printed) == {printed[0]}

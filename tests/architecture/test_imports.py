"""Who may import whom, held by contracts; and each image can import what it runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.locks import ROOT, locked_names

PACKAGES = ("api", "worker", "shared", "dev")

# Imports every module of the given packages while hiding all distributions that are not locked.
IMPORT_UNDER_LOCK = """
import importlib, importlib.metadata as metadata, pkgutil, re, sys

allowed, packages = set(sys.argv[1].split(",")), sys.argv[2].split(",")
of_an_extra = {"shared.spans"}  # imported where OTEL_* variables ask for it, by nobody else
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
owners = metadata.packages_distributions()

class Hidden:
    def find_spec(self, name, path=None, target=None):
        distributions = {normal(owner) for owner in owners.get(name.partition(".")[0], ())}
        if distributions and "chot" not in distributions and not distributions & allowed:
            raise ModuleNotFoundError(f"{name} is not in this image's lock", name=name)

sys.meta_path.insert(0, Hidden())
for package in packages:
    home = importlib.import_module(package)
    for found in pkgutil.walk_packages(home.__path__, package + "."):
        if not found.name.endswith("__main__") and found.name not in of_an_extra:
            importlib.import_module(found.name)
assert not of_an_extra & set(sys.modules), "it is imported by somebody"
"""


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(linter), "--no-cache"], cwd=tree, capture_output=True, text=True, check=False
    )


def test_every_import_contract_is_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "planted", "broken"),
    [
        ("api/planted.py", "import worker.claim", "api and worker stand side by side"),
        ("worker/planted.py", "import api.settings", "api and worker stand side by side"),
        ("shared/planted.py", "import worker.claim", "api and worker stand side by side"),
        ("shared/planted.py", "def late():\n    import numpy", "numbers stay in the worker"),
        ("worker/costing/planted.py", "import sqlalchemy", "formulas do no I/O"),
        ("worker/planted.py", "import aiobotocore", "one door to AWS"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    tmp_path: Path, module: str, planted: str, broken: str
) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / module).write_text(f"{planted}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    verdicts = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert len(verdicts) == 1, done.stdout
    assert broken in done.stdout.replace("\n", " ")


@pytest.mark.parametrize("side", ["api", "worker"])
def test_each_side_imports_with_nothing_but_its_lock(side: str) -> None:
    """A library that only the development environment has would be missed in production."""
    allowed = ",".join(locked_names(side))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_UNDER_LOCK, allowed, f"shared,{side}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

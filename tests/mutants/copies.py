"""A copy of the tree in which a bug is planted and the killers are run; nobody's tree is touched."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutant import Change

ROOT = Path(__file__).parents[2]
# All killers together; a mutant that makes one wait for ever has not been killed.
SECONDS = 600

Ends = Mapping[str, tuple[str, str]]


class CannotRun(RuntimeError):
    """pytest itself did not come to an end of its own; the text is what it said."""


class Tree:
    """The files git knows of or would take in, as they are in the working tree."""

    def __init__(self, place: Path) -> None:
        # The servers of the tests run under an account of their own.
        place.chmod(0o755)
        self._copy = place / "tree"
        self._temp = place / "tmp"
        self._temp.mkdir()
        for name in _listed():
            target = self._copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())

    @contextmanager
    def planted(self, changes: Sequence[Change]) -> Iterator[None]:
        """Break the copy for as long as the body runs."""
        before = {each.file: (self._copy / each.file).read_text() for each in changes}
        try:
            for change in changes:
                path = self._copy / change.file
                text = path.read_text()
                if text.count(change.sound) != 1:
                    raise CannotRun(f"{change.file} does not hold, once: {change.sound!r}")
                path.write_text(text.replace(change.sound, change.broken))
            yield
        finally:
            for file, text in before.items():
                (self._copy / file).write_text(text)

    def run(self, killers: Sequence[str]) -> Ends:
        """Run the tests in the copy; how each of them ended."""
        results = self._temp / "ends.json"
        results.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.plugin", "--mutant-results", str(results), *killers]
        here = {
            "PYTHONPATH": str(self._copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self._temp),
        }
        try:
            done = subprocess.run(
                command,
                cwd=self._copy,
                env=os.environ | here,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CannotRun(f"the tests had not ended after {SECONDS} s") from None
        if not results.exists() or done.returncode > 1:
            raise CannotRun((done.stdout + done.stderr)[-3000:])
        ends = json.loads(results.read_text())
        return {test: (end, words) for test, (end, words) in ends.items()}


def _listed() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def tried_commit() -> str:
    """The commit whose tree is copied, and whether files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    commit, _, dirty = done.stdout.strip().partition("-")
    return f"commit `{commit}`" + (" and files changed since" if dirty else "")

"""`python -m tests.mutants`: plant each bug in a copy of the tree; its test, and no other, fails.

Writes docs/mutants.md. Exit code 1 when a bug survives or breaks what it should not; the page is
then left as it was. Words given as arguments choose bugs by their names, without writing the page.
"""

import argparse
import queue
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

from tests.mutants.catalogue import MUTANTS
from tests.mutants.copies import ROOT, CannotRun, Ends, Tree, tried_commit
from tests.mutants.mutant import Mutant
from tests.mutants.page import page_of
from tests.mutants.verdict import Verdict, judge, of_killer, passed

PAGE = ROOT / "docs" / "mutants.md"


def main(
    arguments: Sequence[str] | None = None,
    *,
    catalogue: Sequence[Mutant] = MUTANTS,
    page: Path = PAGE,
) -> int:
    """Try all (or the chosen) mutants of the catalogue; 1 unless each is killed as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="these bugs only, by words of their names")
    parser.add_argument("--processes", type=int, default=2, help="copies side by side")
    options = parser.parse_args(arguments)
    words = " ".join(options.words)
    chosen = [mutant for mutant in catalogue if words in mutant.name]
    killers = list(dict.fromkeys(mutant.killer for mutant in catalogue))
    began, commit = monotonic(), tried_commit()
    with ExitStack() as stack:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for _ in range(min(options.processes, len(chosen))):
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="chot-mutants-"))
            trees.put(Tree(Path(place)))
        if not _all_pass(trees, killers):
            return 1
        _say(f"{len(killers)} tests pass without any bug; now {len(chosen)} bugs, one at a time")
        verdicts = _try_all(trees, chosen, killers)
    _say(f"{monotonic() - began:.0f} s")
    return conclude(verdicts, None if words else page, commit)


def conclude(verdicts: Sequence[Verdict], page: Path | None, commit: str) -> int:
    """Count, and write the page if there is nothing to complain of: the exit code."""
    wrong = [verdict for verdict in verdicts if verdict.complaints]
    _say(f"{len(verdicts) - len(wrong)} of {len(verdicts)} killed")
    if wrong:
        return 1
    if page is not None:
        page.write_text(page_of(verdicts, commit))
    return 0


def _all_pass(trees: queue.SimpleQueue[Tree], killers: Sequence[str]) -> bool:
    tree = trees.get()
    ends = tree.run(killers)
    trees.put(tree)
    failing = [killer for killer in killers if not passed(ends, killer)]
    for killer in failing:
        words = "; ".join(f"{end} {words}".strip() for end, words in of_killer(ends, killer))
        _say(f"fails without any bug: {killer}: {words or 'it did not run'}")
    return not failing


def _try_all(
    trees: queue.SimpleQueue[Tree], chosen: Sequence[Mutant], killers: Sequence[str]
) -> list[Verdict]:
    """All verdicts in the catalogue's order, told as they come."""
    with ThreadPoolExecutor(max_workers=trees.qsize()) as pool:
        running = [pool.submit(_try, trees, mutant, killers) for mutant in chosen]
        for count, each in enumerate(as_completed(running), start=1):
            verdict = each.result()
            _say(
                f"{count:3}/{len(chosen)} {'WRONG ' if verdict.complaints else 'killed'} "
                f"{verdict.mutant.name}"
            )
            for complaint in verdict.complaints:
                _say(f"          {complaint}")
            for killer in verdict.again:
                _say(f"          failed at first, passed when run once more: {killer}")
        return [each.result() for each in running]


def _try(trees: queue.SimpleQueue[Tree], mutant: Mutant, killers: Sequence[str]) -> Verdict:
    tree = trees.get()
    try:
        with tree.planted(mutant.changes):
            ends = tree.run(killers)
            again = _once_more(tree, mutant, ends, killers)
            verdict = judge(mutant, dict(ends) | dict(again), killers)
            passing = [killer for killer in killers if passed(again, killer)]
            return replace(verdict, again={each: _words_of(ends, each) for each in passing})
    except CannotRun as error:
        return Verdict(mutant=mutant, said="", complaints=[str(error)])
    finally:
        trees.put(tree)


def _once_more(tree: Tree, mutant: Mutant, ends: Ends, killers: Sequence[str]) -> Ends:
    """Killers of others that fail are run once more: some watch a clock, on a busy machine."""
    odd = [
        killer
        for killer in killers
        if killer != mutant.killer and killer not in mutant.also and not passed(ends, killer)
    ]
    return tree.run(odd) if odd else {}


def _words_of(ends: Ends, killer: str) -> str:
    """What it said when it failed."""
    said = [f"{end}: {words}" for end, words in of_killer(ends, killer) if end != "passed"]
    return "; ".join(said) or "it did not run"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.faults`: run seeds, or print the timeline of a job of an earlier run."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.backing import open_backing
from tests.faults.evidence import load_evidence
from tests.faults.runner import Plan, Verdict, kinds_of, numbers, run_one
from tests.faults.schedule import FAULTS
from tests.faults.timeline import print_timeline
from tests.faults.world import faketime_library

MOST_SHOWN = 12
LONGEST_TIMELINE = 160
RESTORES_EVERY = 5  # seeds; a backup is restored half-way in each of these


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says; 1 when a promise was broken."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["timeline"]:
        return _timeline(arguments[1:])
    return asyncio.run(_run(_parsed(arguments)))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="run this seed alone")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds to run")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=90.0, help="of faults, each seed")
    parser.add_argument("--nemeses", default="", help=f"only these, of: {','.join(FAULTS)}")
    parser.add_argument("--postgres-bin", type=Path, default=None, help="default: the wheel's 18")
    parser.add_argument(
        "--restore",
        action="store_true",
        help="restore a backup half-way, as a new deployment, in every seed (else in every fifth)",
    )
    parser.add_argument("--out", type=Path, default=Path(".chot/faults"))
    asked = parser.parse_args(arguments)
    asked.faults = tuple(name for name in asked.nemeses.split(",") if name)
    unknown = set(asked.faults) - set(FAULTS)
    if unknown:
        parser.error(f"unknown nemeses: {', '.join(sorted(unknown))}")
    return asked


async def _run(asked: argparse.Namespace) -> int:
    first = asked.first_seed
    seeds = [asked.seed] if asked.seed is not None else range(first, first + asked.seeds)
    if faketime_library() is None:
        _say("no libfaketime (Debian: apt install faketime): the fault `clock` is left out")
    verdicts: list[Verdict] = []
    async with open_backing(asked.postgres_bin) as backing:
        for seed in seeds:
            home = _fresh(asked.out / f"pg{backing.postgres.major}-seed{seed}")
            restores = asked.restore or seed % RESTORES_EVERY == 0
            plan = Plan(seed=seed, seconds=asked.seconds, faults=asked.faults, restores=restores)
            verdict = await run_one(backing, plan, home)
            verdicts.append(verdict)
            _say_verdict(verdict, asked, backing.postgres.major)
    _say_table(verdicts)
    return int(any(verdict.violations or verdict.failures for verdict in verdicts))


def _fresh(home: Path) -> Path:
    """A directory that is not there yet: evidence of an earlier run is never written over."""
    number, found = 1, home
    while found.exists():
        number += 1
        found = home.with_name(f"{home.name}-{number}")
    return found


def _say_verdict(verdict: Verdict, asked: argparse.Namespace, major: int) -> None:
    told = numbers(verdict)
    bad = verdict.violations or verdict.failures
    words = " ".join(f"{name} {value}" for name, value in told.items() if name != "seed")
    _say(f"seed {verdict.plan.seed} pg{major} {'VIOLATED' if bad else 'ok'}: {words}")
    if not bad:
        return
    for failure in verdict.failures:
        _say(f"  the runner failed: {failure}")
    for violation in verdict.violations[:MOST_SHOWN]:
        _say(f"  {violation.check}: {violation.job_id or ''} {violation.text}")
    again = f"python -m tests.faults --seed {verdict.plan.seed} --seconds {asked.seconds:g}"
    again += f" --nemeses {asked.nemeses}" if asked.nemeses else ""
    again += " --restore" if asked.restore else ""
    again += f" --postgres-bin {asked.postgres_bin}" if asked.postgres_bin else ""
    _say(f"  again: {again}\n  evidence: {verdict.home}")
    concerned = next((v.job_id for v in verdict.violations if v.job_id is not None), None)
    if concerned is not None:
        story = print_timeline(verdict.home, verdict.evidence, concerned).splitlines()
        _say("\n".join(f"  {line}" for line in story[:LONGEST_TIMELINE]))


def _say_table(verdicts: Sequence[Verdict]) -> None:
    rows = [numbers(verdict) for verdict in verdicts]
    names = list(rows[0])
    width = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in names}
    _say("  ".join(name.rjust(width[name]) for name in names))
    for row in rows:
        _say("  ".join(str(row[name]).rjust(width[name]) for name in names))
    seen = sorted({fault for verdict in verdicts for fault in kinds_of(verdict)})
    _say(f"faults seen: {', '.join(seen)}")


def _timeline(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults timeline")
    parser.add_argument("run", type=Path, help="the directory of a run")
    parser.add_argument("job", help="the job's id")
    asked = parser.parse_args(arguments)
    _say(print_timeline(asked.run, load_evidence(asked.run), asked.job))
    return 0


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

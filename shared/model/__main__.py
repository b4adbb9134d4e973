"""`python -m shared.model explore | trace | walk`: exit code 1 when a property breaks."""

import argparse
import json
import random
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from shared.model.ends import Ending, check_ends
from shared.model.families import FAMILIES, JOBS, Family, family_of
from shared.model.graph import Graph
from shared.model.locks.state import ALL, Lock
from shared.model.simulation import WEIGHTS, Simulation
from shared.model.trace import Counterexample, find_counterexample, told

EVERY = {name: text for family in FAMILIES.values() for name, text in family.properties.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when every property holds, 1 when one breaks, 2 for a wrong call."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.model", description=__doc__)
    commands = parser.add_subparsers(required=True)
    explore = commands.add_parser("explore", help="every state within the bounds")
    explore.set_defaults(run=_explore)
    explore.add_argument("--unreduced", action="store_true", help="merge nothing but names")
    trace = commands.add_parser("trace", help="the shortest way to break it without a protection")
    trace.set_defaults(run=_trace)
    trace.add_argument("--property", choices=sorted(EVERY), help="which one shall fall")
    trace.add_argument("--json", action="store_true", help="as JSON; with states, of jobs")
    trace.add_argument("--all", action="store_true", help="one line a protection")
    walk = commands.add_parser("walk", help="a random run")
    walk.set_defaults(run=_walk)
    walk.add_argument("--seed", type=int, default=0)
    walk.add_argument("--steps", type=int, default=60)
    for command in (explore, trace, walk):
        command.add_argument("--world", choices=sorted(FAMILIES), help="which of the three worlds")
        command.add_argument(
            "--without",
            action="append",
            default=[],
            metavar="PROTECTION",
            help="take a protection away; may be repeated",
        )
    for command in (explore, walk):
        command.add_argument("--bounds", choices=["full", "test"], default="full")
        for name in _numbers():
            command.add_argument(f"--{name.replace('_', '-')}", type=int)
    return parser


def _numbers() -> list[str]:
    """The bounds that are numbers, of any world."""
    named: dict[str, None] = {}
    for family in FAMILIES.values():
        for field in fields(family.full[0]):
            if type(getattr(family.full[0], field.name)) is int:
                named[field.name] = None
    return list(named)


def _families(options: argparse.Namespace) -> list[Family]:
    """The worlds that are meant: the one that is named, or those that know what is asked for."""
    if options.world:
        return [FAMILIES[options.world]]
    if options.without:
        return [family_of(options.without)]
    given = set(_given(options))
    return [family for family in FAMILIES.values() if given <= _known(family)]


def _given(options: argparse.Namespace) -> dict[str, int]:
    """The bounds that the call gives."""
    given = {name: getattr(options, name, None) for name in _numbers()}
    return {name: value for name, value in given.items() if value is not None}


def _known(family: Family) -> set[str]:
    return {field.name for field in fields(family.full[0])}


def _bounds(family: Family, options: argparse.Namespace) -> list[Any]:
    """The bounds of this world, changed by what is given. ValueError for one that it has not."""
    given, known = _given(options), _known(family)
    if not set(given) <= known:
        raise ValueError(f"the world of {family.name} has no {', '.join(set(given) - known)}")
    return [replace(bounds, **given) for bounds in getattr(family, options.bounds)]


def _say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _explore(options: argparse.Namespace) -> int:
    failed = 0
    for family in _families(options):
        for bounds in _bounds(family, options):
            failed |= _explore_one(family, bounds, options)
    return failed


def _explore_one(family: Family, bounds: Any, options: argparse.Namespace) -> int:
    _say(f"world        {family.name}: {family.about}")
    _say_bounds(bounds)
    if options.without:
        _say("without      " + ", ".join(options.without))
    world = family.build(bounds, tuple(options.without))
    graph = family.search(world, not options.unreduced).explore()
    _say_graph(graph)
    broken = set(graph.broken)
    if graph.complete:
        ending = check_ends(graph)
        broken |= {"every_run_ends"} if ending.endless is not None else set()
        _say_ending(ending)
    for name in sorted(broken):
        _say(f"BROKEN       {name}: {family.properties[name]}")
    if not broken:
        _say(f"holds        all {len(family.properties)} properties, in every state")
    return 1 if broken or not graph.complete else 0


def _say_bounds(bounds: Any) -> None:
    """The bounds, without what is nought."""
    every = ((field.name, getattr(bounds, field.name)) for field in fields(bounds))
    said = [f"{name} {_said(value)}" for name, value in every if value]
    _say("bounds       " + ", ".join(said))


def _said(value: Any) -> str:
    """Locks by job, as "write 0" or "read 0, cells 1"; sets and numbers as they are."""
    if isinstance(value, tuple):
        return "; ".join(f"job {place + 1}: {_locks(job)}" for place, job in enumerate(value))
    return ", ".join(map(str, sorted(value))) if isinstance(value, frozenset) else str(value)


def _locks(locks: tuple[Lock, ...]) -> str:
    return " and ".join(
        f"{'write' if lock.exclusive else 'read'} root {lock.root}"
        + ("" if lock.cells == ALL else f" part {lock.cells}")
        for lock in locks
    )


def _say_graph(graph: Graph) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    whole = "all of them" if graph.complete else "given up, there are more"
    _say(f"states       {graph.states:,} ({whole})")
    _say(f"transitions  {graph.transitions:,}")
    _say(f"depth        {graph.depth}")
    _say(f"time         {graph.seconds:.1f} s, {used} MiB")


def _say_ending(ending: Ending) -> None:
    if ending.endless is None:
        _say(
            f"rounds       {ending.rounds:,} of {', '.join(sorted(ending.within)) or 'nothing'};"
            f" fairness leaves each, by {', '.join(sorted(ending.leaves_by)) or 'nothing'}"
        )


def _trace(options: argparse.Namespace) -> int:
    if options.all:
        return max(_trace_all(family) for family in _families(options))
    if not options.without:
        known = [n for f in FAMILIES.values() for n in (*f.protections, *f.courtesies)]
        raise ValueError("say --without PROTECTION (or --all); there are: " + ", ".join(known))
    (family,) = _families(options)
    found = find_counterexample(options.without, options.property, family=family)
    if found is None:
        many = len(family.worlds)
        _say(f"no counterexample in {many} worlds: {', '.join(options.without)} not needed")
        return 0
    if options.json and family is JOBS:
        played = Simulation.of(found)
        steps = []
        for action in found.actions:
            played.step(action)
            steps.append({**played.trace[-1], "state": played.state})
        _say(json.dumps({"broken": found.broken, "steps": steps}, indent=1))
        return 1
    if options.json:
        _say(json.dumps(_as_json(found), indent=1))
        return 1
    _say_bounds(found.bounds)
    for line in told(found):
        _say(line)
    return 1


def _as_json(found: Counterexample) -> dict[str, Any]:
    return {"broken": found.broken, "steps": [asdict(action) for action in found.actions]}


def _trace_all(family: Family) -> int:
    missing = 0
    for name, protection in family.protections.items():
        found = find_counterexample([name], family=family)
        missing += found is None
        steps = "none" if found is None else f"{len(found.actions)} steps"
        _say(f"{family.name:<7} {name:<36} {protection.breaks:<32} {steps}")
    return 1 if missing else 0


def _walk(options: argparse.Namespace) -> int:
    """One random run, of the world of jobs unless another is named."""
    family = FAMILIES[options.world] if options.world else family_of(options.without)
    world = family.build(_bounds(family, options)[0], tuple(options.without))
    chance = random.Random(options.seed)
    state = world.initial()
    for number in range(1, options.steps + 1):
        moves = list(world.moves(state))
        if not moves:
            break
        weights = [WEIGHTS[family.actions[move.action].kind] for move in moves]
        move = chance.choices(moves, weights)[0]
        _say(f"{number:3}  {world.words(move, state)}")
        state = move.state
        broken = move.broken or world.broken(state)
        if broken is not None:
            _say(f"BROKEN  {broken}: {family.properties[broken]}")
            return 1
    _say("ended" if world.has_ended(state) else "not ended yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())

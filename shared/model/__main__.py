"""`python -m shared.model explore | trace | walk`: exit code 1 when a property breaks."""

import argparse
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from shared.model.ends import Ending, check_ends
from shared.model.explore import Explorer
from shared.model.graph import Graph
from shared.model.model import Model
from shared.model.properties import PROPERTIES
from shared.model.protections import COURTESIES, PROTECTIONS, without
from shared.model.simulation import Simulation
from shared.model.state import Bounds
from shared.model.trace import WORLDS, find_counterexample, told

EVERYTHING = Bounds(copies=1, cancels=1, fails=1, releases=1)
FULL = Bounds(jobs=2, copies=1, cancels=1, fails=1)
PRESETS = {"test": EVERYTHING, "full": FULL}


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
    trace.add_argument("--property", choices=sorted(PROPERTIES), help="which one shall fall")
    trace.add_argument("--json", action="store_true", help="steps and states as JSON")
    trace.add_argument("--all", action="store_true", help="one line a protection")
    walk = commands.add_parser("walk", help="a random run")
    walk.set_defaults(run=_walk)
    walk.add_argument("--seed", type=int, default=0)
    walk.add_argument("--steps", type=int, default=60)
    for command in (explore, trace, walk):
        command.add_argument(
            "--without",
            action="append",
            default=[],
            metavar="PROTECTION",
            help="take a protection away; may be repeated",
        )
    for command in (explore, walk):
        command.add_argument("--bounds", choices=sorted(PRESETS), default="full")
        for field in fields(Bounds):
            if field.name != "twins":
                command.add_argument(f"--{field.name.replace('_', '-')}", type=int)
    return parser


def _say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _bounds(options: argparse.Namespace) -> Bounds:
    given = {f.name: getattr(options, f.name, None) for f in fields(Bounds)}
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(PRESETS[options.bounds], **chosen)


def _explore(options: argparse.Namespace) -> int:
    bounds = _bounds(options)
    _say("bounds       " + ", ".join(f"{name} {value}" for name, value in asdict(bounds).items()))
    if options.without:
        _say("without      " + ", ".join(options.without))
    model = Model(bounds, without(*options.without))
    graph = Explorer(model, reduce=not options.unreduced).explore()
    _say_graph(graph)
    broken = set(graph.broken)
    if graph.complete:
        ending = check_ends(graph)
        broken |= {"every_run_ends"} if ending.endless is not None else set()
        _say_ending(ending)
    for name in sorted(broken):
        _say(f"BROKEN       {name}: {PROPERTIES[name]}")
    if not broken:
        _say(f"holds        all {len(PROPERTIES)} properties, in every state")
    return 1 if broken or not graph.complete else 0


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
        return _trace_all()
    if not options.without:
        raise ValueError(
            "say --without PROTECTION (or --all); there are: "
            + ", ".join([*PROTECTIONS, *COURTESIES])
        )
    found = find_counterexample(options.without, options.property)
    if found is None:
        _say(f"no counterexample in {len(WORLDS)} worlds: {', '.join(options.without)} not needed")
        return 0
    if options.json:
        played = Simulation.of(found)
        steps = []
        for action in found.actions:
            played.step(action)
            steps.append({**played.trace[-1], "state": played.state})
        _say(json.dumps({"broken": found.broken, "steps": steps}, indent=1))
        return 1
    for line in told(found):
        _say(line)
    return 1


def _trace_all() -> int:
    missing = 0
    for name, protection in PROTECTIONS.items():
        found = find_counterexample([name])
        missing += found is None
        steps = "none" if found is None else f"{len(found.actions)} steps"
        _say(f"{name:<36} {protection.breaks:<28} {steps}")
    return 1 if missing else 0


def _walk(options: argparse.Namespace) -> int:
    walked = Simulation(_bounds(options), without(*options.without), seed=options.seed)
    for _ in range(options.steps):
        if not walked.enabled():
            break
        walked.step()
        entry = walked.trace[-1]
        _say(f"{entry['number']:3}  {entry['words']}")
        if walked.broken is not None:
            _say(f"BROKEN  {walked.broken}: {PROPERTIES[walked.broken]}")
            return 1
    _say("ended" if walked.ended else "not ended yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())

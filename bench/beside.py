"""`python -m bench.beside`: how long costing takes, and how long a public peer takes for the same.

Prints JSON; with --write also docs/bench.md. The first run installs the peer.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.costing import METHODS, Measured, Size, load_company, measure
from bench.peer import METHODS as PEER_METHODS
from bench.peer import Compared, Peer, compare
from bench.posting import DOCUMENTS, measure_posting
from bench.report import page, write_page
from bench.running import Bench, BenchFailed, add_worker, open_bench
from dev.processes import StartFailed
from dev.stack import say_on_stderr
from dev.stack_config import ROOT

# What the peer takes some minutes for, on two cores.
PEER_SIZES = (400, 2_000, 5_000)


def main() -> None:
    """Run the command line; 1 with a sentence where something did not end well."""
    asked = _parser().parse_args()
    try:
        found = asyncio.run(_run(asked))
    except (BenchFailed, StartFailed, TimeoutError) as failure:
        sys.exit(f"bench: {failure}")
    print(json.dumps(found, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("--movements", type=int, default=Size().movements)
    parser.add_argument("--items", type=int, default=Size().items)
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="to post")
    parser.add_argument("--method", action="append", choices=METHODS, help="default: all")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--peer-size", action="append", type=int, help="default: 400, 2000, 5000")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-peer")
    parser.add_argument("--write", action="store_true", help="write docs/bench.md")
    return parser


async def _run(asked: argparse.Namespace) -> dict[str, Any]:
    size = Size(movements=asked.movements, items=asked.items)
    async with open_bench() as bench:
        methods = asked.method or METHODS
        measured = await _measure(bench, size, methods)
        compared: list[Compared] = []
        if asked.peer:
            with tempfile.TemporaryDirectory(prefix="chot-peer-") as home:
                sizes = asked.peer_size or PEER_SIZES
                compared = await _compare(bench, Peer(asked.environment, Path(home)), sizes, size)
        shared = await _share(bench, methods[0])
        posted = await measure_posting(bench, asked.documents)
        for one in posted:
            say_on_stderr(json.dumps(one.as_json()))
        version = str(await bench.superuser.fetchval("SHOW server_version"))
    if asked.write:
        write_page(page(measured, shared, compared, posted, server=version))
    return {
        "measured": [one.as_json() for one in measured],
        "shared": [one.as_json() for one in shared],
        "compared": [one.as_json() for one in compared],
        "posted": [one.as_json() for one in posted],
    }


async def _measure(bench: Bench, size: Size, methods: Sequence[str]) -> list[Measured]:
    """Every method, one after the other, on one load of movements."""
    await load_company(bench, size)
    found = []
    for method in methods:
        found.append(await measure(bench, method))
        say_on_stderr(json.dumps(found[-1].as_json()))
    return found


async def _share(bench: Bench, method: str) -> list[Measured]:
    """One method as a run is costed that says nothing of parts: by one worker, then by two."""
    found = [await measure(bench, method, parts=1), await measure(bench, method, parts=None)]
    await add_worker(bench)
    found.append(await measure(bench, method, parts=None))
    for one in found:
        say_on_stderr(json.dumps(one.as_json()))
    return found


async def _compare(bench: Bench, peer: Peer, sizes: Sequence[int], whole: Size) -> list[Compared]:
    """Side by side at each size, and ours alone at the size that the peer cannot bear."""
    say_on_stderr("installing the peer")
    peer.install()
    await peer.prepare(bench)
    found = []
    for method in PEER_METHODS:
        for movements in (*sizes, whole.movements):
            beside = peer if movements in sizes else None
            found.append(await compare(bench, beside, method, movements))
            say_on_stderr(json.dumps(found[-1].as_json()))
    return found


if __name__ == "__main__":
    main()

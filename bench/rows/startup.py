"""From the start of a process to its first service, beside importing the given packages.

The api: until /healthz is answered. The worker: until it says that it works, which is after its
first heartbeat. Everything lies in the page cache; bytecode is there. In turn, several times.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from bench.figures import Figure, ratio
from bench.limits.mandated import OF_API, OF_WORKER, importing
from bench.place import START_SECONDS, STARTED, WITHOUT_RATE, Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import Child, answers, free_port, is_listening
from dev.stack_config import ROOT

MOST = 1.3
LOOK_SECONDS = 0.002
OUT = "os._exit(0)"
OURS_API = (
    "import api.__main__, api.app, api.settings; api.app.create_app(api.settings.load_settings())"
)


@dataclass(slots=True)
class Starting:
    """A migrated database and queues to start on."""

    platform: Platform


@asynccontextmanager
async def prepare(place: Place, _sizes: Sizes) -> AsyncIterator[Starting]:
    """Each program once, for caches and bytecode."""
    async with place.platform() as platform:
        starting = Starting(platform)
        await limit(starting)
        await ours(starting)
        yield starting


async def limit(starting: Starting) -> Measured:
    """Only the imports."""
    return {
        "api": await asyncio.to_thread(_imported, starting.platform, importing(OF_API, OUT)),
        "worker": await asyncio.to_thread(_imported, starting.platform, importing(OF_WORKER, OUT)),
    }


def _imported(platform: Platform, program: str) -> float:
    began = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=platform.environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None, "it was asked for"
        line = process.stdout.readline()
        seconds = perf_counter() - began
    if line != b"imported\n":
        raise BenchFailed(f"the imports have ended with {process.returncode}")
    return seconds


async def ours(starting: Starting) -> Measured:
    """Whole processes, killed once they serve; and the imports of ours alone, with the app made."""
    platform, port = starting.platform, free_port()
    # Not in a thread: a child ends with the thread that has started it.
    api = _started(
        platform,
        lambda: platform.start("api", "-m", "api", **WITHOUT_RATE, CHOT_API_PORT=str(port)),
        lambda _: is_listening(port) and answers(port, "/healthz"),
    )
    worker = _started(platform, lambda: platform.start("worker", "-m", "worker"), _works)
    program = importing((), "").replace("import os, sys", f"import os, sys; {OURS_API}")
    return {
        "api": api,
        "worker": worker,
        "imports of the api": await asyncio.to_thread(_imported, platform, program),
    }


def _started(
    platform: Platform, start: Callable[[], Child], serves: Callable[[Child], bool]
) -> float:
    began = perf_counter()
    child = start()
    try:
        while not serves(child):
            if not child.alive or perf_counter() - began > START_SECONDS:
                raise BenchFailed(f"{child.name} does not serve:\n{child.last_words()}")
            sleep(LOOK_SECONDS)
        return perf_counter() - began
    finally:
        child.kill()
        platform.children.remove(child)


def _works(child: Child) -> bool:
    log = child.command.log or Path(os.devnull)
    return log.exists() and STARTED in log.read_bytes()


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Whole starts against the imports; the imports of the api by themselves."""
    figures = []
    for name in ("api", "worker"):
        mine = [1000 * seconds for seconds in each(ours, name)]
        bare = [1000 * seconds for seconds in each(limits, name)]
        figures.append(ratio(f"start of the {name}", mine, bare, unit="ms", at_most=MOST))
    imports = [1000 * seconds for seconds in each(ours, "imports of the api")]
    bare = [1000 * seconds for seconds in each(limits, "api")]
    return [*figures, ratio("imports of the api, with its app", imports, bare, unit="ms")]


ROW = Row(
    name="startup",
    title="start-up",
    against="importing the given packages",
    sizes={
        Scale.TINY: {"rounds": 1},
        Scale.QUICK: {"rounds": 1},
        Scale.USUAL: {"rounds": 9},
        Scale.LONG: {"rounds": 31},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
)

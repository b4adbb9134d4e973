"""A module of the bench run as a process of its own: what measures must not share our loop."""

import asyncio
import json
import sys
from typing import Any

from bench.place import Platform
from bench.running import BenchFailed
from dev.stack_config import ROOT

LONGEST_SECONDS = 900.0


async def ask_module(platform: Platform, module: str, *arguments: str, **changes: str) -> Any:
    """Run `python -m module` in the platform's environment; the JSON that it prints last."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        env=platform.environment(**changes),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            told, said = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        raise BenchFailed(f"{module} ended with {child.returncode}: {said.decode()[-2000:]}")
    return json.loads(told.decode().strip().splitlines()[-1])

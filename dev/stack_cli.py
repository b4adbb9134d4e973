"""The command line of `chot dev`."""

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

from dev.processes import StartFailed, is_listening
from dev.stack import Stack
from dev.stack_config import StackConfig

USUAL_PORT = 8000
SAMPLE_MOVEMENTS = 20_000


def main(argv: list[str] | None = None) -> None:
    """Run a stack in the foreground; exit 0 after Ctrl-C or SIGTERM, 1 when it cannot start."""
    asked = _parser().parse_args(argv)
    sys.exit(asyncio.run(_run(_config(asked), as_json=asked.json)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="chot dev", description="Everything on this machine, until Ctrl-C."
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--api", type=int, default=1, metavar="N", help="api processes")
    parser.add_argument(
        "--port", type=int, metavar="P", help=f"of the first api (default {USUAL_PORT} if free)"
    )
    parser.add_argument(
        "--movements",
        type=int,
        default=SAMPLE_MOVEMENTS,
        metavar="N",
        help="size of the sample company",
    )
    parser.add_argument("--no-sample", action="store_true", help="start with empty books")
    parser.add_argument("--fresh", action="store_true", help="delete the data of earlier runs")
    parser.add_argument(
        "--home", type=Path, default=Path(".chot"), help="data and logs (default .chot)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    return parser


def _config(asked: argparse.Namespace) -> StackConfig:
    usual = 0 if is_listening(USUAL_PORT) else USUAL_PORT
    return StackConfig(
        home=asked.home.absolute(),
        workers=asked.workers,
        apis=max(1, asked.api),
        port=asked.port if asked.port is not None else usual,
        movements=0 if asked.no_sample else asked.movements,
        fresh=asked.fresh,
    )


async def _run(config: StackConfig, *, as_json: bool) -> int:
    stack = Stack(config)
    asked_to_stop = _listen_for_signals()
    starting = asyncio.create_task(stack.start(), name="start")
    stopping = asyncio.create_task(asked_to_stop.wait(), name="wait for a signal")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            print(json.dumps(stack.describe()) if as_json else _block(stack), flush=True)
            await stopping
        print("stopping", file=sys.stderr, flush=True)
    except StartFailed as failure:
        print(f"chot dev: {failure}", file=sys.stderr)
        return 1
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        stopping.cancel()
        await stack.stop()
    return 0


def _listen_for_signals() -> asyncio.Event:
    """Return the event that the first signal sets; a second one ends everything at once."""
    asked = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            os._exit(130)  # the kernel takes the children down with us
        asked.set()

    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(which, on_signal)
    return asked


def _block(stack: Stack) -> str:
    about = stack.describe()
    workers = ", ".join(str(worker.pid) for worker in stack.workers)
    token = shlex.quote(stack.config.token)
    return f"""
Chốt is running. Ctrl-C stops everything.

  api       {about["api_url"]}
  docs      {about["docs_url"]}
  database  {about["database_url"]}
  sqs       {about["sqs_endpoint"]}
  workers   {len(stack.workers)} (pid {workers})
  logs      {about["logs"]}

In another terminal:
  export CHOT_API_URL={about["api_url"]} CHOT_TOKEN={token}
  chot list
"""

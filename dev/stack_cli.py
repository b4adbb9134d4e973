"""The command line of `chot dev`."""

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from dev.processes import StartFailed, is_listening
from dev.stack import Stack
from dev.stack_config import StackConfig
from shared.api_keys import key_id_of, new_key

USUAL_PORT = 8000
SAMPLE_MOVEMENTS = 20_000


def main(argv: list[str] | None = None) -> None:
    """Run a stack in the foreground; exit 0 after Ctrl-C or SIGTERM, 1 when it cannot start."""
    asked = parser().parse_args(argv)
    sys.exit(asyncio.run(_run(config_of(asked), as_json=asked.json)))


def parser() -> argparse.ArgumentParser:
    """The options of `chot dev`."""
    made = argparse.ArgumentParser(
        prog="chot dev", description="Everything on this machine, until Ctrl-C."
    )
    made.add_argument(
        "--workers", type=int, default=2, metavar="N", help="worker processes (default %(default)s)"
    )
    made.add_argument(
        "--api", type=int, default=1, metavar="N", help="api processes (default %(default)s)"
    )
    made.add_argument(
        "--port", type=int, metavar="P", help=f"of the first api (default {USUAL_PORT} if free)"
    )
    made.add_argument(
        "--movements",
        type=int,
        default=SAMPLE_MOVEMENTS,
        metavar="N",
        help="size of the sample company, where there is none yet (default %(default)s)",
    )
    made.add_argument("--no-sample", action="store_true", help="start with empty books")
    made.add_argument("--fresh", action="store_true", help="delete the data of earlier runs")
    made.add_argument(
        "--home", type=Path, default=Path(".chot"), help="data and logs (default .chot)"
    )
    made.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    return made


def config_of(asked: argparse.Namespace) -> StackConfig:
    """The stack that was asked for; its token is CHOT_TOKEN, or that of the last run."""
    usual = 0 if is_listening(USUAL_PORT) else USUAL_PORT
    return StackConfig(
        home=asked.home.absolute(),
        workers=asked.workers,
        apis=max(1, asked.api),
        port=asked.port if asked.port is not None else usual,
        movements=0 if asked.no_sample else asked.movements,
        fresh=asked.fresh,
        token=os.environ.get("CHOT_TOKEN") or _kept_token(asked.home.absolute()),
    )


def _kept_token(home: Path) -> str:
    """The key of earlier runs, for its owner only: what a terminal has exported stays good."""
    kept = home / "token"
    if not kept.exists() or key_id_of(kept.read_text().strip()) is None:
        home.mkdir(parents=True, exist_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(new_key())
    return kept.read_text().strip()


async def _run(config: StackConfig, *, as_json: bool) -> int:
    stack = Stack(config)
    asked_to_stop = _listen_for_signals()
    starting = asyncio.create_task(stack.start(), name="start")
    stopping = asyncio.create_task(asked_to_stop.wait(), name="wait for a signal")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            print(
                json.dumps(stack.describe()) if as_json else block_of(stack.describe()), flush=True
            )
            await _until_stopped(stack, stopping)
        print("stopping: workers hand their jobs back first", file=sys.stderr, flush=True)
    except StartFailed as failure:
        print(f"chot dev: {failure}", file=sys.stderr)
        return 1
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        stopping.cancel()
        await stack.stop()
    return 0


async def _until_stopped(stack: Stack, stopping: asyncio.Task[bool]) -> None:
    """Return when asked to stop; StartFailed when a server that all else stands on has ended."""
    losing = asyncio.create_task(stack.backing_lost(), name="watch the servers")
    try:
        await asyncio.wait({stopping, losing}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            raise StartFailed(f"{losing.result()}; the logs are in {stack.config.logs}")
    finally:
        losing.cancel()


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


def block_of(described: Mapping[str, object]) -> str:
    """What `chot dev` prints when all is up, of what Stack.describe() says; fit to be pasted."""
    about = {name: shlex.quote(str(value)) for name, value in described.items()}
    return f"""
Chốt is running. Ctrl-C stops everything.

  api       {about["api_url"]}
  docs      {about["docs_url"]}
  pages     {about["pages_url"]}
  database  {about["database_url"]}
  sqs       {about["sqs_endpoint"]}
  workers   pid {described["worker_pids"]}
  logs      {about["logs"]}

In another terminal:
  export CHOT_API_URL={about["api_url"]} CHOT_TOKEN={about["token"]}
  chot list

For `chot config`, and as the database's owner for `chot keys`, `chot doctor`, `chot migrate`, psql:
  export CHOT_DATABASE_URL={about["app_database_url"]}
  export CHOT_MIGRATE_DATABASE_URL={about["database_url"]}
  psql "$CHOT_MIGRATE_DATABASE_URL"
"""

"""`make demo-month`: a company's month by jobs alone, twice; the second time workers are killed.

Import, post, cost, post what it cost, close. Then debit = credit, stock = ledger, and the second
company, whose workers were killed at random all the way, has the balances of the first one to the
last đồng. Exit code 0 means that each of these was read from this run's books and held.
"""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic
from typing import Any

import asyncpg

from dev.month import FIRST_DAY, LAST_DAY, Books, Month, MonthFailed, open_company, read_books
from dev.postgres import remove_data
from dev.processes import StartFailed
from dev.sample_documents import MonthFiles, write_month
from dev.stack import Stack
from dev.stack_config import StackConfig
from shared.cli import show
from shared.cli.exits import Failure
from shared.cli.tables import table

LONGEST_SECONDS = 600.0
WORKERS = 2
# So that nobody waits half a minute for a dead worker's lease, or a minute for a message it had
# received; the rest is as in production.
SHORTENED = {
    "CHOT_VISIBILITY_SECONDS": "6",
    "CHOT_LEASE_SECONDS": "3",
    "CHOT_HEARTBEAT_SECONDS": "0.8",
    "CHOT_REAPER_SECONDS": "0.5",
    "CHOT_DRAIN_SECONDS": "5",
    "CHOT_POLL_SECONDS": "1",
}
CALM, ROUGH = "YEN", "BAO"  # yên: calm; bão: storm
FAILURES = (MonthFailed, StartFailed, Failure, TimeoutError)


@dataclass(slots=True)
class Killings:
    """How many workers were killed, and how many of these owned a job at that moment."""

    workers: int = 0
    owners: int = 0
    jobs: set[str] = field(default_factory=set)


def main() -> None:
    """Run it; 0 when everything held, 1 with a sentence when something did not."""
    parser = argparse.ArgumentParser(prog="python -m dev.demo_month", description=main.__doc__)
    parser.add_argument("--movements", type=int, default=6_000)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document")
    options = parser.parse_args()
    code = 0
    try:
        asyncio.run(_run(options))
    except* FAILURES as failures:
        code = 1
        for each in failures.exceptions:
            print(f"demo: {each}", file=sys.stderr)
    except* KeyboardInterrupt:
        code = 130
    sys.exit(code)


async def _run(options: argparse.Namespace) -> None:
    began = monotonic()

    def say(line: str) -> None:
        print(f"{monotonic() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    with _home() as home:
        async with asyncio.timeout(LONGEST_SECONDS):
            config = StackConfig(home=home, workers=WORKERS, apis=1, env=SHORTENED)
            async with Stack(config, say=say) as stack:
                files = write_month(
                    home,
                    seed=options.seed,
                    movements=options.movements,
                    items=options.items,
                    first_day=FIRST_DAY,
                    last_day=LAST_DAY,
                )
                lines = ", ".join(f"{n:,} {name}" for name, n in files.lines.items())
                say(f"the month of 50 stores as files: {lines}")
                story = await _story(stack, files, options.seed, say)
                say("stopping")
    _tell(story, round(monotonic() - began, 1), as_json=options.as_json)


@contextmanager
def _home() -> Iterator[Path]:
    """A directory for data, files and logs; the logs stay where a failure has to be looked into."""
    home = Path(mkdtemp(prefix="chot-month-"))
    home.chmod(0o755)  # as root, PostgreSQL runs under an account of its own
    failed = False
    try:
        yield home
    except (*FAILURES, ExceptionGroup):
        failed = True
        print(f"demo: the logs are in {home / 'logs'}", file=sys.stderr)
        raise
    finally:
        remove_data(home / "postgres")
        if not failed:
            rmtree(home, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Both months, and the killings of the second one."""

    calm: Month
    rough: Month
    books: Books
    killings: Killings


async def _story(stack: Stack, files: MonthFiles, seed: int, say: Any) -> Story:
    urls = stack.backing.urls
    os.environ |= {"CHOT_API_URL": stack.api_url, "CHOT_TOKEN": stack.config.token}
    conn = await asyncpg.connect(urls.superuser)
    try:
        for company in (CALM, ROUGH):
            await open_company(urls.app, company)
        calm = Month(CALM, files, say)
        await asyncio.to_thread(calm.run)
        first = await read_books(conn, CALM)
        rough, killings = Month(ROUGH, files, say), Killings()
        say(f"the same month again as company {ROUGH}, with workers killed at random")
        killing = asyncio.create_task(_kill_workers(stack, conn, random.Random(seed), killings))
        try:
            await asyncio.to_thread(rough.run)
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        second = await read_books(conn, ROUGH)
    finally:
        await conn.close()
    if (first.accounts, first.goods, first.entries) != (
        second.accounts,
        second.goods,
        second.entries,
    ):
        raise MonthFailed(f"the balances differ: {_first_difference(first, second)}")
    if not killings.owners:
        raise MonthFailed("no worker that owned a job was killed: nothing is shown")
    return Story(calm=calm, rough=rough, books=first, killings=killings)


def _first_difference(one: Books, other: Books) -> str:
    for mine, theirs in zip(one.accounts, other.accounts, strict=False):
        if mine != theirs:
            return f"{mine} and {theirs}"
    return f"{len(one.goods)} and {len(other.goods)} goods, {one.entries} and {other.entries}"


OWNERS = """
    SELECT j.id, w.pid FROM chot.jobs j JOIN chot.workers w USING (worker_id)
     WHERE j.state = 'running' AND j.company = $1"""


async def _kill_workers(
    stack: Stack, conn: asyncpg.Connection, dice: random.Random, killings: Killings
) -> None:
    """SIGKILL the owner of each job, at some moment after it was seen to run."""
    while True:
        await asyncio.sleep(dice.uniform(0.05, 0.4))
        for row in await conn.fetch(OWNERS, ROUGH):
            job_id = str(row["id"])
            victim = next((w for w in stack.workers if w.pid == row["pid"] and w.alive), None)
            if victim is None or job_id in killings.jobs:
                continue
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            await victim.kill(wanted=True)
            victim.backoff = 0.1
            killings.workers += 1
            killings.owners += 1
            killings.jobs.add(job_id)


def _tell(story: Story, seconds: float, *, as_json: bool) -> None:
    books, killings = story.books, story.killings
    if as_json:
        told = {
            "steps": {m.company: [asdict(s) for s in m.steps] for m in (story.calm, story.rough)},
            "books": {
                name: getattr(books, name)
                for name in ("debits", "credits", "stock_value", "stock_ledger", "entries")
            },
            "killed": killings.workers,
            "seconds": seconds,
        }
        print(json.dumps(told, ensure_ascii=False, indent=2))
        return
    out = show.console()
    rows = [
        (one.name, one.did, f"{one.seconds:.1f}", f"{two.seconds:.1f}", str(two.attempts))
        for one, two in zip(story.calm.steps, story.rough.steps, strict=True)
    ]
    heads = ("job", "did", "calm, s#", "killed, s#", "attempts#")
    out.print(table("a month by jobs alone (tháng kế toán)", heads, rows))
    proofs = [
        ("Nợ = Có / debit = credit", _shown(books.debits), "=", _shown(books.credits)),
        ("Kho = sổ cái / stock = ledger", _shown(books.stock_value), "=", books_of(books)),
    ]
    out.print(table("proof, in đồng", ("", "left#", "", "right#"), proofs))
    out.print(
        f"{books.entries:,} entries, numbered without a gap; workers killed with kill -9: "
        f"{killings.workers}, each while it owned a job; both companies have the same balances, "
        f"account by account, store by store"
    )
    out.print(f"[bold green]all proofs hold[/]; {seconds} s")


def _shown(amount: str) -> str:
    return f"{int(amount):,}"


def books_of(books: Books) -> str:
    """The ledger's side of the proof."""
    return _shown(books.stock_ledger)


if __name__ == "__main__":
    main()

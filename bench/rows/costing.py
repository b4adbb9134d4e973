"""Costing a month by each method, beside COPY out of its movements and COPY in of its results.

Ours is the whole job, from its first claim to its success: list, read, compute, write, settle,
activate, shared by parts as the platform does by itself. The limit reads the same columns of the
same movements and writes the very rows of that run into tables with the same indexes and checks.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.figures import Figure, count, ratio
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes
from bench.running import BenchFailed
from bench.work import vacuum, work
from dev.processes import Child
from dev.sample_company import load_sample
from dev.sample_movements import WHOLE
from shared.kinds.costing import COSTING_RUN

METHODS = ("periodic_avg", "moving_avg", "fifo", "specific")
COMPANY = "BENCH"
PERIOD = "2026-01"
MOST = 3.0
MOVEMENTS_AN_ITEM = 50
FEWEST_ITEMS, MOST_ITEMS = 500, 20_000
TABLES = ("movement_costs", "store_balances", "pool_results", "cost_layers")
# What worker/records/movements.py reads of a movement.
READ = """
    SELECT m.id, m.posting_date, m.posting_seq, m.kind, m.store, m.to_store, m.qty_base, m.value,
           m.ref_movement_id, m.cost_basis, m.reverses_movement_id, m.lot_id
      FROM books.stock_movements m WHERE m.company = $1 ORDER BY m.brand, m.item"""


@dataclass(slots=True)
class Costing:
    """The company, loaded once, and its worker."""

    platform: Platform
    worker: Child
    movements: int
    home: Path
    round: int = 0
    run_id: int = 0
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """This round's."""
        return METHODS[self.round % len(METHODS)]


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Costing]:
    """The sample chain with everything that costing knows: lots, returns, circles, counts."""
    movements = sizes["movements"]
    async with place.platform() as platform:
        await load_sample(
            platform.database.app_url,
            movements=movements,
            items=max(FEWEST_ITEMS, min(MOST_ITEMS, movements // MOVEMENTS_AN_ITEM)),
            company=COMPANY,
            habits=WHOLE,
        )
        await vacuum(platform)
        worker = platform.worker(CHOT_QUEUES="costing:4")
        yield Costing(platform, worker, movements, place.home)


async def ours(costing: Costing) -> Measured:
    """One run by the round's method."""
    platform, method = costing.platform, costing.method
    await platform.superuser.execute("UPDATE books.items SET costing_method = $1", method)
    payload = {"period": PERIOD, "pool": "store", "method": method}
    ran = await work(platform, costing.worker, COSTING_RUN.name, COMPANY, payload)
    if ran.result["items"]["failed"] or ran.result["movements"] != costing.movements:
        raise BenchFailed(f"the run by {method} is not whole: {str(ran.result)[:1000]}")
    costing.run_id = ran.result["run_id"]
    return {"seconds": ran.seconds, "peak": ran.peak_mib}


async def limit(costing: Costing) -> Measured:
    """COPY out, and COPY in of what the round's run has written."""
    superuser, spent, rows = costing.platform.superuser, 0.0, 0
    began = perf_counter()
    await superuser.copy_from_query(READ, COMPANY, output=_swallow, format="binary")
    spent += perf_counter() - began
    for table in TABLES:
        file = costing.home / f"{table}.copy"
        written = f"SELECT * FROM books.{table} WHERE run_id = {costing.run_id}"
        told = await superuser.copy_from_query(written, output=file, format="binary")
        await superuser.execute(f"CREATE TABLE bench.{table} (LIKE books.{table} INCLUDING ALL)")
        began = perf_counter()
        came = await superuser.copy_to_table(
            table, schema_name="bench", source=file, format="binary"
        )
        spent += perf_counter() - began
        if came != told:
            raise BenchFailed(f"{table}: {told} went out, {came} came in")
        rows += int(came.split()[1])
        await superuser.execute(f"DROP TABLE bench.{table}")
        file.unlink()
    costing.round += 1
    return {"seconds": spent, "rows": rows}


async def _swallow(_data: bytes) -> None:
    """Where the movements go."""


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Each method by itself; the peak of worker and children is told beside."""
    figures = []
    for place, method in enumerate(METHODS):
        mine = [each["seconds"] for each in ours[place :: len(METHODS)]]
        bare = [each["seconds"] for each in limits[place :: len(METHODS)]]
        if mine:
            figures.append(ratio(f"{method}: time", mine, bare, unit="s", at_most=MOST))
    return [*figures, count("peak of worker and children", [e["peak"] for e in ours], unit="MiB")]


def detail(costing: Costing) -> Mapping[str, Any]:
    """How much it was."""
    return {"movements": costing.movements, "methods": METHODS}


ROW = Row(
    name="costing",
    title="costing, each method, end to end",
    against="COPY out of the movements + COPY in of the results",
    sizes={
        Scale.TINY: {"rounds": 1, "movements": 2_000},
        Scale.QUICK: {"rounds": 1, "movements": 20_000},
        Scale.USUAL: {"rounds": 4, "movements": 200_000},
        Scale.LONG: {"rounds": 4, "movements": 5_000_000},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    detail=detail,
    turns=False,
)

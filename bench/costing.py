"""One million movements, costed by every method: real PostgreSQL, real worker, end to end.

The same movements serve all methods: lots, transfers between the stores' pools and in circles,
returns, freight, counts. Each run replaces what the one before made active, as a change of method
would. What is told was measured by the database's clock, the kernel and the worker's own watches.
"""

from dataclasses import asdict, dataclass
from typing import Any

from bench.memory import Peaks
from bench.running import Bench, run_costing
from dev.sample_company import load_sample
from dev.sample_movements import WHOLE
from dev.stack import say_on_stderr
from dev.stack_backing import telling_of

METHODS = ("periodic_avg", "moving_avg", "fifo", "specific")
COMPANY = "BENCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What to cost."""

    movements: int = 1_000_000
    items: int = 20_000
    seed: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run; seconds and peaks as in `Ran`."""

    method: str
    pool: str
    workers: int
    parts: int
    movements: int
    items: int
    pools: int
    largest_circle: int
    seconds: float
    cpu: dict[str, float]
    phases: dict[str, float]
    peaks: Peaks
    result_megabytes: int
    checksum: str

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json and for the table."""
        return asdict(self)


FACTS = r"""
    SELECT (SELECT count(*) FROM books.pool_results WHERE run_id = $1) AS pools,
           (SELECT count(DISTINCT coalesce(part, 0)) FROM books.cost_run_items WHERE run_id = $1)
               AS parts,
           (SELECT max(scc_size) FROM books.pool_results WHERE run_id = $1) AS largest_circle,
           (SELECT sum(pg_total_relation_size(c.oid)) / 1048576 FROM pg_class c
             WHERE c.relkind = 'r' AND c.relname LIKE '%\_r' || $1)::int AS megabytes"""


async def measure(
    bench: Bench, method: str, *, pool: str = "store", parts: int | None = 1
) -> Measured:
    """Cost everything by one method, in so many parts (None: as the platform takes for itself)."""
    await bench.superuser.execute("UPDATE books.items SET costing_method = $1", method)
    shared = {} if parts is None else {"parts": parts}
    ran = await run_costing(bench, COMPANY, pool=pool, method=method, **shared)
    result = ran.result
    facts = await bench.superuser.fetchrow(FACTS, result["run_id"])
    return Measured(
        method=method,
        pool=pool,
        workers=len(bench.workers),
        parts=facts["parts"],
        movements=result["movements"],
        items=result["items"]["total"],
        pools=facts["pools"],
        largest_circle=facts["largest_circle"],
        seconds=ran.seconds,
        cpu=ran.cpu,
        phases=ran.phases,
        peaks=ran.peaks,
        result_megabytes=facts["megabytes"],
        checksum=result["checksum"],
    )


async def load_company(bench: Bench, size: Size) -> None:
    """The sample chain with everything that costing knows."""
    sample = await load_sample(
        bench.app,
        seed=size.seed,
        movements=size.movements,
        items=size.items,
        company=COMPANY,
        habits=WHOLE,
        progress=telling_of(say_on_stderr),
    )
    await bench.superuser.execute("VACUUM (ANALYZE)")  # as autovacuum would soon after
    say_on_stderr(f"loaded {sample.movements:,} movements in {sample.seconds} s")

"""What the demo proves: the run's own rows, read back as role read and checked rule by rule."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from dev.cost_report import (
    Conservation,
    Coverage,
    StoreRow,
    conservation,
    coverage,
    store_rows,
)

RUN_OF_JOB = text("""
    SELECT id FROM books.cost_runs WHERE job_id = :job_id AND status = 'active'""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The numbers of one cost run."""

    run_id: int
    stores: Sequence[StoreRow]
    coverage: Coverage
    conservation: Conservation

    @property
    def failures(self) -> list[str]:
        """A sentence for each rule that the numbers break; none when all hold."""
        counted = self.coverage
        broken = [
            f"{balance.what}: {balance.left:,} is not {balance.right:,}"
            for balance in self.conservation.balances
            if not balance.holds
        ]
        if not self.conservation.holds and not broken:
            broken.append(
                f"{self.conservation.pools_unbalanced} pools do not add up, "
                f"{self.conservation.empty_pools_with_value} empty ones have a value"
            )
        if not counted.exact or counted.in_failed_items:
            broken.append(
                f"of {counted.movements:,} movements {counted.missing:,} have no cost, "
                f"{counted.repeated:,} more than one, {counted.in_failed_items:,} could not be "
                f"costed; {counted.foreign:,} costs belong to no movement"
            )
        broken += [f"store {row.store} does not add up" for row in self.stores if not adds_up(row)]
        return broken

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json."""
        return asdict(self)


async def prove(conn: AsyncConnection, job_id: UUID) -> Proof:
    """Read back what the job's run has written; whether it holds is in `failures`."""
    run_id = int((await conn.execute(RUN_OF_JOB, {"job_id": job_id})).scalar_one())
    return Proof(
        run_id=run_id,
        stores=await store_rows(conn, run_id),
        coverage=await coverage(conn, run_id),
        conservation=await conservation(conn, run_id),
    )


def adds_up(row: StoreRow) -> bool:
    """Whether opening + in (+ averaging) − out = closing, in quantity and in value."""
    quantity = row.q_opening + row.q_incoming - row.q_outgoing == row.q_closing
    return quantity and (
        row.v_opening + row.v_incoming + row.v_averaging - row.v_outgoing == row.v_closing
    )

"""How the demo looks: steps and the bar on stderr, the result on stdout."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from itertools import groupby
from time import monotonic
from typing import Any

from rich.table import Table

from dev.cost_report import StoreRow
from dev.demo_proof import Proof
from dev.demo_takeover import Takeover
from dev.sample_company import SampleSummary
from shared.cli import show
from shared.cli.jobs import attempts_table

WIDTH = 132  # the widest table; a narrower terminal wraps it rather than cutting numbers off
STORES = "nhập – xuất – tồn (stock by store): SL = quantity in base units, values in đồng"
COLUMNS = (
    "cửa hàng (store)",
    "tồn đầu kỳ\n(opening) SL#",
    "\ngiá trị#",
    "nhập\n(in) SL#",
    "\ngiá trị#",
    "xuất\n(out) SL#",
    "\ngiá trị#",
    "bình quân\n(averaging)#",
    "tồn cuối kỳ\n(closing) SL#",
    "\ngiá trị#",
)
NUMBERS = tuple(each.name for each in fields(StoreRow) if each.name.startswith(("q_", "v_")))


class DemoScreen:
    """Tells the story. Every number comes from the caller, who read it from the run."""

    def __init__(self, *, as_json: bool) -> None:
        self._began = monotonic()
        self._out = show.console(stderr=as_json)
        self._out.width = max(self._out.width, WIDTH)

    def title(self, lease: str) -> None:
        """Say what is going to happen, and what differs from production."""
        self._out.print("[bold]Chốt: one costing job, killed half-way, finished by another worker")
        self._out.print(f"The lease is shortened to {lease} s (default 30) to spare you the wait.")

    def step(self, line: str) -> None:
        """Say what is being done, and how long it has taken until now."""
        print(f"{monotonic() - self._began:6.1f} s  {line}", file=sys.stderr, flush=True)

    def company(self, sample: SampleSummary) -> None:
        """Say what was loaded."""
        self.step(
            f"company {sample.company}: {sample.brands} brands, {sample.stores} stores, "
            f"{sample.items:,} items, {sample.movements:,} movements in {sample.period}, "
            f"loaded in {sample.seconds:.1f} s"
        )

    def submitted(self, status: int, answer: dict[str, Any]) -> None:
        """Say what the api answered."""
        self.step(f"POST /v1/jobs → {status}, job {answer['id']}")

    def result(self, job: dict[str, Any], takeover: Takeover, proof: Proof) -> None:
        """Show what the run has left behind: stores, attempts, takeover, proof."""
        for part in (_stores_table(proof.stores), attempts_table(job["attempts"]), _proof(proof)):
            self._out.print()
            self._out.print(part)
        counted, before, after = proof.coverage, takeover.killed, takeover.taken
        self._out.print()
        self._out.print(
            f"movements  {counted.movements:,} in the books, {counted.costed:,} costed exactly "
            f"once, {counted.missing:,} missing, {counted.repeated:,} repeated "
            f"(cost run {proof.run_id})"
        )
        self._out.print(
            f"takeover   {takeover.killed_name} (fence {before.fence}) → {takeover.taken_name} "
            f"(fence {after.fence}), {takeover.seconds:.1f} s after kill -9, from checkpoint "
            f"{before.checkpoint_no} ({before.done:,} of {before.total:,} movements)"
        )

    def end(self, *, seconds: float, processes: int) -> None:
        """Say that it is over and that nothing is left."""
        self._out.print(
            f"[bold green]all proofs hold[/]; {processes} processes started, none left running; "
            f"{seconds} s"
        )


def _stores_table(stores: Sequence[StoreRow]) -> Table:
    made = show.table(STORES, COLUMNS, [])
    for brand, group in groupby(stores, key=lambda row: row.brand):
        rows = list(group)
        for row in rows:
            made.add_row(*_cells(row.store, [row]))
        made.add_row(*_cells(f"{brand}: {len(rows)} stores", rows), style="dim")
    made.add_row(*_cells(f"tổng cộng: {len(stores)} (total)", stores), style="bold")
    return made


def _cells(name: str, rows: Sequence[StoreRow]) -> list[str]:
    return [name, *(_shown(sum(getattr(row, number) for row in rows)) for number in NUMBERS)]


def _shown(value: Decimal | int) -> str:
    return f"{value:,f}"


def _proof(proof: Proof) -> Table:
    rows = [
        (balance.what, _shown(balance.left), "=" if balance.holds else "≠", _shown(balance.right))
        for balance in proof.conservation.balances
    ]
    title = f"conservation, to the last đồng, in {proof.conservation.pools:,} cost pools"
    return show.table(title, ("value", "left#", "", "right#"), rows)

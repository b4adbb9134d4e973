"""How the demo looks: steps and the bar on stderr, the result on stdout."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from time import monotonic
from typing import Any, Literal

from rich.table import Table

from dev.cost_report import StoreRow
from dev.demo_proof import Proof
from dev.demo_takeover import Takeover
from dev.sample_company import SampleSummary
from shared.cli import show
from shared.cli.jobs import attempts_table
from shared.cli.tables import Rows, table

WIDTH = 148  # the widest table; a narrower terminal wraps it rather than cutting numbers off
STORES = "nhập – xuất – tồn / stock by store, values in đồng"
COLUMNS = (
    "cửa hàng\nstore",
    "SL đầu kỳ\nopening qty#",
    "tồn đầu kỳ\nopening value#",
    "SL nhập\nin qty#",
    "nhập\nin value#",
    "SL xuất\nout qty#",
    "xuất\nout value#",
    "chênh lệch BQ\naveraging#",
    "SL cuối kỳ\nclosing qty#",
    "tồn cuối kỳ\nclosing value#",
)
# As the columns stand; averaging has a value only.
NUMBERS = (
    ("q_opening", "v_opening"),
    ("q_incoming", "v_incoming"),
    ("q_outgoing", "v_outgoing"),
    ("", "v_averaging"),
    ("q_closing", "v_closing"),
)
TRANSFERS = {"v_incoming": "v_transfer_in", "v_outgoing": "v_transfer_out"}
NOTES = (
    "transfers   goods that moved between stores of a brand: in and out for the store, neither for",
    "            the brand, so each brand's total leaves them out",
    "averaging   all stores of a brand share one price: the value that this moved between them",
    "qty         each item in its own unit (kg, pieces, …): not added up beyond the store",
)


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
        notes = "\n".join(NOTES)
        attempts = attempts_table(job["attempts"])
        for part in (stores_table(proof.stores), notes, attempts, _proof(proof)):
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


def stores_table(stores: Sequence[StoreRow]) -> Table:
    """Every column adds up as it stands: stores less transfers are the brand, brands the total."""
    made = Table(title=STORES, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        side: Literal["left", "right"] = "right" if column.endswith("#") else "left"
        made.add_column(column.removesuffix("#"), justify=side)
    places = max(_places(getattr(row, q)) for row in stores for q, _ in NUMBERS if q)
    for brand, group in groupby(stores, key=lambda row: row.brand):
        rows = list(group)
        for row in rows:
            made.add_row(row.store, *_store_cells(row, places))
        made.add_row(f"{brand} less transfers", *_total_cells(_less_transfers(rows)), style="dim")
        made.add_row(f"{brand}: {len(rows)} stores", *_total_cells(net_totals(rows)), style="dim")
    made.add_row(
        f"tổng cộng / total: {len(stores)}", *_total_cells(net_totals(stores)), style="bold"
    )
    return made


def net_totals(rows: Sequence[StoreRow]) -> dict[str, Decimal]:
    """Each value summed, without transfers between the stores: what came from outside, and left."""
    less = _less_transfers(rows)
    return {v: sum((getattr(row, v) for row in rows), less[v]) for _, v in NUMBERS}


def _less_transfers(rows: Sequence[StoreRow]) -> dict[str, Decimal]:
    moved = {
        v: sum((getattr(row, name) for row in rows), Decimal()) for v, name in TRANSFERS.items()
    }
    return {v: -moved.get(v, Decimal()) for _, v in NUMBERS}


def _store_cells(row: StoreRow, places: int) -> Iterator[str]:
    for q, v in NUMBERS:
        if q:
            yield f"{getattr(row, q):,.{places}f}"
        yield _shown(getattr(row, v))


def _total_cells(values: Mapping[str, Decimal]) -> Iterator[str]:
    for q, v in NUMBERS:
        if q:
            yield ""
        yield _shown(values[v]) if values[v] else "0"


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _shown(value: Decimal | int) -> str:
    return f"{value:,f}"


def _proof(proof: Proof) -> Rows:
    rows = [
        (balance.what, _shown(balance.left), "=" if balance.holds else "≠", _shown(balance.right))
        for balance in proof.conservation.balances
    ]
    pools = f"{proof.conservation.pools:,} cost pools (one for each item of each brand)"
    title = f"conservation, to the last đồng, in {pools}"
    return table(title, ("value", "left#", "", "right#"), rows)

"""Cost runs as the api shows them, with what proves each.

What an account with some brands sees of a run of the whole company is that part, totals included.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from api.bodies import job_url, show_instant
from api.cost_views import Row
from shared.costs.shown import scaled


class RunItems(BaseModel):
    """Items of a run; `speaking` are those whose active result is this run's."""

    total: int
    costed: int
    failed: int
    speaking: int | None = Field(description="null in lists, and once the run's rows are gone")
    stale: int | None = Field(description="of those: an earlier period was costed anew since")


class RunTotals(BaseModel):
    """Values of all pools, added up: opening + in = out + closing."""

    opening: str
    receipt: str
    gain: str
    sales_return: str
    transfer_in: str | None = Field(description="null once the rows of the run are gone")
    issue: str
    usage: str
    purchase_return: str
    transfer_out: str | None
    rounding: str
    true_up: str
    closing: str
    variance: str = Field(description="beside the stock: a debit of 632, below 0 a credit")


class RunCheck(BaseModel):
    """An invariant, checked again when it was asked for."""

    id: str
    says: str
    checked: int = Field(description="how many pools were looked at")
    broken: int = Field(description="0, or the numbers of this run must not be used")


class RunProof(BaseModel):
    """What proves a run: its totals, its invariants, and what it was computed from, and by what."""

    totals: RunTotals | None = Field(
        description="null while it is built; of a part also once its rows are gone"
    )
    checks: list[RunCheck] = Field(description="empty while it is built and once its rows are gone")
    checksum: str | None = Field(
        description="SHA-256 of all results: the same for any chunks, workers and order"
    )
    snapshot: str = Field(description="which movements the run has seen (pg_snapshot)")
    code_version: str | None
    rounds: int = Field(description="how often it followed movements that came while it computed")
    parts: int | None = Field(description="how many jobs shared the work; null: one did it")


class RunSummary(BaseModel):
    """A cost run as lists show it."""

    id: int
    company: str
    brand: str | None = Field(description="null: of the whole company")
    of_brands: list[str] | None = Field(
        description="the brands this account has; what is told is that part. null: everything"
    )
    period: str
    status: str = Field(
        description="building, active (speaks for items), superseded (replaced whole; its rows are "
        "gone), previewed (never spoke; differences and errors are left), failed"
    )
    dry_run: bool = Field(description="a preview: nothing is published")
    method: str
    pool_policy: str
    residue_policy: str
    negative: str
    scope: Any = Field(description="the items that were asked for; null: all", examples=[None])
    items: RunItems | None = Field(description="null while it is built, and in lists of a part")
    movements: int | None
    created_at: str
    activated_at: str | None
    links: dict[str, str]


class RunView(RunSummary):
    """A cost run with its proof."""

    starts_on: str
    ends_on: str
    previous_period: str | None = Field(description="the one whose closing it opened with")
    currency: str
    proof: RunProof


def run_url(run_id: int) -> str:
    """Path of a run's header."""
    return f"/v1/cost-runs/{run_id}"


def run_summary(row: Row, brands: Sequence[str] | None) -> dict[str, Any]:
    """What RunSummary describes; `brands` are the account's, None: all of the run's."""
    url = run_url(row["id"])
    known = row["checksum"] is not None
    items = None
    if known and brands is None:
        total, failed = row["items_total"], row["items_failed"]
        items = _items(total, failed, speaking=None, stale=None)
    return {
        "id": row["id"],
        "company": row["company"],
        "brand": row["brand"],
        "of_brands": None if brands is None else [*brands],
        "period": row["period"],
        "status": row["status"],
        "dry_run": row["dry_run"],
        "method": row["method"],
        "pool_policy": row["pool_policy"],
        "residue_policy": row["residue_policy"],
        "negative": row["negative"],
        "scope": row["scope"],
        "items": items,
        "movements": row["movements_total"] if items else None,
        "created_at": show_instant(row["created_at"]),
        "activated_at": show_instant(row["activated_at"]),
        "links": _links(row, url),
    }


def _links(row: Row, url: str) -> dict[str, str]:
    links = {"self": url, "job": job_url(row["job_id"])}
    if row["status"] == "active":
        links |= {name: f"{url}/{name}" for name in ("results", "errors", "exports")}
    elif row["status"] == "previewed":
        links |= {name: f"{url}/{name}" for name in ("differences", "errors", "exports")}
    return links


def _items(total: int, failed: int, *, speaking: int | None, stale: int | None) -> dict[str, Any]:
    return {
        "total": total,
        "costed": total - failed,
        "failed": failed,
        "speaking": speaking,
        "stale": stale,
    }


def run_view(
    row: Row, brands: Sequence[str] | None, counts: Row | None, proven: Row | None
) -> dict[str, Any]:
    """What RunView describes; `counts` and `proven` are None where the run's rows are no more."""
    view = run_summary(row, brands)
    if counts is not None:
        view["items"] = _items(
            counts["total"], counts["failed"], speaking=counts["speaking"], stale=counts["stale"]
        )
        view["movements"] = int(counts["movements"])
    checksum = row["checksum"]
    totals = proven if proven is not None else row if brands is None else None
    if checksum is None:
        totals = None
    proof = {
        "totals": None if totals is None else _totals(totals, row["minor_digits"]),
        "checks": [] if proven is None else _checks(row, proven, whole=brands is None),
        "checksum": None if checksum is None else checksum.hex(),
        "snapshot": row["snapshot"],
        "code_version": row["code_version"],
        "rounds": row["rounds"],
        "parts": (counts["parts"] or None) if counts is not None else None,
    }
    return view | {
        "starts_on": row["starts_on"].isoformat(),
        "ends_on": row["ends_on"].isoformat(),
        "previous_period": row["previous_period"],
        "currency": row["currency"],
        "proof": proof,
    }


def _totals(row: Row, minor_digits: int) -> dict[str, str | None]:
    found = {name: row.get(f"v_{name}") for name in RunTotals.model_fields}
    return {
        name: None if value is None else scaled(int(value), minor_digits)
        for name, value in found.items()
    }


def _checks(run: Row, proven: Row, *, whole: bool) -> list[dict[str, Any]]:
    pools = proven["pools"]

    def check(name: str, says: str, broken: int) -> dict[str, Any]:
        return {"id": name, "says": says, "checked": pools, "broken": broken}

    stored = [f"v_{name}" for name in RunTotals.model_fields if f"v_{name}" in run]
    checks = [
        check("I1", "opening + in = out + closing, in value", proven["value_broken"]),
        check("I2", "opening + in = out + closing, in quantity", proven["qty_broken"]),
        check("I4", "no quantity is left: no value is", proven["drained_broken"]),
    ]
    if whole:
        checks.insert(
            2,
            check("I3", "what pools sent is what pools got, by item", proven["transfers_broken"]),
        )
        broken = sum(int(run[name]) != int(proven[name]) for name in stored)
        checks.append(check("totals", "the totals stored at activation are those of today", broken))
    return checks

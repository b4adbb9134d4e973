"""What a costing job answers: totals, proof, first errors, and warnings; amounts as strings."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.kinds.costing import CostingRunPayload
from worker.records.cost_results import Sealed, shown
from worker.records.cost_runs import CostRun
from worker.records.staleness import Aged


def run_result(
    run: CostRun, sealed: Sealed, aged: Aged, pools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Of a run that speaks now; `pools` is what is to be said of its pools."""
    result = _totals(run, sealed)
    result["warnings"] += pools
    if aged.stale:
        result["warnings"].append({"code": "LATER_PERIODS_STALE", "results": aged.stale})
    if aged.sound:
        result["warnings"].append({"code": "LATER_PERIODS_SOUND", "results": aged.sound})
    return result


def preview_result(
    run: CostRun,
    sealed: Sealed,
    differences: Sequence[Mapping[str, Any]],
    errors_by_code: Mapping[str, int],
) -> dict[str, Any]:
    """Of a preview: the same totals, and what publishing them would change."""
    digits = sealed.totals.minor_digits
    accounts = [
        {
            "account": row["account"],
            "items": row["items"],
            "before": shown(row["before"], digits),
            "after": shown(row["after"], digits),
            "difference": shown(row["after"] - row["before"], digits),
        }
        for row in differences
    ]
    findings = {"errors_by_code": dict(errors_by_code), "differences": accounts}
    return {**_totals(run, sealed), "preview": True, **findings}


def nothing_to_cost(payload: CostingRunPayload) -> dict[str, Any]:
    """Of a job whose selectors mean no item: a normal end, without a run."""
    return {
        "outcome": "nothing_to_do",
        "run_id": None,
        "period": payload.period,
        "items": {"total": 0, "costed": 0, "failed": 0},
        "errors": [],
        "warnings": [{"code": "SCOPE_EMPTY"}],
    }


def _totals(run: CostRun, sealed: Sealed) -> dict[str, Any]:
    totals = sealed.totals
    names = [name for name in totals._fields if name.startswith("v_")]
    values = {n.removeprefix("v_"): shown(getattr(totals, n), totals.minor_digits) for n in names}
    cogs = totals.v_issue - totals.v_sales_return + totals.v_rounding + totals.v_true_up
    warnings: list[dict[str, Any]] = []
    if totals.previous_stale:
        warnings.append({"code": "PREVIOUS_PERIOD_STALE", "period": run.previous_period})
    if totals.dipped:
        warnings.append({"code": "NEGATIVE_WITHIN_PERIOD", "pools": totals.dipped})
    if totals.negative:
        warnings.append({"code": "NEGATIVE_AT_PERIOD_END", "pools": totals.negative})
    return {
        "outcome": "completed_with_errors" if totals.items_failed else "completed",
        "run_id": run.id,
        "period": run.period,
        "items": {
            "total": totals.items_total,
            "costed": totals.items_total - totals.items_failed,
            "failed": totals.items_failed,
        },
        "movements": totals.movements_total,
        "values": {**values, "cogs": shown(cogs, totals.minor_digits)},
        "checksum": totals.checksum.hex(),
        "recompute_rounds": totals.rounds,
        "errors": sealed.errors,
        "warnings": warnings,
    }

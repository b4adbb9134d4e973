"""All planted bugs, in the order of docs/mutants.md."""

from tests.mutants import (
    averages,
    costs,
    documents,
    groups,
    imports,
    judged,
    ledger,
    locking,
    movements,
    order,
    ownership,
    periods,
    replays,
    results,
    runs,
    work,
)

MUTANTS = (
    *ownership.MUTANTS,
    *work.MUTANTS,
    *order.MUTANTS,
    *locking.MUTANTS,
    *groups.MUTANTS,
    *movements.MUTANTS,
    *periods.MUTANTS,
    *replays.MUTANTS,
    *averages.MUTANTS,
    *judged.MUTANTS,
    *runs.MUTANTS,
    *results.MUTANTS,
    *documents.MUTANTS,
    *ledger.MUTANTS,
    *imports.MUTANTS,
    *costs.MUTANTS,
)

"""All planted bugs, in the order of docs/mutants.md."""

from tests.mutants import groups, locking, order, ownership, work

MUTANTS = (
    *ownership.MUTANTS,
    *work.MUTANTS,
    *order.MUTANTS,
    *locking.MUTANTS,
    *groups.MUTANTS,
)

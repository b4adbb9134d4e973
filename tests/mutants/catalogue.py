"""All planted bugs, in the order of docs/mutants.md."""

from tests.mutants import ownership, work

MUTANTS = (*ownership.MUTANTS, *work.MUTANTS)

"""Bugs in cost runs: what they say of later periods."""

from tests.mutants.mutant import mutant

STALENESS = "worker/records/staleness.py"
STALE = "protocol/test_costing_stale.py"

MUTANTS = (
    mutant(
        "a re-run that closes as before makes later periods stale",
        (STALENESS, "coalesce(p.closing_digest <> a.opening_digest, true)", "true"),
        f"{STALE}::test_a_rerun_that_closes_as_before_leaves_later_periods_alone",
    ),
)

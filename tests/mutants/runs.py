"""Bugs in cost runs: what they say of later periods, of debts, and of what is beside the stock."""

from tests.mutants.mutant import mutant

STALENESS = "worker/records/staleness.py"
STALE = "protocol/test_costing_stale.py"
MET = "test_what_is_left_where_goods_meet_a_debt_keeps_its_unit_cost"
OWN_POOLS = "test_a_run_by_other_pools_than_the_map_says_so_and_keeps_its_period_open"

MUTANTS = (
    mutant(
        "a re-run that closes as before makes later periods stale",
        (STALENESS, "coalesce(p.closing_digest <> a.opening_digest, true)", "true"),
        f"{STALE}::test_a_rerun_that_closes_as_before_leaves_later_periods_alone",
    ),
    mutant(
        "what is left where goods meet a debt is worth nothing",
        ("worker/costing/meeting.py", "return worth if left > 0 else -worth", "return 0"),
        f"unit/costing/test_carry.py::{MET}",
    ),
    mutant(
        "a preview owes late freight only as far as it joined the goods",
        ("worker/records/differences.py", "-CAST(c.variance AS numeric) AS amount", "0 AS amount"),
        "protocol/test_costing_preview_sides.py::test_late_freight_is_owed_whole[fifo]",
    ),
    mutant(
        "a run's own pools are no business of who closes the period",
        (
            "worker/records/period_checks.py",
            """POOLS.format(policy="'map'")""",
            'POOLS.format(policy="r.pool_policy")',
        ),
        f"protocol/test_period_pools.py::{OWN_POOLS}",
    ),
)

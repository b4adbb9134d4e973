"""Bugs in the periodic average: prices, residues, what is owed."""

from tests.mutants.mutant import mutant

COSTING, TESTS = "worker/costing", "unit/costing"

MUTANTS = (
    mutant(
        "pools that send to each other are priced one after the other",
        (f"{COSTING}/prices.py", "if source in column:", "if source == member:"),
        f"{TESTS}/test_transfers.py::test_pools_that_send_to_each_other_are_solved_together",
        also={
            f"{TESTS}/test_transfers.py::"
            "test_goods_that_go_round_and_came_from_nowhere_name_their_way": (
                "whoever prices each pool alone never sees a circle"
            ),
        },
    ),
    mutant(
        "goods that never came from anywhere are worth nothing",
        (
            f"{COSTING}/circles.py",
            "return gaining or _circle_without_source(circle, pools, equations)",
            "return gaining",
        ),
        (
            f"{TESTS}/test_transfers.py::"
            "test_goods_that_go_round_and_came_from_nowhere_name_their_way"
        ),
    ),
    mutant(
        "goods that are made of themselves alone are worth what was added to them",
        (
            f"{COSTING}/prices.py",
            "self._solved(circle, equations) if has_source(circle, equations) else None",
            "self._solved(circle, equations)",
        ),
        (
            f"{TESTS}/test_oracle_rules.py::"
            "test_goods_that_are_made_of_themselves_alone_came_from_nowhere[40]"
        ),
    ),
    mutant(
        "other goods that go into what is made of itself are no source",
        (f"{COSTING}/circles.py", "any(e.own or e.mixed or not", "any(e.own or not"),
        (
            f"{TESTS}/test_oracle_rules.py::"
            "test_what_goes_into_itself_with_other_goods_came_with_them[105-closing0]"
        ),
    ),
    mutant(
        "a sale that came back whole carries a residue although another line could",
        (
            f"{COSTING}/pushes.py",
            "path = self._nearest(number, must) or",
            "path = self._nearest(number, must, any_line=True) or",
        ),
        f"{TESTS}/test_pushes.py::test_a_sale_that_came_back_whole_keeps_its_cost",
    ),
    mutant(
        "what is owed is settled by nothing",
        (
            f"{COSTING}/pools.py",
            "pool.settled = min(max(0, -pool.opening.qty), there)",
            "pool.settled = min(0, there)",
        ),
        f"{TESTS}/test_provisional.py::test_what_comes_in_next_covers_it_at_its_own_cost",
    ),
    mutant(
        "freight of goods that are gone is put on what is left",
        (
            f"{COSTING}/entries.py",
            "joins = half_up(value * max(0, min(opened, late.qty)), late.qty)",
            "joins = value if opened else 0",
        ),
        (
            f"{TESTS}/test_transfers.py::"
            "test_freight_of_an_earlier_receipt_is_split_by_what_may_still_be_there[part]"
        ),
    ),
    mutant(
        "a transfer of an earlier period is taken back at the price of today",
        (
            f"{COSTING}/entries.py",
            "role = Role.SENT if cost is None else Role.RETURN",
            "role = Role.SENT",
        ),
        (
            f"{TESTS}/test_transfers.py::"
            "test_a_transfer_of_an_earlier_period_is_taken_back_at_what_it_had_cost"
        ),
    ),
)

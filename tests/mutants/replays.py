"""Bugs in the replayed methods: layers, order, returns, what is owed, strict examples."""

from tests.mutants.mutant import mutant

COSTING, TESTS = "worker/costing", "unit/costing"

MUTANTS = (
    mutant(
        "a transfer makes its goods young",
        (
            f"{COSTING}/steps.py",
            "movement.id if origin is None else origin, movement.lot",
            "movement.id, movement.lot",
        ),
        f"{TESTS}/test_replay.py::test_layers_keep_what_brought_them_in_across_pools",
        also={
            f"{TESTS}/test_replay.py::test_a_layer_goes_back_from_where_a_transfer_has_brought_it": (
                "it looks for the receipt's layer behind a transfer"
            ),
        },
    ),
    mutant(
        "a purchase return takes the oldest goods",
        (f"{COSTING}/fifo.py", "for layer in self._own(origin):", "for layer in self._own(-1):"),
        f"{TESTS}/test_replay.py::test_a_layer_goes_back_from_where_a_transfer_has_brought_it",
    ),
    mutant(
        "goods are made before what they are made of is consumed",
        (
            f"{COSTING}/instants.py",
            "ids = movement.sources or",
            "ids = movement.sources[:0] or",
        ),
        f"{TESTS}/test_replay_made.py::test_a_backdated_repack_needs_no_stock_between_its_rows",
    ),
    mutant(
        "a receipt covers nothing of what is owed",
        (f"{COSTING}/moving_average.py", "if self.qty < 0:", "if self.qty < -(2**63):"),
        f"{TESTS}/test_replay.py::test_an_opening_below_zero_needs_provisional_costs",
    ),
    mutant(
        "late freight stays with the pool that still has some of its goods",
        (f"{COSTING}/landing.py", "value * min(left, receipt.qty)", "value * receipt.qty"),
        (f"{TESTS}/test_replay.py::test_late_landed_cost_is_split_by_the_layers_left_in_all_pools"),
    ),
    mutant(
        "a method that nobody knows is passed over",
        (
            f"{COSTING}/vectors.py",
            'expected.only(set(methods), "a method: " + ", ".join(methods))',
            "expected.only(set(expected.found))",
        ),
        f"{TESTS}/test_vectors.py::test_a_bad_file_is_refused_with_field_value_and_rule",
    ),
)

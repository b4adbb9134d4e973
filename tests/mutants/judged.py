"""Bugs in rules that every method shares; who holds a result against the oracle sees them."""

from tests.mutants.mutant import mutant

COSTING, TESTS = "worker/costing", "unit/costing"
RULES, SIZES = f"{TESTS}/test_oracle_rules.py", f"{TESTS}/test_oracle_sizes.py"

MUTANTS = (
    mutant(
        "a price is rounded before it is multiplied",
        (
            f"{COSTING}/moving_average.py",
            "out = (2 * value * qty + have) // (2 * have)",
            "out = min(value, (2 * value + have) // (2 * have) * qty)",
        ),
        f"{SIZES}::test_a_price_of_large_numbers_is_not_a_float[moving_avg]",
        also={
            f"{RULES}::test_the_date_decides_and_not_the_id": (
                "its average is no whole number, either"
            ),
        },
    ),
    mutant(
        "the youngest goods leave first",
        (
            f"{COSTING}/fifo.py",
            "layer = queue[0]\n            have, value",
            "layer = queue[-1]\n            have, value",
        ),
        f"{RULES}::test_the_oldest_goods_leave_first",
        (
            f"{COSTING}/fifo.py",
            "queue.popleft()\n            total += value",
            "queue.pop()\n            total += value",
        ),
        also={
            f"{RULES}::test_the_date_decides_and_not_the_id": (
                "its receipts of two days are layers, too"
            ),
        },
    ),
    mutant(
        "what comes back in parts is rounded part by part",
        (
            f"{COSTING}/exact.py",
            "return half_up(value * (before + part), whole) - half_up(value * before, whole)",
            "return half_up(value * part, whole)",
        ),
        f"{RULES}::test_what_comes_back_in_parts_gives_back_the_whole[moving_avg]",
    ),
    mutant(
        "a number that a bigint cannot hold is one",
        (f"{COSTING}/exact.py", "LARGEST = 2**63 - 1", "LARGEST = 2**64 - 1"),
        f"{SIZES}::test_the_largest_number_fits_and_one_more_is_an_overflow[fifo]",
    ),
    mutant(
        "what goes is read before what comes at the same instant",
        (f"{COSTING}/movements.py", "{kind: rank for rank, kind", "{kind: -rank for rank, kind"),
        f"{RULES}::test_what_comes_at_the_instant_of_an_issue_comes_before_it[fifo]",
    ),
    mutant(
        "movements are read in the order in which they were entered",
        (
            f"{COSTING}/movements.py",
            "return movement.day, movement.seq, RANK[movement.kind], movement.id",
            "return movement.id, movement.seq, RANK[movement.kind], movement.day",
        ),
        f"{RULES}::test_the_date_decides_and_not_the_id",
        also={
            f"{RULES}::test_what_comes_at_the_instant_of_an_issue_comes_before_it[fifo]": (
                "its issue was entered before the receipt"
            ),
        },
    ),
    mutant(
        "a movement counts as read when a newer one has been read",
        (
            "worker/records/changes.py",
            "           AND NOT pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))),",
            "           AND m.xid >= (SELECT pg_snapshot_xmax(snapshot) FROM run)),",
        ),
        "protocol/test_costing_run.py::test_a_smaller_id_that_commits_later_is_found",
    ),
)

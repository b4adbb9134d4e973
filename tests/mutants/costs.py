"""Bugs of costs in the ledger: what movements book, costing again, who is overtaken, control."""

from tests.mutants.mutant import mutant

LEGS = "shared/costs/legs.py"
PLAN = "worker/records/cost_plan.py"
HANDLER = "worker/handlers/cost_documents.py"
CONTROL = "shared/ledger/control.py"
DOCUMENTS, KILLS = "protocol/test_cost_documents.py", "protocol/test_cost_kills.py"
CONTROLS = "protocol/test_control.py"

MUTANTS = (
    mutant(
        "what comes back in a later period is sold once more",
        (LEGS, "THEN -c.sign * c.value", "THEN -c.value"),
        f"{DOCUMENTS}::test_what_a_later_period_takes_back_is_the_opposite[day_store]",
        also={
            f"{DOCUMENTS}::test_a_return_to_a_supplier_that_a_later_period_takes_back": (
                "goods that a supplier has taken back are taken back by the same rule"
            ),
        },
    ),
    mutant(
        "opening goods of the period are there twice",
        (LEGS, "sum(s.effect) - sum(s.opened) AS effect", "sum(s.effect) AS effect"),
        f"{DOCUMENTS}::test_goods_of_the_time_before_are_there_once",
    ),
    mutant(
        "a supplier credits what the goods had cost, whatever his note says",
        (LEGS, "                    WHEN b.here IS NOT NULL THEN b.here\n", ""),
        f"{DOCUMENTS}::test_what_a_supplier_credits_is_his_and_the_rest_is_variance",
        also={
            f"{DOCUMENTS}::test_a_return_to_a_supplier_that_a_later_period_takes_back": (
                "its note is another amount, too"
            ),
        },
    ),
    mutant(
        "a cost document that stands is never looked at again",
        (PLAN, " OR w.digest IS DISTINCT FROM s.content_hash)", ")"),
        f"{DOCUMENTS}::test_a_costing_that_changes_reverses_what_it_changes_and_creates_it_anew",
        also={
            f"{KILLS}::test_a_costing_that_becomes_active_meanwhile_is_followed[0]": (
                "who is followed has other costs"
            ),
            f"{KILLS}::test_an_activation_waits_for_the_chunk_that_is_open": (
                "costs were posted before it"
            ),
        },
    ),
    mutant(
        "every costing makes every document anew",
        (PLAN, "w.digest IS DISTINCT FROM s.content_hash", "true"),
        f"{DOCUMENTS}::test_asking_again_posts_nothing",
        also={
            f"{DOCUMENTS}::test_a_costing_that_changes_reverses_what_it_changes_and_creates_it_anew": (
                "it counts what is left alone"
            ),
            f"{DOCUMENTS}::test_what_a_later_period_takes_back_is_the_opposite[day_store]": (
                "it ends by asking again"
            ),
        },
    ),
    mutant(
        "costs that were unposted later are taken back twice",
        (PLAN, "AND NOT (c.period = :period AND c.standing)", "AND false"),
        f"{DOCUMENTS}::test_a_return_to_a_supplier_that_a_later_period_takes_back",
    ),
    mutant(
        "a plan is posted though another run speaks by now",
        (HANDLER, "await read_state(conn, costs) != course.state", "False"),
        f"{KILLS}::test_a_costing_that_becomes_active_meanwhile_is_followed[0]",
    ),
    mutant(
        "costs are posted outside the period's gate",
        (HANDLER, "    await pass_gate(conn, costs)\n", ""),
        f"{KILLS}::test_an_activation_waits_for_the_chunk_that_is_open",
    ),
    mutant(
        "stores of a pool may differ by what cancels out",
        (CONTROL, "HAVING bool_or(p.value <> p.balance)", "HAVING sum(p.value) <> sum(p.balance)"),
        f"{CONTROLS}::test_a_difference_between_the_stores_of_a_pool_is_one",
    ),
    mutant(
        "a period is closed whatever its ledger says",
        ("worker/records/ledger_checks.py", "(goods.differing, goods.first or ())", "(0, ())"),
        f"{CONTROLS}::test_a_period_whose_ledger_differs_is_not_closed",
    ),
)

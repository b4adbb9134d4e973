"""The demo fails when a proof does: each rule, broken once."""

from dataclasses import replace
from decimal import Decimal

import pytest

from dev.cost_report import Balance, Conservation, Coverage, StoreRow
from dev.demo_proof import Proof

STORE = StoreRow(
    brand="LUA",
    store="LUA-01",
    name="Lúa Vàng",
    items=1,
    q_opening=Decimal("1.5"),
    v_opening=Decimal(150),
    q_incoming=Decimal(2),
    v_incoming=Decimal(220),
    q_outgoing=Decimal("0.5"),
    v_outgoing=Decimal(50),
    v_averaging=Decimal(-3),
    q_closing=Decimal(3),
    v_closing=Decimal(317),
)
EXACT = Coverage(movements=9, costed=9, missing=0, repeated=0, foreign=0, in_failed_items=0)
EVEN = Balance(what="in = out", left=Decimal(7), right=Decimal(7))
CONSERVED = Conservation(balances=(EVEN,), pools=1, pools_unbalanced=0, empty_pools_with_value=0)
PROOF = Proof(run_id=1, stores=(STORE,), coverage=EXACT, conservation=CONSERVED)


def test_a_proof_that_holds_has_no_failures() -> None:
    assert PROOF.failures == []


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (replace(PROOF, stores=(replace(STORE, v_closing=Decimal(316)),)), "LUA-01"),
        (replace(PROOF, stores=(replace(STORE, q_closing=Decimal("2.9")),)), "LUA-01"),
        (replace(PROOF, coverage=replace(EXACT, missing=1, costed=8)), "1 have no cost"),
        (replace(PROOF, coverage=replace(EXACT, repeated=1)), "1 more than one"),
        (replace(PROOF, coverage=replace(EXACT, costed=8, in_failed_items=1)), "1 could not"),
        (
            replace(
                PROOF,
                conservation=replace(CONSERVED, balances=(replace(EVEN, right=Decimal(8)),)),
            ),
            "7 is not 8",
        ),
        (replace(PROOF, conservation=replace(CONSERVED, pools_unbalanced=2)), "2 pools"),
    ],
)
def test_each_broken_rule_is_a_failure_that_says_which(broken: Proof, said: str) -> None:
    """One đồng, one movement, one gram: the demo ends with 1 and a sentence."""
    [sentence] = broken.failures
    assert said in sentence

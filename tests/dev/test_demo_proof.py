"""The demo fails when a proof does: each rule, broken once."""

from dataclasses import replace
from decimal import Decimal

import pytest

from dev.cost_report import Balance, Conservation, Coverage, StoreRow
from dev.demo_proof import Proof
from dev.demo_screen import stores_table

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
    q_transfer_in=Decimal(1),
    v_transfer_in=Decimal(40),
    q_transfer_out=Decimal("0.25"),
    v_transfer_out=Decimal(10),
)
# The other end of the first one's transfers.
OTHER = replace(
    STORE,
    store="LUA-02",
    v_averaging=Decimal(3),
    v_closing=Decimal(323),
    v_transfer_in=Decimal(10),
    v_transfer_out=Decimal(40),
)
EXACT = Coverage(movements=9, costed=9, missing=0, repeated=0, foreign=0, in_failed_items=0)
EVEN = Balance(what="in = out", left=Decimal(7), right=Decimal(7))
CONSERVED = Conservation(balances=(EVEN,), pools=1, pools_unbalanced=0, empty_pools_with_value=0)
PROOF = Proof(run_id=1, stores=(STORE,), coverage=EXACT, conservation=CONSERVED)


def test_the_table_adds_up_and_its_total_leaves_transfers_out() -> None:
    """An accountant adds the columns up, and finds the total row in the proof."""
    table = stores_table([STORE, OTHER])
    columns = [list(column.cells) for column in table.columns]
    *stores, less, brand, total = columns[0]
    assert stores == ["LUA-01", "LUA-02"]
    assert [less, brand] == ["LUA less transfers", "LUA: 2 stores"]
    assert total == "tổng cộng / total: 2"
    opening, incoming, outgoing, averaging, closing = (columns[n] for n in (2, 4, 6, 7, 9))
    assert opening == ["150", "150", "0", "300", "300"]
    assert incoming == ["220", "220", "-50", "390", "390"]
    assert outgoing == ["50", "50", "-50", "50", "50"]
    assert averaging == ["-3", "3", "0", "0", "0"]
    assert closing == ["317", "323", "0", "640", "640"]
    assert 300 + 390 == 50 + 640
    assert columns[1] == ["1.5", "1.5", "", "", ""]
    assert columns[3] == ["2.0", "2.0", "", "", ""]


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

"""Each code has a smallest company that it is for, and names the movement that causes it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from worker.costing.engine import cost_items
from worker.costing.movements import (
    ItemStock,
    Method,
    Movement,
    Opening,
    OpeningLayer,
    Reference,
    in_order,
)
from worker.costing.problems import Code
from worker.costing.results import ItemFailure, Policy

POOLS = {"S1": "B/P1", "S2": "B/P2", "S3": "B/P1"}
ALL = tuple(Method)
PERIODIC = (Method.PERIODIC,)
# FIFO and specific identification open with layers, each of which has goods.
PRICED = (Method.PERIODIC, Method.MOVING)
REPLAYED = (Method.MOVING, Method.FIFO, Method.SPECIFIC)
EARLIER = {
    901: Reference("receipt", "S1", 5, 500, 2),
    902: Reference("issue", "S1", 5, 500, 2),
    903: Reference("issue", "S1", 5, None, 0),
}
# What the run, not the engine, finds: it knows scopes, openings and what came meanwhile.
OF_THE_RUN = {Code.OUT_OF_SCOPE, Code.OPENING_NOT_COSTED, Code.ENGINE_FAULT}


class Case(NamedTuple):
    """Rows (kind, quantity, more), ids from 1 in order; who is to fail, why, and what is named."""

    code: Code
    methods: Sequence[Method]
    rows: Sequence[tuple[str, int, dict[str, Any]]]
    named: set[int]
    opening: tuple[int, int] = (10, 1000)
    item: str = "A"


N, M, R = Code.NEGATIVE_STOCK, Code.MISSING_COST, Code.RETURN_WITHOUT_REF
CASES = {
    "one issue is too much": Case(N, ALL, [("issue", 11, {})], {1}),
    "the first that breaks it": Case(N, ALL, [("issue", 9, {}), ("issue", 2, {})], {2}),
    "a transfer": Case(N, ALL, [("issue", 9, {}), ("transfer", 2, {"to_store": "S2"})], {2}),
    "goods come too late": Case(
        N, REPLAYED, [("issue", 11, {}), ("receipt", 5, {"value": 9})], {1}
    ),
    "another pool has them": Case(N, ALL, [("issue", 1, {"store": "S2"})], {1}),
    "a return to the vendor": Case(N, ALL, [("purchase_return", 11, {"basis": "average"})], {1}),
    "a receipt without value": Case(M, ALL, [("receipt", 1, {})], {1}),
    "goods made of nothing known": Case(M, ALL, [("produce", 1, {})], {1}),
    "goods found where none were": Case(M, ALL, [("adjust_in", 1, {})], {1}, (0, 0)),
    "goods counted where none were": Case(M, ALL, [("count", 1, {})], {1}, (0, 0)),
    "a sale nobody costed": Case(M, ALL, [("sales_return", 1, {"ref": 903})], {1}),
    "an opening without goods": Case(Code.ORPHAN_VALUE, PRICED, [], set(), (0, 5)),
    "freight on nothing": Case(
        Code.ORPHAN_VALUE, PERIODIC, [("landed_cost", 0, {"value": 5})], {1}, (0, 0)
    ),
    "a sale that nobody names": Case(R, ALL, [("sales_return", 1, {})], {1}),
    "a sale that is not there": Case(R, ALL, [("sales_return", 1, {"ref": 77})], {1}),
    "a receipt that nobody names": Case(R, ALL, [("purchase_return", 1, {})], {1}),
    "more than was sold": Case(
        Code.RETURN_EXCEEDS_ISSUE, ALL, [("issue", 1, {}), ("sales_return", 2, {"ref": 1})], {2}
    ),
    "more than earlier periods left": Case(
        Code.RETURN_EXCEEDS_ISSUE, ALL, [("sales_return", 4, {"ref": 902})], {1}
    ),
    "the second return is too much": Case(
        Code.RETURN_EXCEEDS_ISSUE,
        ALL,
        [("issue", 3, {}), ("sales_return", 2, {"ref": 1}), ("sales_return", 2, {"ref": 1})],
        {3},
    ),
    "more than was received": Case(
        Code.RETURN_EXCEEDS_RECEIPT,
        ALL,
        [("receipt", 1, {"value": 5}), ("purchase_return", 2, {"ref": 1})],
        {2},
    ),
    "more than earlier periods kept": Case(
        Code.RETURN_EXCEEDS_RECEIPT, ALL, [("purchase_return", 4, {"ref": 901})], {1}
    ),
    "a reduction beyond the receipt": Case(
        Code.RETURN_EXCEEDS_VALUE,
        ALL,
        [("receipt", 1, {"value": 5}), ("landed_cost", 0, {"value": -2000, "ref": 1})],
        {2},
    ),
    "a reversal of less": Case(
        Code.REVERSAL_MISMATCH, ALL, [("issue", 2, {}), ("issue", 1, {"reverses": 1})], {2}
    ),
    "a reversal of another kind": Case(
        Code.REVERSAL_MISMATCH, ALL, [("issue", 2, {}), ("consume", 2, {"reverses": 1})], {2}
    ),
    "goods go round": Case(
        Code.CYCLE_WITHOUT_SOURCE,
        PERIODIC,
        [("transfer", 2, {"to_store": "S2"}), ("transfer", 2, {"store": "S2", "to_store": "S1"})],
        {1, 2},
        (0, 0),
    ),
    "what it is made of fails": Case(
        Code.SOURCE_NOT_COSTED,
        ALL,
        [("consume", 11, {}), ("produce", 1, {"item": "B", "sources": (1,)})],
        {2},
        item="B",
    ),
    "a lot that nobody names": Case(
        Code.LOT_REQUIRED, (Method.SPECIFIC,), [("issue", 1, {"lot": None})], {1}
    ),
    "made of each other by two methods": Case(
        Code.METHOD_MISMATCH,
        ALL,
        [
            ("consume", 1, {}),
            ("produce", 1, {"item": "B", "sources": (1,)}),
            ("consume", 1, {"item": "B"}),
            ("produce", 1, {"sources": (3,)}),
        ],
        {4},
    ),
    "value beyond a bigint": Case(
        Code.OVERFLOW,
        ALL,
        [("receipt", 1, {"value": 2**62}), ("receipt", 1, {"value": 2**62})],
        set(),
    ),
    "quantity beyond a bigint": Case(
        Code.OVERFLOW,
        ALL,
        [("receipt", 2**62, {"value": 1}), ("receipt", 2**62, {"value": 1})],
        set(),
    ),
}


def _stocks(case: Case, method: Method) -> list[ItemStock]:
    rows: dict[str, list[Movement]] = {"A": [], "B": []}
    for number, (kind, quantity, more) in enumerate(case.rows, 1):
        lot = "x" if method == Method.SPECIFIC else None
        fields = {"store": "S1", "to_store": None, "value": None, "ref": None, "basis": None}
        known = fields | {"reverses": None, "lot": lot, "sources": ()} | more
        item = known.pop("item", "A")
        rows[item].append(Movement(id=number, day=number, seq=0, kind=kind, qty=quantity, **known))
    other = Method.FIFO if method == Method.PERIODIC else Method.PERIODIC
    mixed = case.code == Code.METHOD_MISMATCH
    quantity, value = case.opening
    lot = "x" if method == Method.SPECIFIC else None
    layered = method in {Method.FIFO, Method.SPECIFIC}
    layer = OpeningLayer("B/P1", lot, quantity, value, None)
    return [
        ItemStock(
            item=item,
            method=other if mixed and item == "B" else method,
            openings=(Opening("S1", quantity, value),) if item == "A" else (),
            layers=(layer,) if layered and item == "A" and quantity else (),
            movements=in_order(rows[item]),
            references=EARLIER if item == "A" else {},
        )
        for item in ("A", "B")
        if rows[item] or item == "A"
    ]


CHECKS = [
    pytest.param(case, method, id=f"{name}-{method.value}")
    for name, case in CASES.items()
    for method in case.methods
]


@pytest.mark.parametrize(("case", "method"), CHECKS)
def test_a_code_names_what_causes_it(case: Case, method: Method) -> None:
    answer = cost_items(_stocks(case, method), POOLS, Policy())[case.item]
    assert isinstance(answer, ItemFailure), answer
    found = {problem.code: set(problem.movement_ids) for problem in answer.problems}
    assert case.code in found, found
    assert case.named <= found[case.code], found


def test_every_code_has_its_case() -> None:
    assert {case.code for case in CASES.values()} == set(Code) - OF_THE_RUN


def test_a_cycle_is_told_pool_by_pool() -> None:
    answer = cost_items(_stocks(CASES["goods go round"], Method.PERIODIC), POOLS, Policy())["A"]
    assert isinstance(answer, ItemFailure)
    (problem,) = answer.problems
    assert "B/P1 → B/P2 → B/P1" in problem.detail or "B/P2 → B/P1 → B/P2" in problem.detail


def test_an_item_that_fails_stops_no_other() -> None:
    case = CASES["one issue is too much"]
    good = ItemStock(item="B", openings=(Opening("S1", 1, 1),), movements=[])
    answers = cost_items([*_stocks(case, Method.PERIODIC), good], POOLS, Policy())
    assert [isinstance(answer, ItemFailure) for answer in answers.values()] == [True, False]

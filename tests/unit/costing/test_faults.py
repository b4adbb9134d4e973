"""A bug of ours, and numbers that no column holds: one family fails, and says of what."""

from typing import Any

import pytest

from tests.unit.costing.stocks import moved
from worker.costing import chunk
from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Method, Movement
from worker.costing.results import ItemFailure, Policy
from worker.costing.units import Layout, State, Stock, Unit

APART = {"S1": "B/S1", "S2": "B/S2"}
LAYOUT = Layout(dict.fromkeys(APART, "B"), APART)


def stock(item: str, *movements: Movement) -> Stock:
    """An item of one brand that opens with nothing."""
    rows = [tuple(movement)[:12] for movement in movements]
    return Stock(item, Method.PERIODIC, ("B",), (State(),), rows, {}, None)


def costed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> ChunkResults:
    """Family A and B, at whose A the engine contradicts itself, and C beside it."""

    def contradicts(stocks: list[ItemStock], *others: Any) -> Any:
        if stocks[0].item == "A":
            raise error
        return cost_items(stocks, *others)

    monkeypatch.setattr(chunk, "cost_items", contradicts)
    made = [
        stock("A", moved(1, "receipt", 1, value=5)),
        stock("B", moved(2, "receipt", 1, value=5)),
    ]
    alone = [stock("C", moved(3, "receipt", 1, value=5))]
    return cost_chunk([Unit(made, {}), Unit(alone, {})], LAYOUT, Policy())


@pytest.mark.parametrize("error", [AssertionError("I1: value"), ZeroDivisionError(), KeyError(7)])
def test_what_contradicts_itself_fails_alone_and_tells_where(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    results = costed(monkeypatch, error)
    assert [(mark.item, mark.failed) for mark in results.marks] == [
        ("A", True),
        ("B", True),
        ("C", False),
    ]
    assert [row[1] for row in results.pools] == ["C"]
    assert [(row[1], row[4], row[6]) for row in results.errors] == [
        ("A", "ENGINE_FAULT", [1]),
        ("B", "ENGINE_FAULT", [2]),
    ]
    (fault,) = results.faults
    assert fault.items == ("A", "B")
    assert f"{type(error).__name__} in contradicts" in fault.error
    assert "Traceback" in fault.trace
    assert all("(family of A)" in row[5] and fault.error in row[5] for row in results.errors)


def test_what_is_no_bug_of_the_engine_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError):
        costed(monkeypatch, MemoryError())


@pytest.mark.parametrize("method", list(Method))
def test_what_does_not_fit_names_the_largest_movements_of_its_pool(method: Method) -> None:
    rows = [moved(n, "receipt", 1, value=2**60 + n, lot="L") for n in range(1, 26)]
    rows.append(moved(26, "receipt", 1, value=2**62, store="S2", lot="L"))
    answer = cost_items([ItemStock(item="A", method=method, movements=rows)], APART, Policy())["A"]
    assert isinstance(answer, ItemFailure)
    (found,) = answer.problems
    assert (found.code, found.movement_ids) == ("OVERFLOW", tuple(range(25, 5, -1)))
    assert "5 more movements" in found.detail

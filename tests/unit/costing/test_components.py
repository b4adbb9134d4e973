"""Circles are found whatever their length, and in an order in which each can be solved."""

from worker.costing.components import components


def test_each_component_stands_after_what_it_needs() -> None:
    needs = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    assert components(["a", "b", "c", "d"], needs) == [["d"], ["b"], ["c"], ["a"]]


def test_a_circle_is_one_component_and_what_hangs_on_it_another() -> None:
    needs = {"a": ["b"], "b": ["c"], "c": ["a", "x"], "x": [], "y": ["a"]}
    found = components(["y", "a"], needs)
    assert [sorted(component) for component in found] == [["x"], ["a", "b", "c"], ["y"]]


def test_a_circle_of_a_hundred_thousand_needs_no_recursion() -> None:
    length = 100_000
    needs = {n: [(n + 1) % length] for n in range(length)}
    (circle,) = components(range(length), needs)
    assert sorted(circle) == list(range(length))

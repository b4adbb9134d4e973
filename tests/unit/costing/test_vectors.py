"""`chot costing check`: every worked example of tests/cases/costing, and what it refuses."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from worker.costing.check import check_document, check_file, main
from worker.costing.fields import BadFileError

CASES = Path(__file__).parents[2] / "cases" / "costing"
FILES = sorted(CASES.glob("*.json"))
BY_HAND = CASES.parent / "costing_by_hand" / "kinds.json"
EXPECTATIONS = 67


def _results() -> list[dict[str, Any]]:
    return [result for path in FILES for result in check_file(path)["vectors"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_gives_the_published_numbers_by_every_method_it_names(path: Path) -> None:
    report = check_file(path)
    named = [m for v in json.loads(path.read_text("utf-8"))["vectors"] for m in v["expected"]]
    assert [r["method"] for r in report["vectors"]] == named
    assert [r for r in report["vectors"] if r["matches_expected"] is not True] == []
    assert report["summary"]["matched"] == len(named)


def test_no_expectation_of_any_example_is_passed_over() -> None:
    results = _results()
    assert len(results) == EXPECTATIONS
    assert {result["method"] for result in results} == {
        "periodic_avg", "moving_avg", "fifo", "specific", "linear_system"
    }  # fmt: skip


def test_every_kind_of_example_is_answered_in_whatever_order_its_rows_stand() -> None:
    """Every error by every method, returns, freight, counts, provisional stock, circles, lots."""
    document = json.loads(BY_HAND.read_text("utf-8"))
    wrong = [r for r in check_document(document)["vectors"] if r["matches_expected"] is not True]
    assert wrong == []
    for vector in document["vectors"]:
        random.Random(vector["id"]).shuffle(vector["movements"])
    report = check_document(document)
    assert [r for r in report["vectors"] if r["matches_expected"] is not True] == []
    errors = {
        e["error"] for v in document["vectors"] for e in v["expected"].values() if "error" in e
    }
    assert errors == {
        "CYCLE_WITHOUT_SOURCE", "LOT_REQUIRED", "MISSING_COST", "NEGATIVE_STOCK", "ORPHAN_VALUE",
        "OVERFLOW", "RETURN_EXCEEDS_ISSUE", "RETURN_EXCEEDS_RECEIPT", "RETURN_EXCEEDS_VALUE",
        "RETURN_WITHOUT_REF",
    }  # fmt: skip


def _vector(movements: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    rows = [
        {"seq": i, "date": "2026-01-05", "item": "A", "warehouse": "W1", **movement}
        for i, movement in enumerate(movements, 1)
    ]
    return {"id": "mine", "minor_digits": 0, "movements": rows, **more}


def _answer(
    movements: list[dict[str, Any]], method: str = "periodic_avg", **more: Any
) -> dict[str, Any]:
    (result,) = check_document(_vector(movements, **more), methods=[method])["vectors"]
    assert isinstance(result, dict)
    return result


def test_fractional_quantities_and_minor_digits_are_exact() -> None:
    found = _answer(
        [
            {"type": "receipt", "qty": "2.5", "value": "10.01"},
            {"type": "issue", "qty": "0.125"},
        ],
        minor_digits=2,
    )
    assert found["cogs"] == "0.50"
    assert found["closing"] == [{"item": "A", "warehouse": "W1", "qty": "2.375", "value": "9.51"}]


def test_a_single_vector_without_expectation_is_costed_and_not_judged() -> None:
    found = _answer([{"type": "receipt", "qty": "3", "unit_cost": "7"}])
    assert found["matches_expected"] is None
    assert found["closing"][0]["value"] == "21"


def test_an_expected_error_is_compared_by_its_code() -> None:
    rows = [{"type": "issue", "qty": "1"}]
    good = {"periodic_avg": {"error": "NEGATIVE_STOCK"}}
    assert _answer(rows, expected=good)["matches_expected"] is True
    bad = {"periodic_avg": {"error": "MISSING_COST"}}
    assert _answer(rows, expected=bad)["matches_expected"] is False


def test_a_wrong_number_is_reported_with_both_values() -> None:
    found = _answer(
        [{"type": "receipt", "qty": "3", "unit_cost": "7"}],
        expected={"periodic_avg": {"cogs": "1", "closing": []}},
    )
    assert found["differences"] == ["cogs: expected 1, found 0"]


def test_a_star_row_is_what_all_warehouses_hold_together() -> None:
    rows = [
        {"type": "receipt", "qty": "3", "unit_cost": "7"},
        {"type": "receipt", "qty": "1", "unit_cost": "9", "warehouse": "W2"},
    ]
    wanted = [{"item": "A", "warehouse": "*", "qty": "4", "value": "30"}]
    expected = {"periodic_avg": {"closing": wanted}}
    assert _answer(rows, expected=expected)["matches_expected"] is True


RECEIPT: dict[str, Any] = {"type": "receipt", "qty": "2", "unit_cost": "5"}


def test_without_expectation_every_method_that_the_data_allow_answers() -> None:
    plain = check_document(_vector([RECEIPT]))["vectors"]
    assert [r["method"] for r in plain] == ["periodic_avg", "moving_avg", "fifo"]
    lots = check_document(_vector([{**RECEIPT, "lot": "L1"}]))
    assert [r["method"] for r in lots["vectors"]][-1] == "specific"
    assert lots["summary"] == {"matched": 0, "mismatched": 0, "without_expectation": 4}
    system = {"id": "s", "A": [["2"]], "b": ["3"]}
    (found,) = check_document(system)["vectors"]
    assert (found["method"], found["x"]) == ("linear_system", ["2"])


def test_a_system_without_a_single_solution_is_a_cycle_without_source() -> None:
    system = {"id": "s", "A": [["1", "-1"], ["-1", "1"]], "b": ["0", "0"]}
    expected = {"linear_system": {"error": "CYCLE_WITHOUT_SOURCE"}}
    (found,) = check_document(system | {"expected": expected})["vectors"]
    assert found["matches_expected"] is True


def test_a_provisional_unit_cost_is_used_where_none_is_known() -> None:
    short = {"type": "issue", "qty": "3", "provisional_unit_cost": "7"}
    assert _answer([short], "fifo", negative="provisional")["cogs"] == "21"
    assert _answer([RECEIPT, short], "fifo", negative="provisional")["cogs"] == "15"
    assert _answer([RECEIPT, short], "fifo")["error"] == "NEGATIVE_STOCK"


def test_goods_made_of_others_cost_what_those_did_and_what_is_added() -> None:
    rows = [
        {**RECEIPT, "item": "M"},
        {"type": "consume", "qty": "1", "item": "M"},
        {"type": "produce", "qty": "4", "from_seq": [2], "extra_value": "3"},
    ]
    for method in ("periodic_avg", "moving_avg", "fifo"):
        closing = {row["item"]: row["value"] for row in _answer(rows, method)["closing"]}
        assert closing == {"M": "5", "A": "8"}, method


@pytest.mark.parametrize("method", ["moving_avg", "fifo", "periodic_avg"])
def test_a_return_of_what_nobody_moved_is_an_error_of_its_item_not_of_the_file(method: str) -> None:
    for kind in ("sales_return", "purchase_return"):
        back = {"type": kind, "qty": "1", "ref_seq": 9}
        assert _answer([RECEIPT, back], method)["error"] == "RETURN_WITHOUT_REF"
        of_another_item = back | {"item": "B", "ref_seq": 1}
        assert _answer([RECEIPT, of_another_item], method)["error"] == "RETURN_WITHOUT_REF"
    at_average = {"type": "purchase_return", "qty": "1", "basis": "average"}
    assert "error" not in _answer([RECEIPT, at_average], method)
    named = _answer([RECEIPT, at_average | {"ref_seq": 9}], method)
    assert (named["error"], named["movements"]) == ("RETURN_WITHOUT_REF", [2])


@pytest.mark.parametrize("method", ["moving_avg", "fifo", "periodic_avg"])
def test_books_may_open_with_nothing_but_not_with_value_that_nothing_carries(method: str) -> None:
    nothing = {"type": "opening", "qty": "0", "unit_cost": "0"}
    sold = {"type": "issue", "qty": "1"}
    assert _answer([nothing, RECEIPT, sold], method)["cogs"] == "5"
    left = {"type": "opening", "qty": "0", "value": "100"}
    assert _answer([left], method)["error"] == "ORPHAN_VALUE"


def test_every_item_that_fails_is_told_and_any_of_them_may_be_expected() -> None:
    rows: list[dict[str, Any]] = [
        {"type": "receipt", "qty": "1", "item": "B"},
        {"type": "issue", "qty": "1"},
        {"type": "receipt", "qty": "1", "item": "C", "value": "4"},
    ]
    found = _answer(rows, "fifo", expected={"fifo": {"error": "MISSING_COST"}})
    assert (found["error"], found["item"], found["movements"]) == ("NEGATIVE_STOCK", "A", [2])
    assert [(e["error"], e["item"]) for e in found["errors"]] == [
        ("NEGATIVE_STOCK", "A"), ("MISSING_COST", "B")
    ]  # fmt: skip
    assert found["matches_expected"] is True
    wrong = _answer(rows, "fifo", expected={"fifo": {"error": "OVERFLOW"}})
    assert wrong["differences"] == ["error: expected OVERFLOW, found NEGATIVE_STOCK"]


def test_remarks_may_stand_anywhere_and_change_nothing() -> None:
    remarks = {"note": "n", "source_ref": "page 9", "derived": True, "comment": None}
    closing = [{"item": "A", "warehouse": "W1", "qty": "2", "value": "10", **remarks}]
    lines = [{"seq": 1, "value": "10", **remarks}]
    expected = {"fifo": {"cogs": "0", "closing": closing, "lines": lines, **remarks}}
    vector = _vector([{**RECEIPT, **remarks}], expected=expected, **remarks)
    document = {"schema": "costing-vectors/1", "licence": "own", "vectors": [vector], **remarks}
    assert check_document(document)["summary"]["matched"] == 1


def test_what_two_things_are_made_of_is_not_worth_twice_what_it_cost() -> None:
    rows = [
        {**RECEIPT, "item": "M"},
        {"type": "consume", "qty": "1", "item": "M"},
        {"type": "produce", "qty": "1", "from_seq": [2]},
        {"type": "produce", "qty": "1", "from_seq": [2], "item": "B", "extra_value": "1"},
    ]
    for method in ("periodic_avg", "moving_avg", "fifo"):
        found = _answer(rows, method)["errors"]
        assert [(e["error"], e["movements"]) for e in found] == [
            ("MISSING_COST", [3]), ("MISSING_COST", [4])
        ], method  # fmt: skip


def test_a_field_that_is_null_is_a_field_that_is_absent() -> None:
    fields = ("to_warehouse", "ref_seq", "from_seq", "extra_value", "basis", "lot", "value")
    rows = [RECEIPT | dict.fromkeys(fields)]
    nothing = dict.fromkeys(("scope", "negative", "unit_cost_digits", "expected"))
    assert _answer(rows, "fifo", **nothing)["closing"][0]["value"] == "10"
    expected: Any = {"fifo": {"error": None, "cogs": None, "lines": None, "closing": []}}
    assert _answer(rows, "fifo", expected=expected)["matches_expected"] is True
    wrong = {"fifo": {"error": None, "cogs": "9"}}
    assert _answer(rows, "fifo", expected=wrong)["matches_expected"] is False


def test_the_cause_of_an_error_is_told_before_what_follows_from_it() -> None:
    rows: list[dict[str, Any]] = [
        {"type": "produce", "qty": "1", "from_seq": [2]},
        {"type": "consume", "qty": "1", "item": "M"},
    ]
    assert _answer(rows, "fifo")["error"] == "NEGATIVE_STOCK"


def test_a_transfer_inside_the_pool_of_all_warehouses_moves_no_value() -> None:
    rows: list[dict[str, Any]] = [RECEIPT, {"type": "transfer", "qty": "1", "to_warehouse": "W2"}]
    found = _answer(rows, "moving_avg", scope="all")
    assert [line["value"] for line in found["lines"]] == ["10", "0"]
    assert [row["value"] for row in found["stores"]] == ["5", "5"]


def test_a_printed_price_holds_until_goods_come_in() -> None:
    sold = {"type": "issue", "qty": "1"}
    rows = [{"type": "receipt", "qty": "3", "value": "100"}, sold, sold]
    rows += [{"type": "receipt", "qty": "2", "value": "40"}, sold, {"type": "issue", "qty": "2"}]
    found = _answer(rows, "moving_avg", minor_digits=2, unit_cost_digits=2)
    # 100 / 3 = 33.33, twice; then (33.34 + 40) / 3 = 24.45, which is 0.01 more than there was
    sales = [line["value"] for line in found["lines"] if line["seq"] in {2, 3, 5, 6}]
    assert sales == ["33.33", "33.33", "24.45", "48.90"]
    assert (found["rounding"], found["cogs"]) == ("-0.01", "140.00")


def test_numbers_larger_than_any_double_stay_exact() -> None:
    rows = [{"type": "receipt", "qty": "3", "unit_cost": "1234567890123.456789"}]
    found = _answer(rows, "fifo", minor_digits=6)
    assert found["closing"][0]["value"] == "3703703670370.370367"


@pytest.mark.parametrize("method", ["moving_avg", "fifo", "periodic_avg"])
def test_what_does_not_fit_a_bigint_is_an_overflow_not_a_wrong_number(method: str) -> None:
    rows = [{"type": "receipt", "qty": "1", "value": "9000000000000000000"} for _ in range(2)]
    assert _answer(rows, method)["error"] == "OVERFLOW"


def _moved(**movement: Any) -> dict[str, Any]:
    return _vector([RECEIPT, movement])


def _wanted(**expected: Any) -> dict[str, Any]:
    return _vector([RECEIPT], expected=expected)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"schema": "costing-vectors/2", "vectors": []}, ["schema", "costing-vectors/2"]),
        ({"schema": "costing-vectors/1", "vectors": [], "extra": 1}, ["extra", "schema, source"]),
        ({"schema": "costing-vectors/1", "vectors": [_vector([]), _vector([])]}, ["id", "mine"]),
        ([1, 2], ["must be an object"]),
        (_vector([{"type": "gift", "qty": "1"}]), ["movements[0]", "type", "gift", "receipt"]),
        (_vector([{"type": "issue", "qty": "1e"}]), ["movements[0]", "qty", "1e", "decimal"]),
        (_vector([{"type": "issue", "qty": "-2"}]), ["qty", "-2", "above 0"]),
        (_vector([{"type": "issue", "qty": 1.5}]), ["qty", "1.5", "decimal number in a string"]),
        (_vector([{"type": "issue"}]), ["qty", "null", "above 0"]),
        (_vector([{"type": "count"}]), ["qty", "null", "0 or above"]),
        (_vector([{"type": "transfer", "qty": "1"}]), ["to_warehouse", "null", "a string"]),
        (_vector([{"type": "issue", "qty": "1", "date": "5/1/26"}]), ["date", "YYYY-MM-DD"]),
        (_moved(type="landed_cost", value="1", ref_seq=9), ["ref_seq", "9"]),
        (_moved(type="landed_cost", value="1", ref_seq=2), ["ref_seq", "another"]),
        (_moved(type="sales_return", qty="1", ref_seq="1"), ["ref_seq", "an integer"]),
        (_vector([], minor_digits=9), ["minor_digits", "9", "from 0 to 6"]),
        (_vector([], colour="red"), ["field", "colour", "movements"]),
        (_vector([], negative="allow"), ["negative", "allow", "forbid, provisional"]),
        (_vector([], scope="B1"), ["scope", "B1", "all"]),
        (_moved(type="issue", qty="1", price="3"), ["movements[1]", "price", "unit_cost"]),
        (_moved(type="issue", qty="1", to_warehouse="W2"), ["to_warehouse", "only a transfer"]),
        (_moved(type="issue", qty="1", ref_seq=1), ["ref_seq", "only returns"]),
        (_moved(type="receipt", qty="1", from_seq=[1]), ["from_seq", "only produce"]),
        (_moved(type="produce", qty="1", from_seq=[1]), ["from_seq", "1", "consume"]),
        (_moved(type="produce", qty="1", extra_value="1"), ["extra_value", "no from_seq"]),
        (_moved(type="receipt", qty="1", value="-1"), ["value", "-1", "0 or above"]),
        (_moved(type="receipt", qty="1", provisional_unit_cost="1"), ["only what goes out"]),
        (_moved(type="landed_cost", value="1", qty="1"), ["qty", "value only"]),
        (_moved(type="sales_return", qty="1", basis="average"), ["basis", "purchase return"]),
        (_moved(type="transfer", qty="1", to_warehouse="W1"), ["to_warehouse", "another"]),
        (_wanted(lifo={"cogs": "1"}), ["lifo", "moving_avg", "fifo"]),
        (_wanted(fifo={}), ["fifo", "something to compare"]),
        (_wanted(fifo={"cogs": None}), ["fifo", "something to compare"]),
        (_wanted(fifo=None), ["fifo", "must be an object"]),
        (_wanted(fifo={"note": "by hand"}), ["fifo", "something to compare"]),
        (_wanted(fifo={"cost": "1"}), ["cost", "cogs"]),
        (_wanted(fifo={"error": "OVERFLOW", "cogs": "1"}), ["error", "alone"]),
        (_wanted(fifo={"closing": [{"item": "A", "warehouse": "W1", "worth": "1"}]}), ["worth"]),
        (_wanted(fifo={"lines": [{"value": "1"}]}), ["seq", "integer"]),
        (_wanted(linear_system={"x": ["1"]}), ["linear_system", "periodic_avg"]),
        ({"id": "s", "A": [["1", "2"]], "b": ["1"]}, ["A", "as long"]),
        ({"id": "s", "A": [["1"]], "b": ["1"], "movements": [RECEIPT]}, ["movements", "empty"]),
        ({"id": "s", "A": [["x"]], "b": ["1"]}, ["A", "x", "decimal number"]),
        ({"id": "s", "A": [["1"]], "b": [None]}, ["b", "null", "decimal number"]),
    ],
)
def test_a_bad_file_is_refused_with_field_value_and_rule(document: Any, words: list[str]) -> None:
    with pytest.raises(BadFileError) as refused:
        check_document(document, "bad.json")
    assert [word for word in ["bad.json", *words] if word not in str(refused.value)] == []


@pytest.mark.parametrize("field", ["cogs", "closing", "lines"])
def test_every_number_that_is_expected_is_compared(field: str) -> None:
    good: dict[str, Any] = {
        "cogs": "0",
        "closing": [{"item": "A", "warehouse": "W1", "qty": "2", "value": "10"}],
        "lines": [{"seq": 1, "value": "10"}],
    }
    assert _answer([RECEIPT], expected={"fifo": good}, method="fifo")["matches_expected"] is True
    wrong = json.loads(json.dumps(good[field]).replace("0", "9"))
    bad = {"fifo": good | {field: wrong}}
    assert _answer([RECEIPT], expected=bad, method="fifo")["matches_expected"] is False


def test_exit_codes_tell_match_mismatch_and_bad_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.json"
    assert main([str(FILES[0])]) == 0
    expected = {"periodic_avg": {"cogs": "1"}}
    path.write_text(
        json.dumps(_vector([{"type": "opening", "qty": "1", "value": "5"}], expected=expected))
    )
    assert main([str(path), "--json"]) == 1
    assert main([str(path), "--method", "fifo"]) == 0
    path.write_text("\ufeff" + json.dumps(_vector([RECEIPT])), "utf-8")
    assert main([str(path)]) == 0
    for bad in ("{", "[" * 100_000, '{"id": "a", "movements": [], "id": "b"}', '{"id": NaN}'):
        path.write_text(bad)
        assert main([str(path)]) == 2
    assert main([str(tmp_path / "absent.json")]) == 2
    assert "absent.json" in capsys.readouterr().err

"""The worked examples of tests/cases/costing that the periodic average can answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from worker.costing.check import check_document, check_file, main
from worker.costing.vectors import BadFileError

CASES = Path(__file__).parents[2] / "cases" / "costing"
FILES = sorted(CASES.glob("*.json"))
ANSWERED = 13


def _results() -> list[dict[str, Any]]:
    return [result for path in FILES for result in check_file(path)["vectors"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_supported_example_gives_the_published_numbers(path: Path) -> None:
    wrong = [r for r in check_file(path)["vectors"] if r["matches_expected"] is False]
    assert wrong == []


def test_no_example_of_the_periodic_average_is_left_out_silently() -> None:
    periodic = [r for r in _results() if r["method"] == "periodic_avg"]
    assert sum(r["matches_expected"] is True for r in periodic) == ANSWERED
    unsupported = [r["id"] for r in periodic if "unsupported" in r]
    assert unsupported == ["cycle-two-warehouses"]


def test_other_methods_say_that_they_are_not_part_of_the_engine() -> None:
    others = [r for r in _results() if r["method"] != "periodic_avg"]
    assert others
    assert all("not part of this engine" in r["unsupported"] for r in others)


def _vector(movements: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    rows = [
        {"seq": i, "date": "2026-01-05", "item": "A", "warehouse": "W1", **movement}
        for i, movement in enumerate(movements, 1)
    ]
    return {"id": "mine", "minor_digits": 0, "movements": rows, **more}


def _answer(movements: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    (result,) = check_document(_vector(movements, **more))["vectors"]
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


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"schema": "costing-vectors/2", "vectors": []}, ["schema", "costing-vectors/2"]),
        ([1, 2], ["must be an object"]),
        (_vector([{"type": "gift", "qty": "1"}]), ["movements[0]", "type", "gift", "receipt"]),
        (_vector([{"type": "issue", "qty": "1e"}]), ["movements[0]", "qty", "1e", "decimal"]),
        (_vector([{"type": "issue", "qty": "-2"}]), ["qty", "-2", "above 0"]),
        (_vector([{"type": "issue", "qty": 1.5}]), ["qty", "1.5", "decimal number in a string"]),
        (_vector([{"type": "transfer", "qty": "1"}]), ["to_warehouse", "null", "a string"]),
        (_vector([{"type": "issue", "qty": "1", "date": "5/1/26"}]), ["date", "YYYY-MM-DD"]),
        (_vector([{"type": "sales_return", "qty": "1", "ref_seq": 9}]), ["ref_seq", "9"]),
        (_vector([], minor_digits=9), ["minor_digits", "9", "from 0 to 6"]),
    ],
)
def test_a_bad_file_is_refused_with_field_value_and_rule(document: Any, words: list[str]) -> None:
    with pytest.raises(BadFileError) as refused:
        check_document(document, "bad.json")
    assert [word for word in ["bad.json", *words] if word not in str(refused.value)] == []


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
    path.write_text("{")
    assert main([str(path)]) == 2
    assert main([str(tmp_path / "absent.json")]) == 2
    assert "absent.json" in capsys.readouterr().err

"""A request that breaks very many rules is answered at the cost of one that breaks a few."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from api import problems
from api.authentication import OWNER
from api.batch import read_batch
from api.problems import (
    MOST_ERRORS,
    MOST_READ,
    Problem,
    invalid_problem,
    problem_body,
    validation_problem,
)
from api.wording import rule_of
from shared.json_text import to_json


class Known(BaseModel):
    """One member."""

    model_config = ConfigDict(extra="forbid")

    size: int = 1


def broken(members: int) -> ValidationError:
    """An error of so many unknown members."""
    with pytest.raises(ValidationError) as caught:
        Known.model_validate({f"x{n}": n for n in range(members)})
    return caught.value


@pytest.fixture
def worded(monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The types of all errors that are put into words."""
    seen: list[str] = []

    def watched(item: Any, *more: Any, **named: Any) -> str:
        seen.append(item["type"])
        return rule_of(item, *more, **named)

    monkeypatch.setattr(problems, "rule_of", watched)
    return seen


def test_as_many_as_are_told_are_put_into_words_and_all_are_counted(worded: Sequence[str]) -> None:
    """The answer says how many more there are."""
    problem = validation_problem(broken(MOST_READ), Known)
    assert len(worded) == len(problem.errors) == MOST_ERRORS
    assert problem.detail.endswith(f"(and {MOST_READ - 1} more)")
    worded_before = len(worded)
    problem = invalid_problem(broken(1000).errors(), query=True)
    assert len(worded) - worded_before == MOST_ERRORS
    assert problem.detail.endswith("(and 999 more)")


def test_very_many_errors_are_counted_and_not_looked_at(
    worded: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 unknown members are one error; nothing is built for each of them."""
    problem = validation_problem(broken(20_000), Known, prefix="payload")
    assert not worded
    (error,) = problem.errors
    assert (error.field, error.value) == ("payload", None)
    assert "20,000" in error.rule
    monkeypatch.setattr(problems, "invalid_problem", pytest.fail)
    validation_problem(broken(MOST_READ + 1), Known)


def test_a_batch_of_nothing_but_errors_is_answered_item_by_item(worded: Sequence[str]) -> None:
    """A thousand items of 700 unknown members each: an error a piece, none of them long."""
    item = {f"x{n}": n for n in range(700)}
    body = json.dumps({"jobs": [item] * 1000}).encode()
    read = read_batch(body, None, {}, OWNER)
    assert not isinstance(read.checked, Problem)
    assert len(read.checked) == 1000
    assert not worded
    for index, each in enumerate(read.checked):
        assert isinstance(each, Problem)
        (error,) = each.errors
        assert error.field == f"jobs[{index}]"
        assert len(to_json(problem_body(each))) < 500


def test_a_value_is_cut_before_it_is_looked_at_closely() -> None:
    """As its sender will know it, whatever its length."""
    assert problems.shortened("é" * 10_000) == "é" * 99 + "…"
    assert problems.shortened("é" * 100) == "é" * 100

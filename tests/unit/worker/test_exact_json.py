"""Exact JSON: numbers without loss on the way in, money as text on the way out."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.exact_json import dump_exact, load_exact
from shared.kinds import Payload


class Model(Payload):
    """A payload model as a result."""

    amount: Decimal
    day: date


def test_numbers_are_read_to_their_last_digit() -> None:
    """Integers beyond 2**53, fractions as Decimal with their trailing zeros."""
    read = load_exact('{"id": 9007199254740993, "amount": 12345678901234567.8900, "e": 1e400}')
    assert read["id"] == 9007199254740993
    assert str(read["amount"]) == "12345678901234567.8900"
    assert read["e"] == Decimal("1e400")


def test_values_are_written_in_their_plain_form() -> None:
    """No exponent in money, dates as ISO, a model as its members."""
    value = {
        "amount": Decimal("1E+3"),
        "small": Decimal("0.0000001"),
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 7, tzinfo=UTC),
        "id": UUID(int=1),
        "model": Model(amount=Decimal("2.50"), day=date(2026, 2, 1)),
        "words": "chốt sổ",
    }
    assert json.loads(dump_exact(value)) == {
        "amount": "1000",
        "small": "0.0000001",
        "day": "2026-01-31",
        "at": "2026-01-31T07:00:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "model": {"amount": "2.50", "day": "2026-02-01"},
        "words": "chốt sổ",
    }


def cycle() -> list[Any]:
    """A list that holds itself."""
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        {1, 2},
        b"bytes",
        pytest.param(object(), id="object"),  # its repr is an address, another in each process
        "NUL \0",
        {"NUL \0": 1},
        "half a pair \ud800",
        cycle(),
        {("a", "tuple"): 1},
        print,
    ],
    ids=repr,
)
def test_what_jsonb_cannot_hold_is_refused(value: object) -> None:
    """One exception, ValueError, so that the caller has one thing to catch."""
    with pytest.raises(ValueError, match="cannot be stored as JSON"):
        dump_exact({"value": value})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\\")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcđ"), inner),
    max_leaves=25,
)


@given(JSON)
def test_whatever_is_json_comes_back_as_it_was(value: object) -> None:
    """Written and read again."""
    assert load_exact(dump_exact(value)) == value


def test_six_harmless_characters_are_no_nul() -> None:
    """PostgreSQL's own messages quote the escape."""
    assert load_exact(dump_exact({"said": "unsupported escape \\u0000"})) == {
        "said": "unsupported escape \\u0000"
    }
    with pytest.raises(ValueError, match="NUL"):
        dump_exact({"said": "\\\0"})

"""The strict parser: exact where it accepts, quick where it refuses."""

from contextlib import suppress
from decimal import Decimal
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.strict_json import DEEPEST_NESTING, LONGEST_NUMBER, Malformed, parse_object
from shared.cli.job_lines import Slip, checked
from shared.json_text import to_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**90), 10**90)
    | st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**60), max_value=10**60
    ).filter(lambda number: sum(map(str.isdigit, to_json(number))) <= LONGEST_NUMBER)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_what_is_written_is_read_back_exactly(value: dict[str, object]) -> None:
    """Numbers keep their digits and their kind, text its characters."""
    written = to_json(value)
    again = parse_object(written.encode())
    assert again == value
    assert to_json(again) == written


HUNDRED = "9" * 99 + "1"
OF_A_HUNDRED_DIGITS = (
    HUNDRED,
    f"-{HUNDRED}",
    f"{HUNDRED[:50]}.{HUNDRED[50:]}",
    f"-{HUNDRED[:50]}.{HUNDRED[50:]}e-308",
)


@pytest.mark.parametrize("literal", OF_A_HUNDRED_DIGITS)
def test_digits_are_counted_and_no_other_characters(literal: str) -> None:
    """Sign, point and exponent are none; the command line's own reader counts as the api does."""
    line = f'{{"n":{literal}}}'.encode()
    assert parse_object(line) == {"n": Decimal(literal)}
    assert checked(line) == line.decode()
    more = line.replace(b"1", b"12", 1)
    with pytest.raises(Malformed, match="at most 100 digits"):
        parse_object(more)
    with pytest.raises(Slip, match="at most 100 digits"):
        checked(more)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    """Whatever comes is an object or Malformed."""
    with suppress(Malformed):
        assert isinstance(parse_object(body), dict)


@pytest.mark.parametrize(
    ("literal", "exact"),
    [
        ("12345678901234567.8901", Decimal("12345678901234567.8901")),
        ("1.10", Decimal("1.10")),
        ("9007199254740993", 9007199254740993),
        ("-0.0", Decimal("-0.0")),
        ("1e308", Decimal("1e308")),
    ],
)
def test_a_number_is_kept_digit_for_digit(literal: str, exact: object) -> None:
    """No float stands between."""
    found = parse_object(f'{{"n": {literal}}}'.encode())["n"]
    assert (found, type(found)) == (exact, type(exact))
    assert to_json(found).lower().replace("+", "") == literal


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ('{"a": 1, "a": 2}', "a"),
        ('{"x": [{"b": 1}, {"a": {"c": 1, "d": 2, "c": 3}}]}', "x.1.a.c"),
        ('{"x": {"a": 1, "a": 2}, "x": 1}', "x"),
        ('[{"a": 1, "a": 2}]', "0.a"),
        ('{"": {"": 1, "": 2}}', ""),
    ],
)
def test_a_member_that_is_there_twice_is_named_by_its_place(said: str, field: str) -> None:
    """Wherever it lies, and where one of the two was an object that has it too."""
    with pytest.raises(Malformed) as caught:
        parse_object(said.encode())
    assert (caught.value.field, caught.value.rule) == (field, "a member must not be given twice")


@pytest.mark.parametrize("said", [b'{"a": "\x00"}', b'{"a": "no end', b"{1: 2}"])
def test_a_parsers_message_says_where_once(said: bytes) -> None:
    """Some of Python's end in the word that ours begins with."""
    with pytest.raises(Malformed) as caught:
        parse_object(said)
    assert caught.value.rule.count(" at ") == 1
    assert " at line 1, column " in caught.value.rule


def test_nesting_is_counted_outside_of_strings_only() -> None:
    """The limit itself passes, one more does not, brackets in text are text."""
    inner = b"[" * (DEEPEST_NESTING - 1) + b"]" * (DEEPEST_NESTING - 1)
    parse_object(b'{"a": ' + inner + b"}")
    with pytest.raises(Malformed, match="deeper"):
        parse_object(b'{"a": [' + inner + b"]}")
    parse_object(b'{"a": "' + b"[" * 100 + b'\\"' + b"{" * 100 + b'"}')


@pytest.mark.alone
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "' + b'\\"[' * 90_000,
        b'{"a": "' + b'\\"[' * 90_000 + b"\\",
        b'{"a":' + b'"[' * 140_000,
        b"{" + b",".join(b'"%d":1' % n for n in range(25_000)) + b',"24999":1}',
        b'{"a":' + b"9" * 300_000 + b"}",
        b'{"a":1e' + b"9" * 300_000 + b"}",
        b"[" * 300_000,
    ],
    ids=range(7),
)
def test_a_hostile_body_is_refused_in_linear_time(body: bytes) -> None:
    """300 KiB cost a fraction of a second whatever stands in them."""
    began = perf_counter()
    with pytest.raises(Malformed):
        parse_object(body)
    assert perf_counter() - began < 1


def test_a_refusal_names_the_place() -> None:
    """As a path, printable even where the name is not."""
    with pytest.raises(Malformed) as refused:
        parse_object(b'{"a": {"b": [1, {"c": "\\u0000"}]}}')
    assert refused.value.field == "a.b.1.c"
    with pytest.raises(Malformed) as refused:
        parse_object(b'{"\\ud800": 1}')
    refused.value.field.encode()

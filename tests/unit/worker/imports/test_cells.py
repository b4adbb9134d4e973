"""Cells: one meaning, or a refusal that says what to write."""

import unicodedata
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.imports.cells import (
    Conventions,
    Flawed,
    Numeric,
    clean,
    folded,
    read_code,
    read_date,
    read_integer,
    read_number,
)
from worker.imports.problems import CellRefused, shown

ANY = Conventions()
SHEET = Conventions(spreadsheet=True)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("5", "5"),
        ("-5", "-5"),
        ("(5)", "-5"),
        ("+5", "5"),
        ("−5", "-5"),
        ("1234,56", "1234.56"),
        ("1234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1,234.56", "1234.56"),
        ("1.234.567", "1234567"),
        ("1,234,567", "1234567"),
        ("1.234.567,8", "1234567.8"),
        ("1 234,5", "1234.5"),
        ("1\u00a0234\u202f567", "1234567"),
        ("1'234.5", "1234.5"),
        ("0,125", "0.125"),
        ("0.125", "0.125"),
        ("12,5", "12.5"),
        (",5", "0.5"),
        ("1234.567", "1234.567"),
        ("007", "007"),
        ("5.0", "5"),
    ],
)
def test_numbers_of_both_conventions_are_read_exactly(said: str, meant: str) -> None:
    """Where the cell itself shows which it is."""
    assert Decimal(read_number(said, ANY)) == Decimal(meant)


@pytest.mark.parametrize("said", ["1.234", "1,234", "12.345", "-999,000", "(1.000)"])
def test_a_number_that_could_be_two_is_refused_with_what_settles_it(said: str) -> None:
    """And is read once the file's convention is said."""
    with pytest.raises(CellRefused, match=r"thousandths: say for the file which"):
        read_number(said, ANY)
    plain = said.strip("(-)").replace(",", ".")
    sign = -1 if said[0] in "(-" else 1
    whole = Decimal(plain.replace(".", ""))
    mark = "." if "." in said else ","
    other = "," if mark == "." else "."
    assert Decimal(read_number(said, Conventions(decimal=other))) == sign * whole
    assert Decimal(read_number(said, Conventions(decimal=mark))) == sign * Decimal(plain)


@pytest.mark.parametrize(
    "said",
    ["", "x", "1.23.4", "1,23,4", "1.2,3,4", "--5", "5-", "1e400", "1E5", "NaN", "Infinity", "٥",
     "12 34", "1.", "(-5)", "(+5)", "1.234 567", "１２３", "." * 5, "9" * 31, "0x10", "1_000", "1.234.56,7", "₫5"],
)  # fmt: skip
def test_what_is_no_number_is_refused(said: str) -> None:
    """Also what Python would take for one; "1." is a number that somebody has cut off."""
    if said == "1.":
        assert read_number(said, ANY) == "1"
        return
    with pytest.raises(CellRefused):
        read_number(said, ANY)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0.30000000000000004", "0.3"),
        ("1.5E+3", "1500"),
        ("1234.5", "1234.5"),
        ("100000000000000", "100000000000000"),
        ("1.234", "1.234"),
        ("5.0000000000000009E-2", "0.05"),
        ("-0", "0"),
    ],
)
def test_a_spreadsheets_number_is_what_it_shows(said: str, meant: str) -> None:
    """Fifteen digits; what a double has beyond them is no fact."""
    assert Decimal(read_number(Numeric(said), SHEET)) == Decimal(meant)


@pytest.mark.parametrize("said", ["1E+400", "1E-400", "INF", "NaN", "1e99"])
def test_a_spreadsheets_number_beyond_reason_is_refused(said: str) -> None:
    """Without spelling its digits out."""
    with pytest.raises((CellRefused, ArithmeticError)) as refused:
        read_number(Numeric(said), SHEET)
    assert isinstance(refused.value, CellRefused)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-01-31", "2026-01-31"),
        ("2026/1/5", "2026-01-05"),
        ("20260131", "2026-01-31"),
        ("31/01/2026", "2026-01-31"),
        ("5/1/2026", "2026-01-05"),
        ("05-01-2026", "2026-01-05"),
        ("05.01.2026", "2026-01-05"),
        ("2026-01-31 00:00:00", "2026-01-31"),
        ("2026-01-31T00:00:00.000", "2026-01-31"),
        ("46053", "2026-01-31"),
        (Numeric("46053"), "2026-01-31"),
        (Numeric("1"), "1900-01-01"),
        (Numeric("59"), "1900-02-28"),
        (Numeric("61"), "1900-03-01"),
    ],
)
def test_days_are_read_as_they_are_written_here_and_in_spreadsheets(said: str, meant: str) -> None:
    """Day before month, ISO, and Excel's count, which has a day too many in 1900."""
    try:
        read = read_date(said, ANY)
    except CellRefused as refused:
        read = f"refused: {refused}"
    assert read == meant


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("31/02/2026", "calendar"),
        ("01/31/2026", "date_order=mdy"),
        ("31/01/26", "all four"),
        ("2026-01-31 14:30", "time of day"),
        (Numeric("46053.5"), "time of day"),
        (Numeric("60"), "never was"),
        (Numeric("0"), "is not a date"),
        (Numeric("99999999"), "is not a date"),
        (Numeric("x"), "is not a date"),
        ("yesterday", "is not a date"),
        ("0001-01-01", "year 1"),
        ("2026-13-01", "calendar"),
        ("99/99/2026", "calendar"),
    ],
)
def test_what_is_no_day_is_refused(said: str, rule: str) -> None:
    """Nothing is dropped in silence, not even the time."""
    with pytest.raises(CellRefused, match=rule):
        read_date(said, ANY)


def test_days_of_other_conventions_are_said() -> None:
    """Month first, and workbooks that count from 1904."""
    assert read_date("01/31/2026", Conventions(date_order="mdy")) == "2026-01-31"
    mac = Conventions(since_1904=True)
    assert read_date(Numeric("44591"), mac) == "2026-01-31"


@given(st.dates(date(1900, 3, 1), date(2199, 12, 31)))
def test_every_serial_is_the_day_it_counts(day: date) -> None:
    """From March 1900 on Excel's days and ours are one number apart."""
    serial = (day - date(1899, 12, 30)) // timedelta(1)
    assert read_date(Numeric(str(serial)), ANY) == day.isoformat()


@given(
    st.integers(-(10**15), 10**15),
    st.integers(0, 9),
    st.sampled_from([(",", "."), (".", ",")]),
)
def test_what_is_written_with_separators_comes_back(
    whole: int, decimals: int, marks: tuple[str, str]
) -> None:
    """In either convention, when it is said which."""
    thousands, decimal = marks
    number = Decimal(whole).scaleb(-decimals)
    text = f"{number:,.{decimals}f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    assert Decimal(read_number(text, Conventions(decimal=decimal))) == number


def test_a_word_is_the_same_whatever_it_was_typed_on() -> None:
    """Composed and decomposed, with blanks of any kind around it."""
    for text in ("Nước mắm", "Đường"):
        apart = unicodedata.normalize("NFD", text)
        assert clean(f"\u00a0{apart}\u3000 ") == unicodedata.normalize("NFC", text)
    assert folded(unicodedata.normalize("NFD", "Số  Chứng-từ ")) == "so chung tu"
    assert folded("ĐVT") == "dvt"


@pytest.mark.parametrize("said", ["a\x00b", "a\x07b", "a\nb", "a\udce0b", "\x7f"])
def test_what_no_text_column_takes_is_refused(said: str) -> None:
    """And shown so that a report can hold it."""
    with pytest.raises(CellRefused):
        clean(said)
    assert shown(said).isprintable()


@pytest.mark.parametrize(
    "said", ["abc", "1_000", "１２３", "1\t2", "1\n2", " 5", "", ".", "²", "9" * 500, "NaN"]
)
def test_what_a_workbook_calls_a_number_and_is_none_is_refused(said: str) -> None:
    """Whatever its column takes: a tab in it would begin another cell of what is staged."""
    with pytest.raises(CellRefused):
        clean(Numeric(said))


def test_a_number_below_nothing_by_nothing_is_nothing() -> None:
    """A sign would be taken for one of an amount below 0."""
    for said in ("-0", "-0,0", "(0)", Numeric("-0.0")):
        assert read_number(said, SHEET) == "0"


def test_codes_survive_what_spreadsheets_do_to_them() -> None:
    """Or are refused: digits that are lost cannot be guessed."""
    assert read_code("00123", most=40) == "00123"
    assert read_code("12E5", most=40) == "12E5"
    assert read_code("'=1", most=40) == "=1"
    assert read_code(Numeric("123"), most=40) == "123"
    assert read_code(Numeric("123.0"), most=40) == "123"
    assert read_code(Numeric("1E5"), most=40) == "100000"
    digits = ("1.2345678901234567E18", "1.2345678901234567e+18", "1234567890123456789", "1E400")
    for lost in ("1.23457E+12", *map(Numeric, digits)):
        with pytest.raises(CellRefused, match="digits are lost"):
            read_code(lost, most=40)
    with pytest.raises(CellRefused, match="41 characters, 40 at most"):
        read_code("x" * 41, most=40)
    with pytest.raises(CellRefused, match="#REF!"):
        clean(Flawed("is the error #REF!"))


def test_a_whole_number_has_bounds() -> None:
    """And no decimals."""
    assert read_integer("3,0", ANY, least=0, most=6) == "3"
    for said in ("3,5", "7", "-1"):
        with pytest.raises(CellRefused):
            read_integer(said, ANY, least=0, most=6)

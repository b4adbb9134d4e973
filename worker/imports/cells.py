"""One cell of a file → one typed value in its canonical text, or the rule that it breaks.

What can be read in two ways is refused, never guessed: "1.234" is 1234 to a Vietnamese and a little
more than one to an American, and only the file's owner knows which.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from worker.imports.problems import CellRefused

# Far more than any quantity or amount; a value with more digits is garbage, or an attack.
MOST_DIGITS = 30
EXACT_DIGITS = 15  # of a number cell of Excel: what is beyond is its binary rest
SPACES = "\u0020\u00a0\u202f\u2009\u2007\u3000\ufeff"
MOST_PLAIN = 18
PLAIN = re.compile(rf"-?[0-9]{{1,{MOST_PLAIN}}}", re.ASCII)
NUMBER = re.compile(r"([-+\u2212]?)([0-9][0-9.,' \u00a0\u202f\u2009\u2007]*|[.,][0-9]+)", re.ASCII)
# A long number as Excel shows it, and then saves it: 1.23457E+12.
SHORTENED = re.compile(r"[0-9]([.,][0-9]+)?E\+[0-9]{2,}", re.ASCII)
# What a spreadsheet may write where it says that a cell is a number.
OF_CELL = re.compile(r"-?[0-9]{0,400}(\.[0-9]{0,400})?([eE][-+]?[0-9]{1,5})?", re.ASCII)
SCIENTIFIC = re.compile(r"[-+]?[0-9.,]+[eE][-+]?[0-9]+", re.ASCII)
ISO = re.compile(r"([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})(.*)", re.ASCII | re.DOTALL)
BASIC = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)
LOCAL = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{2,4})(.*)", re.ASCII | re.DOTALL)
MIDNIGHT = re.compile(r"([T ]00:00(:00(\.0+)?)?)?", re.ASCII)
SERIAL = re.compile(r"[0-9]{5}", re.ASCII)
LAST_SERIAL = 2_958_465  # 9999-12-31
NO_SUCH_DAY = 60  # 1900-02-29, which Excel counts and no calendar has
BREAKS = re.compile(r"[ \t]*[\r\n\v\f\x85\u2028\u2029][\s]*|\t")
YEARS = range(1900, 2200)


class Numeric(str):
    """A cell that a spreadsheet holds as a number, in that file's own digits."""

    __slots__ = ()


class Flawed(str):
    """A cell without a value to take: an error, a formula that nobody has calculated."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How the file writes: `decimal` "." or "," (None: as each cell shows), the order of a date
    that does not begin with its year, and whether a spreadsheet counts days from 1904.
    """

    decimal: str | None = None
    date_order: str = "dmy"
    since_1904: bool = False
    spreadsheet: bool = False


def clean(cell: str) -> str:
    """The cell's text: composed (NFC), without spaces around it. CellRefused for what is no text.

    The same word typed on a Mac and on Windows must be the same code.
    """
    if isinstance(cell, Flawed):
        raise CellRefused(str(cell))
    if isinstance(cell, Numeric):
        if not OF_CELL.fullmatch(cell) or not any(map(str.isdigit, cell)):
            raise CellRefused("is no number, and the file says that it is one")
        return cell
    text = cell.strip(SPACES + "\t\r\n")
    if text.isascii():
        if text.isprintable():
            return text
    else:
        text = unicodedata.normalize("NFC", text)
    for character in text:
        if character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff":
            raise CellRefused(_odd(character))
    return text


def unbroken(text: str) -> str:
    """The text on one line: each line break, with the blanks around it, is a space."""
    return text if text.isprintable() else BREAKS.sub(" ", text)


def read_text(text: str, *, most: int) -> str:
    """A text of at most so many characters."""
    if len(text) > most:
        raise CellRefused(f"has {len(text)} characters, {most} at most")
    return text


def read_code(text: str, *, most: int) -> str:
    """A code: as text; a number cell counts as its digits. A CSV guard (') is taken off."""
    if isinstance(text, Numeric) or SHORTENED.fullmatch(text):
        return read_text(_whole(text), most=most)
    return read_text(text.removeprefix("'"), most=most)


def read_number(text: str, how: Conventions) -> str:
    """An exact decimal such as "-1234.5"; CellRefused for what is none, or could be two."""
    if PLAIN.fullmatch(text):
        return text if text != "-0" else "0"
    if how.spreadsheet and isinstance(text, Numeric):
        return _of_spreadsheet(text)
    negative, body = _sign(text)
    if SCIENTIFIC.fullmatch(body):
        raise CellRefused(
            "is written with an exponent, so digits may be missing: give the column the format "
            "'Number' and save the file again"
        )
    found = NUMBER.fullmatch(body)
    if found is None:
        raise CellRefused("is not a number")
    if negative and found[1]:
        raise CellRefused("has a sign within brackets, which are one")
    negative = negative or found[1] in {"-", "\u2212"}
    plain = _plain(found[2], how.decimal)
    if sum(map(str.isdigit, plain)) > MOST_DIGITS:
        raise CellRefused(f"has more than {MOST_DIGITS} digits")
    return f"-{plain}" if negative and plain != "0" else plain


def read_integer(text: str, how: Conventions, *, least: int, most: int) -> str:
    """A whole number between the two."""
    number = Decimal(read_number(text, how))
    if number != number.to_integral_value():
        raise CellRefused("is not a whole number")
    if not least <= number <= most:
        raise CellRefused(f"is not between {least} and {most}")
    return str(int(number))


def are_plain_codes(cells: Sequence[str], *, most: int) -> bool:
    """Whether clean() and read_code() leave all of these as they are, empty ones too."""
    joined = "".join(cells)
    return (
        joined.isascii()
        and joined.isprintable()
        and " " not in joined
        and "'" not in joined
        and "E+" not in joined
        and max(map(len, cells)) <= most
    )


def are_plain_numbers(cells: Sequence[str]) -> bool:
    """Whether read_number() leaves all of these as they are, empty ones too."""
    joined = "".join(cells)
    digits = (joined.isdigit() and joined.isascii()) or not joined
    return digits and max(map(len, cells)) <= MOST_PLAIN


def are_plain_integers(cells: Sequence[str], *, least: int, most: int) -> bool:
    """Whether read_integer() leaves all of these as they are, empty ones too."""
    if not are_plain_numbers(cells):
        return False
    said = [cell for cell in cells if cell]
    numbers = list(map(int, said))
    within = not numbers or (least <= min(numbers) and max(numbers) <= most)
    return within and list(map(str, numbers)) == said


def read_date(text: str, how: Conventions) -> str:
    """A day as yyyy-mm-dd."""
    if isinstance(text, Numeric) or SERIAL.fullmatch(text):
        return _of_serial(text, how).isoformat()
    if found := BASIC.fullmatch(text):
        return _day(int(found[1]), int(found[2]), int(found[3])).isoformat()
    if found := ISO.fullmatch(text):
        year, month, day, rest = int(found[1]), int(found[3]), int(found[4]), found[5]
    elif found := LOCAL.fullmatch(text):
        first, second, rest = int(found[1]), int(found[3]), found[5]
        if len(found[4]) != 4:
            raise CellRefused("has a year of two digits: write all four")
        year = int(found[4])
        day, month = (first, second) if how.date_order == "dmy" else (second, first)
        if month > 12 >= day:
            other = "mdy" if how.date_order == "dmy" else "dmy"
            raise CellRefused(
                f"has no month {month}; where the file writes dates the other way, say "
                f"date_order={other}"
            )
    else:
        raise CellRefused("is not a date: write 2026-01-31 or 31/01/2026")
    if not MIDNIGHT.fullmatch(rest.strip(SPACES) and rest):
        raise CellRefused("is more than a date: leave the time of day out")
    return _day(year, month, day).isoformat()


def read_choice(text: str, choices: Mapping[str, str]) -> str:
    """What `choices` has for the text, by folded(); the rule names what may be written."""
    found = choices.get(folded(text))
    if found is None:
        allowed = sorted(set(choices.values()))
        raise CellRefused(f"is none of {', '.join(allowed)}")
    return found


def folded(text: str) -> str:
    """A head or a word of choice as it is compared: lower case, no accents, single spaces."""
    bare = unicodedata.normalize("NFD", text.strip(SPACES)).casefold().replace("đ", "d")
    letters = "".join(c for c in bare if not unicodedata.combining(c))
    return " ".join("".join(c if c.isalnum() else " " for c in letters).split())


def _odd(character: str) -> str:
    if character == "\x00":
        return "has a NUL byte in it; was the file saved as UTF-16?"
    if "\ud800" <= character <= "\udfff":
        byte = ord(character) - 0xDC00
        return f"has the byte 0x{byte:02X}, which is no UTF-8: save the file as UTF-8"
    return f"has the control character U+{ord(character):04X} in it"


def _sign(text: str) -> tuple[bool, str]:
    """(5) is how accountants write -5."""
    if text.startswith("(") and text.endswith(")"):
        return True, text[1:-1].strip(SPACES)
    return False, text


def _plain(body: str, decimal: str | None) -> str:
    digits = "".join(c for c in body if c not in SPACES and c != "'")
    if any(c in SPACES or c == "'" for c in body) and not _spaced(body):
        raise CellRefused("is not a number")
    if decimal is None:
        decimal = _decimal_of(digits)
    thousands = "," if decimal == "." else "."
    whole, _, part = digits.partition(decimal)
    if not _grouped(whole, thousands) or not (part.isdigit() or not part):
        raise CellRefused(f"is not a number whose decimals follow '{decimal}'")
    whole = whole.replace(thousands, "").lstrip("0") or "0"
    part = part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def _spaced(body: str) -> bool:
    whole, *parts = re.split("[.,]", body)
    if any(c in SPACES or c == "'" for part in parts for c in part):
        return False  # 1.234 567 may be a little more than one, or more than a million
    groups = re.split(f"[{SPACES}']", whole)
    return 0 < len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])


def _grouped(whole: str, thousands: str) -> bool:
    if thousands not in whole:
        return whole.isdigit() or not whole
    first, *rest = whole.split(thousands)
    return (
        first.isdigit()
        and len(first) <= 3
        and all(len(group) == 3 and group.isdigit() for group in rest)
    )


def _decimal_of(digits: str) -> str:
    """Which of the two separates decimals here; CellRefused where it could be either."""
    marks = [c for c in digits if c in ".,"]
    if len(set(marks)) == 2:
        return marks[-1]
    if len(marks) > 1:  # one mark more than once: it can only separate thousands
        return "," if marks[0] == "." else "."
    if not marks:
        return "."
    whole, _, part = digits.partition(marks[0])
    if len(part) == 3 and 0 < len(whole) <= 3 and not whole.startswith("0"):
        raise CellRefused(
            f"may be {whole}{part} or {whole} and {part} thousandths: say for the file which of "
            'the two stands before decimals, decimal "," or "."'
        )
    return marks[0]


def _of_spreadsheet(text: str) -> str:
    """A double as Excel shows it: 15 digits. What lies beyond (0.30000000000000004) is no fact."""
    number = Decimal(text)
    if not number.is_finite() or abs(number.adjusted()) >= MOST_DIGITS:
        raise CellRefused("is too large, or too small, to be meant")
    if len(number.as_tuple().digits) > EXACT_DIGITS:
        number = Decimal(f"{number:.{EXACT_DIGITS - 1}e}")
    said = f"{number:f}"
    said = said.rstrip("0").rstrip(".") if "." in said else said
    return "0" if said == "-0" else said


def _whole(text: str) -> str:
    """The digits of a code that a spreadsheet has taken for a number."""
    try:
        number = _of_spreadsheet(text) if isinstance(text, Numeric) else None
    except CellRefused:
        number = None
    if number is None or len(number) > EXACT_DIGITS:
        raise CellRefused(
            "was turned into a number by a spreadsheet, and digits are lost: give the column the "
            "format 'Text' and enter it again"
        )
    return number


def _of_serial(text: str, how: Conventions) -> date:
    """The day a spreadsheet counts as so many days."""
    try:
        number = Decimal(text)
        serial = int(number) if number.adjusted() < MOST_DIGITS else LAST_SERIAL + 1
    except (ArithmeticError, ValueError):
        raise CellRefused("is not a date") from None
    if number != serial:
        raise CellRefused("is more than a date: leave the time of day out")
    if not 0 < serial <= LAST_SERIAL:
        raise CellRefused("is not a date: write 2026-01-31 or 31/01/2026")
    if how.since_1904:
        return _year_in_range(date(1904, 1, 1) + timedelta(serial))
    if serial == NO_SUCH_DAY:
        raise CellRefused("is 1900-02-29 to Excel, a day that never was")
    # Excel holds 1900 for a leap year: days before the one that never was lie one later.
    return _year_in_range(date(1899, 12, 31 if serial < NO_SUCH_DAY else 30) + timedelta(serial))


def _day(year: int, month: int, day: int) -> date:
    try:
        return _year_in_range(date(year, month, day))
    except ValueError:
        raise CellRefused("is not a day of the calendar") from None


def _year_in_range(found: date) -> date:
    if found.year not in YEARS:
        raise CellRefused(f"is in the year {found.year}")
    return found


def words(*groups: Sequence[str]) -> dict[str, str]:
    """Choices by their folded words; the first of each group is what it means."""
    return {folded(word): group[0] for group in groups for word in group}

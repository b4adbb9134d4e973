"""A file of jobs, a JSON object a line, judged whole before anything of it is sent.

The rules are those that the api has for a body (api/strict_json.py): what it would refuse as
malformed would spoil a thousand other lines. Whether a job is one is the api's to say.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, NoReturn

from shared.cli.exits import Exit, Failure
from shared.cli.plain import visible

MOST_TOLD = 20
# What a batch may have (8 MiB) beyond what ends one (shared/client/wanted.py, 6 MiB).
LONGEST_LINE = 2 * 1024 * 1024 - 1024
DEEPEST_NESTING = 32
LONGEST_NUMBER = 100
LARGEST_EXPONENT = 308
BOM = b"\xef\xbb\xbf"
# Strings without their end are taken whole, too: what is in them is no bracket.
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)
ESCAPED = re.compile(r"\\u", re.IGNORECASE)


class Slip(ValueError):
    """The rule that a line breaks."""


def read_jobs(file: BinaryIO) -> list[tuple[int, str]]:
    """The lines that are not empty, with their numbers from 1, each as it was written.

    A Failure with exit code 2 names every line that is no JSON object of ours.
    """
    jobs: list[tuple[int, str]] = []
    slips: list[str] = []
    try:
        for number, line in _lines(file):
            try:
                jobs.append((number, checked(line)))
            except Slip as slip:
                slips.append(f"line {number}: {visible(slip)}")
    except OSError as error:
        said = f"the file cannot be read: {error}; nothing was submitted"
        raise Failure(said, code=Exit.USAGE) from None
    if slips:
        more = [f"and {len(slips) - MOST_TOLD:,} more"] if len(slips) > MOST_TOLD else []
        said = "\n".join([*slips[:MOST_TOLD], *more, "nothing was submitted"])
        raise Failure(said, code=Exit.USAGE)
    return jobs


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, 1):
        said = (line.removeprefix(BOM) if number == 1 else line).strip(b" \t\r\n")
        if said:
            yield number, said


def checked(line: bytes) -> str:
    """The line as text; Slip with the rule that it breaks."""
    if len(line) > LONGEST_LINE:
        raise Slip(f"has {len(line):,} bytes; {LONGEST_LINE:,} are allowed")
    try:
        said = line.decode()
    except UnicodeDecodeError as error:
        raise Slip(f"must be UTF-8; byte {error.start + 1} is not") from None
    _refuse_deep(said)
    try:
        found = json.loads(
            said,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_members,
        )
    except json.JSONDecodeError as error:
        why = error.msg.removesuffix(" at")  # as some of its messages end themselves
        raise Slip(f"is not JSON: {why} at column {error.colno}") from None
    if not isinstance(found, dict):
        raise Slip("must be a JSON object: {…}")
    if ESCAPED.search(said):
        _refuse_unstorable(found)
    return said


def _refuse_deep(said: str) -> None:
    depth = 0
    if said.count("[") + said.count("{") > DEEPEST_NESTING:
        for found in BRACKETS.finditer(said):
            depth += bool(found[1]) - bool(found[2])
            if depth > DEEPEST_NESTING:
                raise Slip(f"must not be nested deeper than {DEEPEST_NESTING}")


def _number(literal: str) -> Decimal:
    mantissa, _, exponent = literal.lower().partition("e")
    digits = len(mantissa.lstrip("-").replace(".", ""))
    is_long = max(digits, len(exponent)) > LONGEST_NUMBER
    if is_long or abs(int(exponent or 0)) > LARGEST_EXPONENT:
        rule = f"at most {LONGEST_NUMBER} digits and exponents up to {LARGEST_EXPONENT}"
        raise Slip(f"numbers have {rule}: {literal[:40]}")
    return Decimal(literal)


def _refuse_constant(literal: str) -> NoReturn:
    raise Slip(f"{literal} is no number of JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Slip(f"the member {name[:100]} must not be given twice")
        found[name] = value
    return found


def _refuse_unstorable(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value:
            raise Slip(f"U+0000 cannot be stored: {value[:40]}")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise Slip(f"lone surrogates are no Unicode text: {value[:40]}")
    elif isinstance(value, list):
        for item in value:
            _refuse_unstorable(item)
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_unstorable(name)
            _refuse_unstorable(member)

"""Opaque keyset cursors: where the next page begins."""

import base64
import binascii
from urllib.parse import quote, unquote
from uuid import UUID

from api.problems import ProblemRaised, field_problem

VERSION = "1"


def write_cursor(*keys: str) -> str:
    """A cursor that holds these keys."""
    said = "|".join((VERSION, *keys)).encode()
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


def read_cursor(cursor: str, *, keys: int) -> list[str]:
    """The keys of a cursor of ours; ProblemRaised for any other text."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        said = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise refused_cursor(cursor) from None
    version, *found = said.split("|")
    if version != VERSION or len(found) != keys:
        raise refused_cursor(cursor)
    return found


def write_code_cursor(*codes: str) -> str:
    """A cursor that holds codes of the books, whatever letters they are made of."""
    return write_cursor(*(quote(code, safe="") for code in codes))


def read_code_cursor(cursor: str, *, keys: int) -> list[str]:
    """The codes of such a cursor."""
    codes = [unquote(key) for key in read_cursor(cursor, keys=keys)]
    if any("\x00" in code or "\ufffd" in code for code in codes):
        raise refused_cursor(cursor)
    return codes


def read_job_cursor(cursor: str) -> UUID:
    """The job id of a cursor that holds one."""
    return as_uuid(read_cursor(cursor, keys=1)[0], cursor)


def as_uuid(key: str, cursor: str) -> UUID:
    """A cursor's key as a job id."""
    try:
        return UUID(key)
    except ValueError:
        raise refused_cursor(cursor) from None


def as_number(key: str, cursor: str) -> int:
    """A cursor's key as a row number (bigint)."""
    if not (key.isascii() and key.isdigit() and len(key) <= 18):
        raise refused_cursor(cursor)
    return int(key)


def refused_cursor(cursor: str) -> ProblemRaised:
    """What becomes of a cursor that is none of ours."""
    rule = "must be a cursor that this api gave out, unchanged"
    return ProblemRaised(field_problem("invalid-request", "cursor", rule, cursor))

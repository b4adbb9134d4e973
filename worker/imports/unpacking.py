"""What a packed file unpacks to, counted while it is read: no header of it is believed.

A few kilobytes can be made that unpack to terabytes. Nothing is ever unpacked to be held, and
nothing beyond a bound is unpacked at all.
"""

import io
import zlib
from typing import BinaryIO
from zipfile import BadZipFile

from worker.imports.problems import FileRefused

# A table of numbers packs 5 to 30 times; repeated lines may do a hundred.
MOST_TIMES = 200
ALWAYS_ALLOWED = 64 << 20
PACKING_ERRORS = (BadZipFile, EOFError, OSError, zlib.error)


class Allowance:
    """How many bytes a packed file of `size` bytes may become, in all its parts together."""

    def __init__(self, size: int) -> None:
        self.left = max(ALWAYS_ALLOWED, size * MOST_TIMES)

    def take(self, count: int) -> None:
        """FileRefused when more comes out than may."""
        self.left -= count
        if self.left < 0:
            raise FileRefused(
                "UNPACKS_TOO_LARGE",
                f"the file unpacks to more than {MOST_TIMES} times its size; no table does that. "
                "Send it unpacked",
            )


class Counted(io.RawIOBase):
    """A stream whose bytes are counted; what breaks inside is a FileRefused."""

    def __init__(self, source: BinaryIO, allowance: Allowance) -> None:
        self._source = source
        self._allowance = allowance

    def readable(self) -> bool:
        """It is read, and nothing else."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # bytearray-like
        """Some bytes; 0 at the end."""
        try:
            found = self._source.read(len(buffer))
        except PACKING_ERRORS as error:
            raise FileRefused("FILE_DAMAGED", _damage(error)) from None
        self._allowance.take(len(found))
        buffer[: len(found)] = found
        return len(found)


def _damage(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the file ends in the middle of what packs it: was it copied whole? Send it again"
    return f"the file cannot be unpacked ({type(error).__name__}: {error}): send it again"

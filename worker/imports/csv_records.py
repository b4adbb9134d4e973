"""Records of a CSV file, one by one, with the line each begins at; a bad one never ends the rest.

What is held is one record, of bounded size: a quote that is opened and never closed would swallow
everything behind it, so its record is reported and reading goes on with the line after it.
"""

import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from worker.imports.columns import Column, heads_found
from worker.imports.problems import FileRefused, LineProblem

LONGEST_LINE = 1 << 20
LONGEST_RECORD = 2 << 20
LONGEST_CELL = 1 << 17
LONGEST_HEAD = 1 << 16  # of several lines
BLOCK = 1 << 18
DELIMITERS = (",", ";", "\t", "|")
MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
SEPARATOR_LINE = "sep="

# A line as readline() tells them apart.
PHYSICAL = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that are a record each: nothing in them is quoted. Their ends are cut off.

    `first` is the number of the first one; empty ones are among them.
    """

    first: int
    lines: Sequence[str]
    delimiter: str


Record = tuple[int, Sequence[str]] | LineProblem


def text_of(source: io.BufferedReader, encoding: str | None) -> io.TextIOWrapper:
    """The file as text; its byte order mark wins over everything that is said of it.

    Bytes that are no UTF-8 come as lone surrogates: the line that has them is refused by its cell.
    """
    marked = next((name for mark, name in MARKS if source.peek(3).startswith(mark)), None)
    chosen = marked or encoding or "utf-8"
    errors = "surrogateescape" if chosen.startswith("utf-8") else "strict"
    return io.TextIOWrapper(source, encoding=chosen, errors=errors, newline="")


class Lines:
    """Physical lines with their numbers; lines can be given back."""

    def __init__(self, source: io.TextIOWrapper) -> None:
        self._source = source
        self._back: deque[str] = deque()
        self.number = 0
        self.record: list[str] = []
        self._held = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line; it belongs to the record that is being read."""
        line = self._back.popleft() if self._back else self._source.readline(LONGEST_LINE)
        if not line:
            raise StopIteration
        self.number += 1
        self.record.append(line)
        self._held += len(line)
        if self._held > LONGEST_RECORD or (len(line) == LONGEST_LINE and line[-1] not in "\r\n"):
            raise _TooLong
        return line

    def begin(self) -> None:
        """Another record begins."""
        self.record = []
        self._held = 0

    def give_back(self) -> None:
        """All lines of the record but its first come again."""
        self._back.extendleft(reversed(self.record[1:]))
        self.number -= len(self.record) - 1

    def skip_rest(self) -> None:
        """Past the end of a line that was too long to be held."""
        line = self.record[-1]
        while line and line[-1] not in "\r\n":
            line = self._back.popleft() if self._back else self._source.readline(LONGEST_LINE)

    def block(self) -> Sequence[str] | None:
        """The next lines without their ends, each of them a record; None: they may be anything.

        What is no block stays there.
        """
        if self._back:
            return None
        text = self._source.read(BLOCK)
        if text and text[-1] != "\n":
            text += self._source.readline(LONGEST_LINE)
        plain = text.replace("\r\n", "\n") if "\r" in text else text
        lines = plain.removesuffix("\n").split("\n")
        if text and '"' not in text and "\r" not in plain and max(map(len, lines)) <= LONGEST_CELL:
            self.number += len(lines)
            return lines
        for line in PHYSICAL.findall(text):
            self._back += [line[n : n + LONGEST_LINE] for n in range(0, len(line), LONGEST_LINE)]
        return None

    def peek(self) -> str:
        """The next line, which stays there."""
        if not self._back:
            self._back.append(self._source.readline(LONGEST_LINE))
        return self._back[0]

    def peek_record(self) -> str:
        """The next record's lines, which stay there; the first one where its quotes never end."""
        self.peek()
        held, at = self._back[0], 1
        while held.count('"') % 2:
            if at == len(self._back):
                self._back.append(self._source.readline(LONGEST_LINE))
            if not self._back[at] or len(held) > LONGEST_HEAD:
                return self._back[0]
            held, at = held + self._back[at], at + 1
        return held


class _TooLong(Exception):
    pass


def read_csv(
    source: BinaryIO,
    columns: Sequence[Column],
    *,
    delimiter: str | None,
    encoding: str | None,
    blocks_after: int | None = None,
) -> Iterator[Record | Block]:
    """Records with the number of their first line, empty lines left out; the head comes first.

    With `blocks_after`: what follows the first record from that line on comes in blocks, where it
    may.

    FileRefused for a file that is no text, or ends in the middle of what packs it.
    """
    csv.field_size_limit(LONGEST_CELL)
    try:
        with text_of(io.BufferedReader(source, 1 << 20), encoding) as text:  # type: ignore[arg-type]
            lines = Lines(text)
            said = lines.peek().rstrip("\r\n")
            if said.lower().startswith(SEPARATOR_LINE) and len(said) == len(SEPARATOR_LINE) + 1:
                delimiter = delimiter or said[-1]
                next(lines)
            mark = delimiter or _delimiter_of(lines.peek_record(), columns)
            yield from _records(lines, mark, blocks_after)
    except UnicodeError as error:
        raise FileRefused(
            "ENCODING_REFUSED", f"the file is not in the encoding that it says: {error}"
        ) from None


def _records(lines: Lines, delimiter: str, blocks_after: int | None) -> Iterator[Record | Block]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    in_blocks = False
    while True:
        if in_blocks and (block := lines.block()) is not None:
            yield Block(lines.number - len(block) + 1, block, delimiter)
            continue
        lines.begin()
        begins = lines.number + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield LineProblem(begins, None, None, "LINE_REFUSED", _quotes(error, len(lines.record)))
            lines.give_back()
            continue
        except _TooLong:
            yield _too_long(begins, lines)
            continue
        if cells is None:
            return
        if any(cells):
            yield begins, cells
            in_blocks = blocks_after is not None and begins >= blocks_after


def _too_long(begins: int, lines: Lines) -> LineProblem:
    if len(lines.record) == 1:
        lines.skip_rest()
        rule = f"is longer than {LONGEST_LINE} characters"
    else:
        lines.give_back()
        rule = f"is longer than {LONGEST_RECORD} characters: is a quote opened and not closed?"
    return LineProblem(begins, None, None, "LINE_REFUSED", rule)


def _quotes(error: csv.Error, lines: int) -> str:
    said = str(error)
    if "field larger" in said:
        over = f" over {lines} lines: is a quote opened and not closed?" if lines > 1 else ""
        return f"has a cell of more than {LONGEST_CELL} characters{over}"
    if "unexpected end" in said:
        return "opens a quote that is not closed before the file ends"
    return "has a quote in the middle of a quoted cell: write two for one"


def _delimiter_of(first: str, columns: Sequence[Column]) -> str:
    """The one that finds most heads; where none finds any, the one there are most of."""

    def judged(mark: str) -> tuple[int, int]:
        try:
            cells = next(csv.reader(first.splitlines(keepends=True), delimiter=mark), [])
        except csv.Error:  # a cell that is too long to be held, and no head
            cells = []
        return heads_found(cells, columns), first.count(mark)

    return max(DELIMITERS, key=judged)

"""A table as XLSX: sheets of at most Excel's rows, numbers as numbers, and a sheet with the proof.

Rows are written to the disk as they come (`constant_memory`). Text is always written as text: what
begins with =, +, - or @ is no formula. A number that Excel could not hold exactly is text, too.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from worker.exports.cells import Cell, Column, Number, Row
from worker.later import refuse_without

refuse_without("xlsxwriter")

ROWS_PER_SHEET = 1_048_576  # Excel's own, the row of heads among them
LONGEST_TEXT = 32_767
# What a double holds whatever the digits are; Excel shows no more of any number.
EXACT_DIGITS = 15
PROOF = "Proof (Chứng minh)"


class _Shortest(float):
    """A number that is written with as few digits as tell it from every other one.

    The library would write 16: 8411.89 would stand there as 8411.889999999999.
    """

    __slots__ = ()

    def __format__(self, spec: str, /) -> str:
        return repr(float(self))


class XlsxFile:
    """A workbook that is being written."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[Column],
        *,
        title: str,
        rows_per_sheet: int = ROWS_PER_SHEET,
    ) -> None:
        from xlsxwriter import Workbook  # noqa: PLC0415 - 15 ms, see worker/later.py

        # In-cell strings, rows flushed as the next one begins; temporary files beside the file.
        options = {"constant_memory": True, "tmpdir": str(path.parent)}
        self._book: Any = Workbook(str(path), options)
        self._book.use_zip64()
        self._columns, self._title, self._most = columns, title, rows_per_sheet
        self._head = self._book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        self._formats: dict[int, Any] = {}
        self._sheets = 0
        self._begin_sheet()

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows; a sheet that is full is followed by another one."""
        for row in rows:
            if self._next == self._most:
                self._begin_sheet()
            for number, cell in enumerate(row):
                self._write(self._next, number, cell)
            self._next += 1

    def close(self, facts: Sequence[tuple[str, str | Decimal]]) -> None:
        """Add the sheet with the facts, and write the file."""
        self._end_sheet()
        self._sheet = self._book.add_worksheet(PROOF)
        self._sheet.set_column(0, 0, 44)
        self._sheet.set_column(1, 1, 70)
        for row, (name, value) in enumerate(facts):
            self._sheet.write_string(row, 0, name, self._head)
            self._write(row, 1, Number(f"{value:f}") if isinstance(value, Decimal) else value)
        self._book.close()

    def _begin_sheet(self) -> None:
        if self._sheets:
            self._end_sheet()
        self._sheets += 1
        name = self._title if self._sheets == 1 else f"{self._title} {self._sheets}"
        self._sheet = self._book.add_worksheet(name)
        self._sheet.freeze_panes(1, 0)
        for number, column in enumerate(self._columns):
            self._sheet.set_column(number, number, column.width)
            self._sheet.write_string(0, number, column.head, self._head)
        self._next = 1

    def _end_sheet(self) -> None:
        self._sheet.autofilter(0, 0, self._next - 1, len(self._columns) - 1)

    def _write(self, row: int, column: int, cell: Cell) -> None:
        if cell is None or cell == "":
            return
        if isinstance(cell, Number) and sum(map(str.isdigit, cell)) <= EXACT_DIGITS:
            self._sheet.write_number(row, column, _Shortest(cell), self._format(cell))
        else:
            self._sheet.write_string(row, column, _fitting(cell))

    def _format(self, number: str) -> Any:
        decimals = len(number.partition(".")[2])
        if decimals not in self._formats:
            places = f".{'0' * decimals}" if decimals else ""
            self._formats[decimals] = self._book.add_format({"num_format": f"#,##0{places}"})
        return self._formats[decimals]


def _fitting(text: str) -> str:
    """A cell holds no more: without this it would stay empty in silence."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

"""A table as CSV: RFC 4180 (commas, CRLF, quotes doubled) in UTF-8, with its heads as first row."""

import csv
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from worker.exports.cells import Column, Row, guarded

BOM = "\ufeff"


class CsvFile:
    """A file that is being written; rows go to the disk as they come."""

    def __init__(self, path: Path, columns: Sequence[Column], *, bom: bool) -> None:
        # No translation of line ends: the writer's own are those of the RFC.
        self._file = path.open("w", encoding="utf-8", newline="")
        if bom:
            self._file.write(BOM)
        self._writer = csv.writer(self._file, lineterminator="\r\n")
        self._writer.writerow([column.head for column in columns])

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows."""
        self._writer.writerows([guarded(cell) for cell in row] for row in rows)

    def close(self, _facts: Sequence[tuple[str, str | Decimal]]) -> None:
        """End it. What proves the run has no place in a table of one kind of rows."""
        self._file.close()

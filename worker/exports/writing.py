"""What the child process of an export does: it holds the file that is being written.

Between two calls the file stays open in the child. A child that was killed takes its file along:
the attempt ends, and the next one starts over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from worker.exports.cells import Column, Row
from worker.exports.csv_file import CsvFile
from worker.exports.ledger_tables import LEDGER_TABLES
from worker.exports.tables import TABLES as COST_TABLES
from worker.exports.xlsx_file import XlsxFile

TABLES = {**COST_TABLES, **LEDGER_TABLES}


class TableFile(Protocol):
    """A file that takes rows."""

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        ...

    def close(self, facts: Sequence[tuple[str, str | Decimal]]) -> None:
        """Write what is left; `facts` are what is true of the whole."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be written: a table of TABLES, in a format, with prices of so many digits."""

    path: str
    table: str
    format: str
    digits: int
    bom: bool
    minor_digits: int


_OPEN: dict[str, tuple[Order, TableFile]] = {}


def begin(order: Order) -> None:
    """Open the file; one of that path that is open already is another attempt's, and a bug."""
    assert order.path not in _OPEN, "one export at a time writes into a path"
    table = TABLES[order.table]
    columns: Sequence[Column] = table.columns
    path = Path(order.path)
    opened: TableFile = (
        CsvFile(path, columns, bom=order.bom)
        if order.format == "csv"
        else XlsxFile(path, columns, title=table.title)
    )
    _OPEN[order.path] = order, opened


def add(path: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Append rows as the database gave them."""
    order, opened = _OPEN[path]
    cells: Callable[..., Row] = TABLES[order.table].cells
    opened.add([cells(row, minor_digits=order.minor_digits, digits=order.digits) for row in rows])


def finish(path: str, facts: Sequence[tuple[str, str | Decimal]]) -> int:
    """Close the file; answers its size in bytes."""
    _, opened = _OPEN.pop(path)
    opened.close(facts)
    return Path(path).stat().st_size

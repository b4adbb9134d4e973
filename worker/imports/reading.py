"""Read a file portion by portion, in the child process that context.offload() runs.

The child keeps the file open between calls; an attempt has a path of its own and starts where the
last committed portion ended. Rows come as bytes for COPY, so that the process that talks to
PostgreSQL only passes them on.
"""

import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from worker.imports.cells import Conventions
from worker.imports.columns import Head, read_head
from worker.imports.columnwise import EMPTY, ESCAPES, Columnwise
from worker.imports.csv_records import Block, Record, read_csv
from worker.imports.layout import Layout, Problem
from worker.imports.layouts import LAYOUTS
from worker.imports.problems import FileRefused, LineProblem, shown
from worker.imports.unpacking import Allowance, Counted
from worker.imports.xlsx_records import XlsxFile

GZIP, ZIP, OLD_EXCEL = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
STRAY_TIMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be read, how it is written, and after which line.

    `job_id` and `company` are those of every row. `delimiter` and `encoding` None: as the file
    shows. `head_line`: the first line that may be the one with the heads.
    """

    path: str
    layout: str
    job_id: str
    company: str
    after_line: int = 0
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    date_order: str = "dmy"
    sheet: str | None = None
    head_line: int = 1
    ignore_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Rows for COPY in text format, and what is wrong with the lines that are not among them.

    `line` is the last line that is dealt with, `lines` how many with something in them were read,
    `refused` how many of them are left out. `share` of the file's bytes are read.
    """

    copy: bytes
    rows: int
    problems: Sequence[LineProblem]
    line: int
    lines: int
    refused: int
    ended: bool
    share: float


@dataclass(slots=True)
class _Reading:
    order: Order
    layout: Layout
    head: Head
    how: Conventions
    records: Iterator[Record | Block]
    source: BinaryIO
    columnwise: Columnwise
    pushed: Record | Block | None = None
    rows: list[str] = field(default_factory=list)
    problems: list[LineProblem] = field(default_factory=list)
    gathered: list[tuple[int, dict[str, str], dict[str, str]]] = field(default_factory=list)
    gathered_key: tuple[str | None, ...] = ()
    gathered_lines: int = 0
    flaw: int | None = None
    stray: int | None = None
    stray_key: tuple[str | None, ...] = ()
    line: int = 0
    lines: int = 0
    staged: int = 0
    refused: int = 0


_OPEN: dict[str, _Reading] = {}


def begin(order: Order) -> Sequence[str]:
    """Open the file and read its heads; answers the columns that it has.

    FileRefused for what is no table, or has not the columns of its kind.
    """
    end(order.path)
    source = Path(order.path).open("rb")  # noqa: SIM115 - open until end()
    try:
        reading = _begun(order, LAYOUTS[order.layout], source)
    except BaseException:
        source.close()
        raise
    _OPEN[order.path] = reading
    return [place.column.name for place in reading.head.places]


def end(path: str) -> None:
    """Close the file, if it is open."""
    reading = _OPEN.pop(path, None)
    if reading is not None:
        reading.source.close()


def _begun(order: Order, layout: Layout, source: BinaryIO) -> _Reading:
    records, how = _records_of(order, layout, source)
    heads = next((r for r in records if _line_of(r) >= order.head_line), None)
    if heads is None or isinstance(heads, Block):
        raise FileRefused("FILE_EMPTY", "the file has no line with anything in it")
    if isinstance(heads, LineProblem):
        raise FileRefused("HEADS_REFUSED", f"line {heads.line} {heads.rule}")
    try:
        head = read_head(heads[1], layout.columns, ignore_others=order.ignore_others)
    except FileRefused as refused:
        raise FileRefused(refused.code, f"{refused.said}{_of_another_kind(heads[1])}") from None
    after = max(order.after_line, heads[0])
    rest = _behind(records, after)
    columnwise = Columnwise(
        head=head, layout=layout, how=how, prefix=order.job_id, company=order.company
    )
    return _Reading(order, layout, head, how, rest, source, columnwise, line=after)


def _behind(records: Iterator[Record | Block], after: int) -> Iterator[Record | Block]:
    for record in records:
        if isinstance(record, Block) and record.first <= after:
            if rest := record.lines[after + 1 - record.first :]:
                yield replace(record, first=after + 1, lines=rest)
        elif _line_of(record) > after:
            yield record


def _of_another_kind(cells: Sequence[str]) -> str:
    """Whose heads these are, if they are just those of a kind of file."""
    for name, layout in LAYOUTS.items():
        try:
            read_head(cells, layout.columns, ignore_others=False)
        except FileRefused:
            continue
        return f". These heads are those of {name}: was it to be imported as that?"
    return ""


def take(path: str, most: int) -> Portion:
    """The next lines, so many at most (and those that belong to the last one)."""
    reading = _OPEN[path]
    reading.rows, reading.problems = [], []
    reading.lines = reading.staged = reading.refused = 0
    gathers = reading.layout.gathering is not None
    ended = False
    while gathers or reading.lines < most:
        record = reading.pushed or next(reading.records, None)
        reading.pushed = None
        if record is None:
            ended = True
            break
        if isinstance(record, Block):
            _take_block(reading, record, most)
        elif not gathers:
            _take_line(reading, record)
        elif not _gather(reading, record, most):
            reading.pushed = record
            break
    if gathers:
        _close(reading)
    return Portion(
        copy="".join(reading.rows).encode(),
        rows=reading.staged,
        problems=reading.problems,
        line=reading.line,
        lines=reading.lines,
        refused=reading.refused,
        ended=ended,
        share=1.0 if ended else reading.source.tell() / Path(path).stat().st_size,
    )


def _take_block(reading: _Reading, block: Block, most: int) -> None:
    """As many of its lines as there is room for; the others are for the next portion."""
    room = most - reading.lines
    if len(block.lines) > room:
        rest = block.lines[room:]
        reading.pushed = replace(block, first=block.first + room, lines=rest)
    rows = [line.split(block.delimiter) for line in block.lines[:room]]
    staged = reading.columnwise.stage(block.first, rows)
    right: list[str] = []
    for n, row in enumerate(staged):
        if row is not None:
            right.append(row)
        elif any(rows[n]):
            _keep(reading, right)
            right = []
            _take_line(reading, (block.first + n, rows[n]))
    _keep(reading, right)
    reading.line = block.first + len(rows) - 1


def _keep(reading: _Reading, rows: Sequence[str]) -> None:
    if rows:
        reading.rows.append("\n".join(rows) + "\n")
        reading.staged += len(rows)
        reading.lines += len(rows)


def _take_line(reading: _Reading, record: Record) -> None:
    line, values, said, problems = _read(reading, record)
    reading.line = line
    reading.lines += 1
    if problems:
        reading.problems += problems
        reading.refused += 1
        return
    if reading.layout.complete is not None:
        reading.layout.complete(values, line)
    _stage(reading, line, values, said)


def _gather(reading: _Reading, record: Record, most: int) -> bool:
    """Take a line to those it belongs to; False for one that would be too many now.

    A portion ends between two things, and not behind a line of which nobody knows whose it is,
    unless there are very many of those.
    """
    gathering = reading.layout.gathering
    assert gathering is not None, "asked for by its layout"
    line, values, said, problems = _read(reading, record)
    key = tuple(values.get(name) for name in gathering.by)
    # A line that does not say where it belongs may belong to what is before or behind it, unless
    # what it does say is something else: a number that can be read, beside a type that cannot.
    unknown = None in key
    begins = not unknown and key != reading.gathered_key
    if begins and reading.lines >= most and reading.stray is None:
        return False
    if reading.lines >= STRAY_TIMES * most and (begins or unknown):
        return False
    if begins:
        _close(reading)
        reading.gathered_key = key
        reading.flaw = reading.stray if _may_be(reading.stray_key, key) else None
        reading.stray = None
    elif unknown and not _may_be(key, reading.gathered_key):
        _close(reading)
    reading.line = line
    reading.lines += 1
    if problems:
        reading.problems += problems
        reading.flaw = reading.flaw or line
        if unknown:
            reading.stray, reading.stray_key = line, key
        reading.refused += 1
        return True
    reading.stray = None
    reading.gathered_lines += 1
    if reading.gathered_lines <= gathering.most:
        reading.gathered.append((line, values, said))
    return True


def _may_be(said: Sequence[str | None], key: Sequence[str | None]) -> bool:
    return all(part is None or part == of_key for part, of_key in zip(said, key, strict=False))


def _close(reading: _Reading) -> None:
    """Stage what was gathered, whole, or leave all of it out and say why."""
    gathering, gathered = reading.layout.gathering, reading.gathered
    assert gathering is not None, "asked for by its layout"
    count, flaw = reading.gathered_lines, reading.flaw
    reading.gathered, reading.gathered_lines, reading.flaw = [], 0, None
    reading.gathered_key = ()
    if not gathered:
        return
    first = gathered[0][0]
    named = " ".join(gathered[0][1][name] for name in gathering.by)
    if flaw is not None:
        rule = f"is left out: {named} is taken whole or not at all, and line {flaw} is refused"
        reading.problems.append(LineProblem(first, None, None, "DOCUMENT_REFUSED", rule))
    elif count > gathering.most:
        rule = f"is left out: {named} has {count} lines, {gathering.most} at most"
        reading.problems.append(LineProblem(first, None, None, "DOCUMENT_REFUSED", rule))
    else:
        composed = gathering.compose([values for _, values, _ in gathered])
        if isinstance(composed, Mapping):
            lines = ",".join(str(line) for line, _, _ in gathered)
            said = {str(line): words for line, _, words in gathered if words}
            _stage(reading, first, {**composed, "lines": f"{{{lines}}}"}, said)
            return
        reading.problems += [
            LineProblem(
                gathered[problem.line][0],
                problem.column,
                _value_of(*gathered[problem.line][1:], problem),
                "DOCUMENT_REFUSED",
                problem.rule,
            )
            for problem in composed
        ]
    reading.refused += count


def _read(
    reading: _Reading, record: Record
) -> tuple[int, dict[str, str], dict[str, str], list[LineProblem]]:
    if isinstance(record, LineProblem):
        return record.line, {}, {}, [record]
    line, cells = record
    values, problems = reading.head.read(line, cells, reading.how)
    said = reading.head.said(cells, values)
    company = values.pop("company", reading.order.company)
    if company != reading.order.company:
        rule = f"is not {reading.order.company}, whose import this is"
        problems.append(LineProblem(line, "company", shown(company), "WRONG_COMPANY", rule))
    if not problems:
        problems = [
            LineProblem(line, p.column, _value_of(values, said, p), "LINE_REFUSED", p.rule)
            for p in reading.layout.judge(values)
        ]
    return line, values, said, problems


def _value_of(values: Mapping[str, str], said: Mapping[str, str], problem: Problem) -> str | None:
    value = values.get(problem.column)
    return None if value is None else said.get(problem.column, shown(value))


def _stage(
    reading: _Reading, line: int, values: Mapping[str, str], said: Mapping[str, object]
) -> None:
    cells = [reading.order.job_id, str(line)]
    for name in reading.layout.staged:
        value = values.get(name)
        if value is None:
            cells.append(EMPTY)
        else:
            cells.append(value.translate(ESCAPES) if "\\" in value else value)
    words = json.dumps(said, ensure_ascii=False) if said else EMPTY
    cells.append(words.translate(ESCAPES) if said else words)
    reading.rows.append("\t".join(cells) + "\n")
    reading.staged += 1


def _line_of(record: Record | Block) -> int:
    if isinstance(record, Block):
        return record.first
    return record.line if isinstance(record, LineProblem) else record[0]


def _records_of(
    order: Order, layout: Layout, source: BinaryIO
) -> tuple[Iterator[Record | Block], Conventions]:
    path = Path(order.path)
    begins = source.read(8)
    source.seek(0)
    how = Conventions(decimal=order.decimal, date_order=order.date_order)
    if begins.startswith(OLD_EXCEL):
        raise FileRefused(
            "FORMAT_UNKNOWN", "the file is an .xls, or protected by a password: save it as .xlsx"
        )
    if begins.startswith(ZIP):
        book = XlsxFile(source, path.stat().st_size)
        how = Conventions(
            decimal=order.decimal,
            date_order=order.date_order,
            since_1904=book.workbook.since_1904,
            spreadsheet=True,
        )
        return iter(book.rows(order.sheet)), how
    unpacked: BinaryIO = source
    if begins.startswith(GZIP):
        allowance = Allowance(path.stat().st_size)
        packed = Counted(gzip.GzipFile(fileobj=source), allowance)  # type: ignore[arg-type]
        unpacked = io.BufferedReader(packed, 1 << 20)
    return read_csv(
        unpacked,
        layout.columns,
        delimiter=order.delimiter,
        encoding=order.encoding,
        blocks_after=None if layout.shapes is None else order.head_line,
    ), how

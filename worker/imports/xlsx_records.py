"""Rows of a sheet of an XLSX file, one by one, cells as the file has them.

The sheet streams: one row is held, and the workbook's table of texts, of bounded size. Numbers stay
in the file's own digits, never a float of ours; what a formula last came to is its cell's value.
"""

import io
import re
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import Any, BinaryIO
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from worker.imports.cells import Flawed, Numeric
from worker.imports.problems import FileRefused
from worker.imports.unpacking import Allowance, Counted

READ_BYTES = 1 << 16
MOST_PARTS = 10_000
MOST_CELLS = 1_000
LONGEST_ROW = 2 << 20
POINTER_BYTES = 8
MOST_TEXT_BYTES = 256 << 20  # of all shared texts together, as they are held
REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+", re.ASCII)
ROW_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
TEXT_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
UNCALCULATED = "is a formula that was never calculated: open the file in a spreadsheet and save it"


class Parser:
    """Feeds a part of the package to expat; subclasses see elements by their local names."""

    def __init__(self) -> None:
        self._expat: Any = expat.ParserCreate(namespace_separator=" ")
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self.text
        # No table needs a document type, and entities are how a small file becomes a large one.
        self._expat.StartDoctypeDeclHandler = _refuse_doctype

    def feed(self, data: bytes, *, last: bool) -> None:
        """More of the part; FileRefused for what is no XML."""
        try:
            self._expat.Parse(data, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # also of its encoding
            raise FileRefused("FILE_DAMAGED", f"a part of the file is no XML: {error}") from None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, data: str) -> None:
        """Some of its text."""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        self.start(name.rpartition(" ")[2], local)

    def _end(self, name: str) -> None:
        self.end(name.rpartition(" ")[2])


def _refuse_doctype(*_: object) -> None:
    raise FileRefused("FILE_REFUSED", "a part of the file declares a document type")


class Workbook(Parser):
    """Which sheets there are, and from which day they count."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: list[tuple[str, str, bool]] = []
        self.since_1904 = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Sheets and properties of the workbook."""
        if name == "sheet":
            visible = attributes.get("state", "visible") == "visible"
            self.sheets.append((attributes.get("name", ""), attributes.get("id", ""), visible))
        elif name == "workbookPr":
            self.since_1904 = attributes.get("date1904") in {"1", "true"}


class Relations(Parser):
    """Which part a sheet is."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """A relation."""
        if name == "Relationship":
            self.targets[attributes.get("Id", "")] = attributes.get("Target", "")


class SharedTexts(Parser):
    """The texts that cells name by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._parts: list[str] = []
        self._inside = self._phonetic = False
        self._total = self._length = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002 - none needed
        """A text, or a part of one."""
        if name == "si":
            self._parts, self._length = [], 0
        self._inside = name == "t" and not self._phonetic
        self._phonetic = self._phonetic or name == "rPh"

    def end(self, name: str) -> None:
        """Its end."""
        self._inside = False
        if name == "rPh":
            self._phonetic = False
        elif name == "si":
            text = _unescaped("".join(self._parts))
            self._total += getsizeof(text) + POINTER_BYTES
            if self._total > MOST_TEXT_BYTES:
                raise FileRefused(
                    "FILE_TOO_LARGE",
                    f"the workbook has more than {MOST_TEXT_BYTES >> 20} MiB of different texts: "
                    "save it as CSV",
                )
            self.found.append(text)

    def text(self, data: str) -> None:
        """Some of it."""
        if self._inside:
            self._length += len(data)
            if self._length > LONGEST_ROW:
                raise FileRefused(
                    "ROW_TOO_LARGE", "a text of the workbook is too large to be meant"
                )
            self._parts.append(data)


class Sheet(Parser):
    """Rows that are complete, with their numbers; whoever feeds it takes them away."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.rows: list[tuple[int, list[str]]] = []
        self._texts = texts
        self._number = 0
        self._row: list[str] = []
        self._length = 0
        self._value: list[str] = []
        self._inside = self._formula = self._phonetic = False
        self._kind = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """A row, a cell, or what a cell is made of."""
        if name == "c":
            self._kind, self._formula, self._value = attributes.get("t", "n"), False, []
            self._place(attributes.get("r", ""))
        elif name == "row":
            self._number = self._next_number(attributes.get("r"))
            self._row, self._length = [], 0
        elif name == "f":
            self._formula = True
        elif name == "rPh":
            self._phonetic = True
        self._inside = name == "v" or (name == "t" and not self._phonetic)

    def end(self, name: str) -> None:
        """Its end."""
        self._inside = False
        if name == "c":
            self._row.append(self._cell())
        elif name == "row":
            self.rows.append((self._number, self._row))
        elif name == "rPh":
            self._phonetic = False

    def text(self, data: str) -> None:
        """Some of a cell's value."""
        if self._inside:
            self._length += len(data)
            if self._length > LONGEST_ROW:
                raise FileRefused("ROW_TOO_LARGE", f"row {self._number} is too large to be meant")
            self._value.append(data)

    def _next_number(self, said: str | None) -> int:
        """Rows that are left out are empty ones. They come in their order, each once: what an
        attempt has dealt with is told by the number of its last row.
        """
        if said is None:
            return self._number + 1
        if not ROW_NUMBER.fullmatch(said) or int(said) <= self._number:
            raise _misplaced(f"a row has the number '{said[:20]}' behind row {self._number}")
        return int(said)

    def _place(self, reference: str) -> None:
        """Cells that are left out are empty ones."""
        found = REFERENCE.fullmatch(reference)
        if reference and found is None:
            raise _misplaced(f"row {self._number} has a cell '{reference[:20]}'")
        index = len(self._row) if found is None else _column_of(found[1])
        if index < len(self._row):
            raise _misplaced(f"cell {reference} stands behind one that it comes before")
        if index >= MOST_CELLS:
            raise FileRefused(
                "TOO_MANY_COLUMNS", f"row {self._number} has more than {MOST_CELLS} cells"
            )
        self._row.extend([""] * (index - len(self._row)))

    def _cell(self) -> str:
        value = "".join(self._value)
        match self._kind:
            case "n" if value:
                return Numeric(value)
            case "s" if value:
                return self._shared(value)
            case "b" if value:
                return "true" if value == "1" else "false"
            case "e":
                return Flawed(f"is the error {value or 'of a formula'}")
            case "n" | "str" if not value and self._formula:
                return Flawed(UNCALCULATED)
        return _unescaped(value)

    def _shared(self, value: str) -> str:
        # Python would take -1 for the last of them.
        if TEXT_NUMBER.fullmatch(value) and int(value) < len(self._texts):
            return self._texts[int(value)]
        raise FileRefused(
            "FILE_DAMAGED", f"row {self._number} names a text that is not in the file"
        )


class XlsxFile:
    """A workbook that is being read."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._allowance = Allowance(size)
        try:
            self._zip = ZipFile(source)
        except (BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise FileRefused(
                "FILE_DAMAGED", f"the file cannot be unpacked ({error}): was it copied whole?"
            ) from None
        if len(self._zip.infolist()) > MOST_PARTS:
            raise FileRefused("FILE_REFUSED", f"the file has more than {MOST_PARTS} parts")
        self.workbook = Workbook()
        if not self._read("xl/workbook.xml", self.workbook):
            raise FileRefused(
                "FORMAT_UNKNOWN", "the file is packed, but no XLSX: save it as .xlsx or .csv"
            )

    def rows(self, sheet: str | None) -> Iterator[tuple[int, Sequence[str]]]:
        """Rows with their numbers, empty ones left out; of the first sheet unless it is named."""
        part = self._part_of(sheet)
        texts = SharedTexts()
        self._read("xl/sharedStrings.xml", texts)
        parser = Sheet(texts.found)
        for data, last in self._chunks(part):
            parser.feed(data, last=last)
            for number, cells in parser.rows:
                if any(cells):
                    yield number, cells
            parser.rows = []

    def _part_of(self, sheet: str | None) -> str:
        relations = Relations()
        self._read("xl/_rels/workbook.xml.rels", relations)
        names = [name for name, _, visible in self.workbook.sheets if visible]
        wanted = sheet if sheet is not None else next(iter(names), None)
        for name, relation, _ in self.workbook.sheets:
            if name == wanted and relation in relations.targets:
                target = relations.targets[relation]
                return target.lstrip("/") if target.startswith("/") else f"xl/{target}"
        raise FileRefused(
            "SHEET_UNKNOWN", f"there is no sheet {wanted!r}; sheets are: {', '.join(names)}"
        )

    def _read(self, part: str, parser: Parser) -> bool:
        if part not in self._zip.NameToInfo:
            return False
        for data, last in self._chunks(part):
            parser.feed(data, last=last)
        return True

    def _chunks(self, part: str) -> Iterator[tuple[bytes, bool]]:
        try:
            opened = self._zip.open(part)
        except (BadZipFile, KeyError, NotImplementedError, OSError, RuntimeError) as error:
            raise FileRefused("FILE_DAMAGED", f"{part} cannot be unpacked: {error}") from None
        with opened:
            source = io.BufferedReader(Counted(opened, self._allowance), READ_BYTES)  # type: ignore[arg-type]
            while data := source.read(READ_BYTES):
                yield data, False
            yield b"", True


def _misplaced(said: str) -> FileRefused:
    return FileRefused("FILE_DAMAGED", f"{said}: open the file in a spreadsheet and save it again")


def _column_of(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


def _unescaped(value: str) -> str:
    """What XML cannot hold is written _x000D_."""
    if "_x" not in value:
        return value
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)

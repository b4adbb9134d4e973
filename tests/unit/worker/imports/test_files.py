"""Files: every line with its number, however they are written, packed or broken."""

import gzip
import io
import random
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook as Openpyxl

from tests.importing import workbook
from tests.unit.worker.imports.files import read
from worker.imports import unpacking, xlsx_records
from worker.imports.csv_records import LONGEST_CELL, LONGEST_LINE
from worker.imports.problems import FileRefused

HEAD = "Số CT;Dòng;Loại;Ngày;Kho;Mã hàng;Số lượng;Giá trị"
LINE = "PN{n};1;Nhập kho;05/01/2026;K1;H1;1;5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def table(*lines: str, end: str = "\n") -> str:
    return end.join((HEAD, *lines)) + end


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_and_marks_change_nothing(path: Path, end: str, encoding: str) -> None:
    """Windows, Unix, old Mac; with and without byte order mark."""
    content = table(LINE.format(n=1), "", LINE.format(n=2), end=end).encode(encoding)
    found = read(path, content)
    assert list(found.rows) == [2, 4]
    assert found.rows[4]["doc_id"] == "PN2"
    assert found.rows[2]["posting_date"] == "2026-01-05"
    assert not found.problems


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_by_the_heads(path: Path, mark: str) -> None:
    """Also where another one is in the heads' own words, or Excel's sep= says it."""
    content = table(LINE.format(n=1)).replace(";", mark)
    assert read(path, content).rows[2]["kind"] == "receipt"
    assert read(path, f"sep={mark}\n{content}").rows[3]["kind"] == "receipt"


def test_lines_are_numbered_as_an_editor_shows_them(path: Path) -> None:
    """A quoted cell may run over lines; what follows it has the number it stands at."""
    memo = 'type,doc_no,doc_date,memo,net\nmanual,C1,2026-01-05,"a\nb\nc",x\nmanual,C2,2026-01-05,d,y\n'
    found = read(path, memo, "documents")
    assert [line for line, _, code in found.problems if code == "CELL_REFUSED"] == [2, 5]


def test_a_decimal_comma_between_commas_never_moves_a_line(path: Path) -> None:
    """The empty cell at its end is no padding: only as many as the heads have are."""
    heads = "doc_id,doc_line,kind,posting_date,store,item,quantity,value,lot"
    line = "N{n},1,receipt,2026-01-03,R1,A,{quantity},1000,"
    moved = read(path, "\n".join((heads, line.format(n=1, quantity="1,5"))))
    assert (moved.rows, moved.problems) == ({}, [(2, None, "CELLS_MISCOUNTED")])
    rows = [heads, line.format(n=1, quantity=1), line.format(n=2, quantity="1,5")]
    padded = read(path, "".join(f"{row},,\n" for row in rows))
    assert (list(padded.rows), padded.problems) == ([2], [(3, None, "CELLS_MISCOUNTED")])


def test_a_first_line_without_end_is_refused_like_any_other(path: Path) -> None:
    """Nothing in it tells the delimiter, and nothing of it is held."""
    for size in (LONGEST_CELL + 1, LONGEST_LINE * 3):
        with pytest.raises(FileRefused, match="HEADS_REFUSED"):
            read(path, "x" * size + "\n" + table(LINE.format(n=1)))


def test_a_quote_that_is_never_closed_costs_its_own_line(path: Path) -> None:
    """Not all that follows it, up to the end of the file or of what a cell may hold."""
    for many in (3, 20_000):
        lines = [LINE.format(n=n) for n in range(many)]
        broken = table(lines[0], '"' + lines[1], *lines[2:])
        found = read(path, broken)
        assert found.problems == [(3, None, "LINE_REFUSED")]
        assert len(found.rows) == many - 1


def test_odd_quotes_are_told_and_reading_goes_on(path: Path) -> None:
    """A quote inside a quoted cell has to be doubled."""
    found = read(path, table('"P"N";1;nhap;05/01/2026;K;H;1;5', LINE.format(n=1)))
    assert found.problems == [(2, None, "LINE_REFUSED")]
    assert list(found.rows) == [3]


def test_huge_cells_and_lines_are_refused_and_not_held(path: Path) -> None:
    """And the lines after them are read."""
    huge = "x" * (LONGEST_CELL + 1)
    endless = "y" * (3 * LONGEST_LINE)
    found = read(path, table(LINE.format(n=1), huge, endless, LINE.format(n=2)))
    assert [line for line, _, _ in found.problems] == [3, 4]
    assert list(found.rows) == [2, 5]


def test_bytes_that_are_no_utf8_cost_their_line(path: Path) -> None:
    """Windows' own Vietnamese is read when it is said."""
    content = table(LINE.format(n=1)).encode() + LINE.format(n="Đ").encode("utf-16-le")[:4] + b"\n"
    found = read(path, content)
    assert list(found.rows) == [2]
    assert found.refused == 1
    heads = b"doc_id;doc_line;kind;posting_date;store;item;quantity;value\n"
    legacy = heads + "PNĐ;1;nhap;05/01/2026;K1;H1;1;5\n".encode("windows-1258")
    assert read(path, legacy).problems == [(2, "doc_id", "CELL_REFUSED")]
    assert "0xD0" in read(path, legacy).rules[0]
    assert read(path, legacy, encoding="windows-1258").rows[2]["doc_id"] == "PNĐ"


def test_a_cut_off_gzip_is_no_file(path: Path) -> None:
    """Wherever it was cut; so is one that was damaged."""
    whole = gzip.compress(table(*(LINE.format(n=n) for n in range(5_000))).encode())
    assert len(read(path, whole).rows) == 5_000
    dice = random.Random(1)
    for cut in (*(dice.randrange(20, len(whole)) for _ in range(20)), len(whole) - 1):
        with pytest.raises(FileRefused, match="FILE_DAMAGED"):
            read(path, whole[:cut])
    damaged = whole[:-8] + bytes(4) + whole[-4:]
    with pytest.raises(FileRefused, match="FILE_DAMAGED"):
        read(path, damaged)


def test_what_unpacks_beyond_all_measure_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it unpacks: no header is believed, and nothing is held."""
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    bomb = gzip.compress(table(LINE.format(n=1)).encode() + bytes(64 << 20))
    with pytest.raises(FileRefused, match="UNPACKS_TOO_LARGE"):
        read(path, bomb)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/workbook.xml", "<workbook/>" + " " * (64 << 20))
    with pytest.raises(FileRefused, match="UNPACKS_TOO_LARGE"):
        read(path, packed.getvalue())


@pytest.mark.parametrize("most", [1, 7, 100])
@pytest.mark.parametrize("layout", ["movements", "documents"])
def test_an_attempt_goes_on_where_the_last_one_ended(path: Path, most: int, layout: str) -> None:
    """Each line once, whatever the portions are; a document is never cut in two."""
    content = table(*(LINE.format(n=n if n % 9 else "\x01") for n in range(200)))
    if layout == "documents":
        lines = [
            f"manual,CT{n // 6},2026-01-05,{'debit' if n % 6 else 'x' if n % 8 == 0 else 'no'},111,5"
            for n in range(200)
        ]
        content = "type,doc_no,doc_date,side,line_account,net\n" + "\n".join(lines) + "\n"
    whole = read(path, content, layout)
    parts = read(path, content, layout, most=most, again=True)
    assert parts == whole
    assert whole.refused
    assert whole.lines == 200


def test_the_lines_of_a_document_stand_and_fall_together(path: Path) -> None:
    """A line that does not say whose it is spoils what is before and behind it."""
    content = (
        "type,doc_no,doc_date,store,net\n"
        "manual,C1,2026-01-05,R1,1\n"
        "manual,C1,2026-01-05,,2\n"
        "manual,C2,2026-01-05,R1,1\n"
        "manual,C2,2026-01-06,R1,1\n"
        "manual,C3,2026-01-05,R1,1\n"
        "manual,,2026-01-05,R1,1\n"
        "manual,C4,2026-01-05,R1,1\n"
        "manual,C5,2026-01-05,R1,1\n"
    )
    found = read(path, content, "documents")
    assert {row["doc_no"]: row["lines"] for row in found.rows.values()} == {
        "C1": "{2,3}",
        "C5": "{9}",
    }
    assert found.problems == [
        (5, "doc_date", "DOCUMENT_REFUSED"),
        (7, "doc_no", "CELL_REFUSED"),
        (6, None, "DOCUMENT_REFUSED"),
        (8, None, "DOCUMENT_REFUSED"),
    ]
    assert found.refused == 5


def test_a_line_spoils_only_what_it_may_be_a_part_of(path: Path) -> None:
    """Its type cannot be read, its number can: documents of other numbers are whole without it."""
    content = (
        "type,doc_no,doc_date,net\n"
        "manual,C1,2026-01-05,1\n"
        "manaul,C2,2026-01-05,1\n"
        "manual,C3,2026-01-05,1\n"
        "manaul,C3,2026-01-05,1\n"
        "manaul,C4,2026-01-05,1\n"
        "manual,C4,2026-01-05,1\n"
        "sale,,2026-01-05,1\n"
        "manual,C5,2026-01-05,1\n"
    )
    for most in (1, 3, 1_000):
        found = read(path, content, "documents", most=most, again=True)
        assert [row["doc_no"] for row in found.rows.values()] == ["C1", "C5"]
        spoilt = [line for line, _, code in found.problems if code == "DOCUMENT_REFUSED"]
        assert spoilt == [4, 7]
        assert found.refused == 6


def test_columns_are_judged_all_at_once(path: Path) -> None:
    """Missing, twice and unknown ones."""
    with pytest.raises(FileRefused) as refused:
        read(path, "Số CT,doc_id,Loại,Ghi chú\nx\n")
    for said in ("missing: doc_line (Dòng)", "twice: doc_id", "'Ghi chú'", "--ignore-others"):
        assert said in str(refused.value)
    extra = table(LINE.format(n=1) + ";!").replace(HEAD, HEAD + ";Ghi chú")
    with pytest.raises(FileRefused, match="COLUMNS_REFUSED"):
        read(path, extra)
    assert len(read(path, extra, ignore_others=True).rows) == 1


def test_a_title_above_the_heads_is_passed_by(path: Path) -> None:
    """When it is said where they are."""
    content = f"BÁO CÁO NHẬP XUẤT TỒN\nTháng 1;;;\n{table(LINE.format(n=1))}"
    with pytest.raises(FileRefused, match="COLUMNS_MISSING"):
        read(path, content)
    assert list(read(path, content, head_line=3, delimiter=";").rows) == [4]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "FILE_EMPTY"),
        (b"\n\n ,\n", "COLUMNS_MISSING"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "FORMAT_UNKNOWN"),
        (b"PK\x03\x04nothing", "FILE_DAMAGED"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "HEADS_REFUSED"),
        (b"\x1f\x8bnothing", "FILE_DAMAGED"),
    ],
)
def test_what_is_no_table_is_refused(path: Path, content: bytes, code: str) -> None:
    """In a word for programs and a sentence for people."""
    with pytest.raises(FileRefused) as refused:
        read(path, content)
    assert refused.value.code == code


ROW = ["PN1", 1, "nhap", 46027, "K1", 123, 2.5, 5]


def test_a_sheet_is_read_by_the_types_of_its_cells(path: Path) -> None:
    """Numbers, numbers stored as text, formulas by what they last came to, and gaps."""
    rows = [
        HEAD.split(";"),
        ROW,
        [],
        ["PN2", "1", "nhap", "05/01/2026", "K1", "H1", "1.234,5", ("=2+3", 5)],
        ["PN3", 1, "nhap", 46027, "K1", "H1", 1, ("=1/0", "#DIV/0!")],
    ]
    found = read(path, workbook(rows))
    assert found.rows[2] | {"brand": ""} == {
        "doc_id": "PN1", "doc_line": "1", "kind": "receipt", "posting_date": "2026-01-05",
        "store": "K1", "item": "123", "quantity": "2.5", "value": "5", "brand": "",
    }  # fmt: skip
    assert (found.rows[4]["quantity"], found.rows[4]["value"]) == ("1234.5", "5")
    assert found.problems == [(5, "value", "CELL_REFUSED")]


def test_another_writers_workbook_is_read_alike(path: Path) -> None:
    """openpyxl's; formulas that were never calculated are told."""
    book = Openpyxl(write_only=True)
    sheet = book.create_sheet("Data")
    sheet.append(HEAD.split(";"))
    sheet.append(ROW)
    sheet.append([*ROW[:-1], "=1+1"])
    target = io.BytesIO()
    book.save(target)
    found = read(path, target.getvalue())
    assert found.rows[2]["item"] == "123"
    assert found.problems == [(3, "value", "CELL_REFUSED")]
    assert "never calculated" in found.rules[0]


SHEET_OF = {
    "xl/workbook.xml": '<workbook><sheets><sheet name="D" id="a"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<R><Relationship Id="a" Target="s.xml"/></R>',
    "xl/sharedStrings.xml": "<sst><si><t>one</t></si></sst>",
}
CELLS = "".join(
    f'<c r="{letter}1" t="inlineStr"><is><t>{head}</t></is></c>'
    for letter, head in zip("ABCDEFGH", HEAD.split(";"), strict=True)
)


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="3"/><row r="2"/>',
        '<row r="2"/><row r="2"/>',
        '<row r="²"/>',
        f'<row r="{"9" * 5000}"/>',
        '<row r="-2"/>',
        '<row r="2"><c r="B2"><v>1</v></c><c r="A2"><v>2</v></c></row>',
        '<row r="2"><c r="A2"><v>1</v></c><c r="A2"><v>2</v></c></row>',
        '<row r="2"><c r="a2"><v>1</v></c></row>',
        '<row r="2"><c r="A2" t="s"><v>-1</v></c></row>',
        '<row r="2"><c r="A2" t="s"><v>1</v></c></row>',
    ],
)
def test_rows_and_cells_of_a_sheet_that_are_not_in_order_are_refused(path: Path, rows: str) -> None:
    """Read as they come, a price would be a quantity, or a line left out by the next attempt."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        for name, part in SHEET_OF.items():
            book.writestr(name, part)
        sheet = f'<s><sheetData><row r="1">{CELLS}</row>{rows}</sheetData></s>'
        book.writestr("xl/s.xml", sheet)
    with pytest.raises(FileRefused, match="FILE_DAMAGED"):
        read(path, target.getvalue())


def book_of_encoding(name: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        book.writestr("xl/workbook.xml", f'<?xml version="1.0" encoding="{name}"?><workbook/>')
    return target.getvalue()


def test_a_workbook_that_lies_about_itself_is_damaged(path: Path) -> None:
    """Its encoding, and what is needed to unpack it."""
    for name in ("UTF-88", "shift_jis"):
        with pytest.raises(FileRefused, match="FILE_DAMAGED"):
            read(path, book_of_encoding(name))
    later = bytearray(book_of_encoding("UTF-8"))
    later[later.index(b"PK\x01\x02") + 6] = 249
    with pytest.raises(FileRefused, match="FILE_DAMAGED"):
        read(path, bytes(later))


def test_a_number_that_is_none_stages_no_other_cell(path: Path) -> None:
    """Between tabs and line ends of its own it could be a row of somebody else's import."""
    target = io.BytesIO()
    values = [f"1&#10;{'0' * 8}&#9;1", 1, "nhap", 46027, "K1", "H1", 1, 5]
    cells = "".join(
        f'<c r="{letter}2"{"" if n in (0, 1, 3, 6, 7) else TEXT}><v>{value}</v></c>'
        for n, (letter, value) in enumerate(zip("ABCDEFGH", values, strict=True))
    )
    with zipfile.ZipFile(target, "w") as book:
        for name, part in SHEET_OF.items():
            book.writestr(name, part)
        book.writestr("xl/s.xml", f'<s><row r="1">{CELLS}</row><row r="2">{cells}</row></s>')
    found = read(path, target.getvalue())
    assert (found.rows, found.problems) == ({}, [(2, "doc_id", "CELL_REFUSED")])


TEXT = ' t="str"'


def test_a_sheets_empty_cells_at_the_end_of_a_row_may_not_be_there(path: Path) -> None:
    """Excel writes a row up to its last cell that has anything in it; in a CSV it is cut off."""
    book = Openpyxl()
    sheet = book.worksheets[0]
    sheet.append([*HEAD.split(";"), "brand", "uom"])
    sheet.append([*ROW, None, "kg"])
    sheet.append(["PN2", *ROW[1:]])
    sheet.append(["PN3", *ROW[1:-1]])
    target = io.BytesIO()
    book.save(target)
    found = read(path, target.getvalue())
    assert found.problems == []
    assert found.rows[2]["uom"] == "kg"
    assert (found.rows[3]["value"], found.rows[3].get("uom")) == ("5", None)
    assert found.rows[4]["doc_id"] == "PN3"


def test_sheets_are_named_and_days_may_count_from_1904(path: Path) -> None:
    """An unknown name is told with those that there are."""
    mac = workbook([HEAD.split(";"), [*ROW[:3], 44565, *ROW[4:]]], date_1904=True)
    assert read(path, mac).rows[2]["posting_date"] == "2026-01-05"
    assert len(read(path, mac, sheet="Data").rows) == 1
    with pytest.raises(FileRefused, match=r"SHEET_UNKNOWN.*Data"):
        read(path, mac, sheet="Tháng 1")


def test_the_texts_of_a_workbook_are_held_within_a_bound(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell names one of them, so all are held; one of them alone may be huge, too."""
    book = workbook([HEAD.split(";"), *([f"text {n}" * 20] for n in range(2_000))])
    monkeypatch.setattr(xlsx_records, "MOST_TEXT_BYTES", 1 << 18)
    with pytest.raises(FileRefused, match="FILE_TOO_LARGE"):
        read(path, book)
    monkeypatch.setattr(xlsx_records, "MOST_TEXT_BYTES", 1 << 30)
    monkeypatch.setattr(xlsx_records, "LONGEST_ROW", 100)
    with pytest.raises(FileRefused, match="ROW_TOO_LARGE"):
        read(path, book)


def test_a_workbook_that_declares_entities_is_refused(path: Path) -> None:
    """How a thousand bytes become a billion."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        book.writestr("xl/workbook.xml", '<!DOCTYPE x [<!ENTITY a "aa">]><workbook>&a;</workbook>')
    with pytest.raises(FileRefused, match="document type"):
        read(path, target.getvalue())


def test_a_number_of_a_sheet_is_not_the_text_that_looks_like_it(path: Path) -> None:
    """1.234 in a number cell is one and 234 thousandths; as a text it could be two numbers."""
    rows = [HEAD.split(";"), [*ROW[:6], 1.234, 5], [*ROW[:6], "1.234", 5]]
    found = read(path, workbook(rows))
    assert found.rows[2]["quantity"] == "1.234"
    assert found.problems == [(3, "quantity", "CELL_REFUSED")]

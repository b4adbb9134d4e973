"""Files of an export: RFC 4180, what Excel would run stays text, and no digit is lost."""

import csv
import io
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pytest

from worker.exports import xlsx_file
from worker.exports.cells import Cell, Column, Number, guarded
from worker.exports.csv_file import CsvFile
from worker.exports.tables import TABLES
from worker.exports.writing import Order, add, begin, finish
from worker.exports.xlsx_file import PROOF, ROWS_PER_SHEET, XlsxFile

COLUMNS = (Column("Item (Mã hàng)"), Column("Value"))
FORMULAS = ("=1+1", "+A1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")')
SOUND: list[list[Cell]] = [
    ["Áo, sơ mi", Number("12.50")],
    ['say "hi"\r\nthere', Number("-3")],
    [None, None],
]
HOSTILE: list[list[Cell]] = [[text, Number("1")] for text in FORMULAS]
ROWS = SOUND + HOSTILE


def csv_of(tmp_path: Path, *, bom: bool = False) -> bytes:
    path = tmp_path / "table.csv"
    file = CsvFile(path, COLUMNS, bom=bom)
    file.add(ROWS)
    file.close([("a", "fact")])
    return path.read_bytes()


def workbook(path: Path) -> Any:
    return openpyxl.load_workbook(path)


def xlsx_of(tmp_path: Path, rows: list[list[Cell]], **options: Any) -> Any:
    path = tmp_path / "table.xlsx"
    file = XlsxFile(path, COLUMNS, title="Results", **options)
    file.add(rows)
    facts: list[tuple[str, str | Decimal]] = [
        ("Checksum", "ab"),
        ("Note", "=1+1"),
        ("Company", "007"),
        ("Sum", Decimal("-1.50")),
    ]
    file.close(facts)
    return workbook(path)


def test_csv_is_that_of_the_rfc(tmp_path: Path) -> None:
    """Commas, CRLF after every row, quotes doubled, UTF-8 without a mark unless one is asked for."""
    written = csv_of(tmp_path)
    assert written.startswith("Item (Mã hàng),Value\r\n".encode())
    assert b'"\xc3\x81o, s\xc6\xa1 mi",12.50\r\n' in written
    assert b'"say ""hi""\r\nthere",-3\r\n' in written
    assert b"\r\n,\r\n" in written
    assert written.endswith(b"\r\n")
    assert csv_of(tmp_path, bom=True) == b"\xef\xbb\xbf" + written
    read = list(csv.reader(io.StringIO(written.decode(), newline="")))
    assert [len(row) for row in read] == [2] * (len(ROWS) + 1)


def test_no_text_of_a_csv_file_is_a_formula(tmp_path: Path) -> None:
    """A quote before it, which a reader takes off again whatever the text was; numbers stay so."""
    read = list(csv.reader(io.StringIO(csv_of(tmp_path).decode(), newline="")))
    told = [row[0] for row in read[4:]]
    assert told == [f"'{text}" for text in FORMULAS]
    assert read[2][1] == "-3", "a number is no text"
    for text in (*FORMULAS, "'quoted", "plain", "", "a=b"):
        assert guarded(text).removeprefix("'") == text, "a reader takes one off"
    assert guarded("'quoted") == "''quoted"
    assert guarded("00123") == "00123"


def test_no_text_of_a_workbook_is_a_formula(tmp_path: Path) -> None:
    """As it was written, and as a string: nothing that is opened is run."""
    book = xlsx_of(tmp_path, ROWS)
    sheet = book["Results"]
    cells = [row[0] for row in sheet.iter_rows(min_row=2)]
    assert {cell.data_type for cell in cells if cell.value is not None} <= {"s", "inlineStr"}
    # A lone CR is escaped as the format asks; Excel shows it, openpyxl leaves it as it stands.
    told = [str(cell.value).replace("_x000D_", "\r") for cell in cells[3:]]
    assert told == list(FORMULAS)
    assert book[PROOF]["B2"].data_type in {"s", "inlineStr"}
    assert book[PROOF]["B3"].value == "007", "a code is no number"
    assert book[PROOF]["B4"].value == -1.5, "a sum is one, and can be added up"
    assert [sheet["B2"].value, sheet["B3"].value] == [12.5, -3]
    assert (sheet["B2"].number_format, sheet["B3"].number_format) == ("#,##0.00", "#,##0")


def test_a_number_that_excel_would_round_is_text(tmp_path: Path) -> None:
    """15 digits are a number, 16 are a text with all of them."""
    exact = ["123456789012345", "1234567890.12345", "-99999999999999.9"]
    beyond = ["1234567890123456", "9223372036854775807", "-12345678901234.567"]
    book = xlsx_of(tmp_path, [["x", Number(each)] for each in exact + beyond])
    cells = [row[1] for row in book["Results"].iter_rows(min_row=2)]
    assert [Decimal(str(cell.value)) for cell in cells] == [
        Decimal(each) for each in exact + beyond
    ]
    assert [cell.data_type for cell in cells[: len(exact)]] == ["n"] * len(exact)
    assert [cell.value for cell in cells[len(exact) :]] == beyond


def test_a_number_is_written_as_it_is_said(tmp_path: Path) -> None:
    """Not as 8411.889999999999, which whoever reads the file's decimals would take for another."""
    said = ["8411.89", "0.07", "-1234567890.12345", "1200", "123456789012345", "0.00000123"]
    xlsx_of(tmp_path, [["x", Number(each)] for each in said])
    with ZipFile(tmp_path / "table.xlsx") as file:
        sheet = file.read("xl/worksheets/sheet1.xml").decode()
    assert [Decimal(each) for each in re.findall("<v>([^<]*)</v>", sheet)] == [
        Decimal(each) for each in said
    ]


def test_a_sheet_that_is_full_is_followed_by_another_one(tmp_path: Path) -> None:
    """Each has the heads and filters, and not a row is lost at the border."""
    assert ROWS_PER_SHEET == 1_048_576, "Excel's own limit"
    rows: list[list[Cell]] = [[f"i{n}", Number(str(n))] for n in range(9)]
    book = xlsx_of(tmp_path, rows, rows_per_sheet=5)
    assert book.sheetnames == ["Results", "Results 2", "Results 3", PROOF]
    found = [
        row
        for name in book.sheetnames[:-1]
        for row in book[name].iter_rows(min_row=2, values_only=True)
    ]
    assert found == [(f"i{n}", n) for n in range(9)]
    assert [book[name].max_row for name in book.sheetnames[:-1]] == [5, 5, 2]
    assert book["Results 2"]["A1"].value == COLUMNS[0].head
    exact = xlsx_of(tmp_path, rows[:4], rows_per_sheet=5)
    assert exact.sheetnames == ["Results", PROOF], "one that is just full begins no other"


def test_a_text_that_no_cell_holds_ends_with_dots(tmp_path: Path) -> None:
    """Excel's 32,767 characters: without the cut the cell would stay empty in silence."""
    book = xlsx_of(tmp_path, [["y" * 40_000, None], ["control\x01\x0b", None]])
    said = book["Results"]["A2"].value
    assert (len(said), said[-1]) == (xlsx_file.LONGEST_TEXT, "…")
    assert book["Results"]["A3"].value.startswith("control")


def result_row(**changes: Any) -> tuple[Any, ...]:
    names = TABLES["results"].names
    row: dict[str, Any] = dict.fromkeys(names, 0)
    row |= {"brand": "RED", "pool": "-1", "item": "=B", "name": "+Bánh", "base_uom": "kg"}
    row |= {"qty_scale": 3, "q_opening": 1000, "v_opening": 100, "q_closing": 1000, "v_closing": 99}
    row |= {"v_rounding": 1, "price_num": 200, "price_den": 3000, "method": "fifo", "scc_size": 1}
    row |= {"dipped": True, "speaks": True, "stale": False} | changes
    return tuple(row[name] for name in names)


@pytest.mark.parametrize("table", list(TABLES))
def test_each_table_has_a_cell_for_each_of_its_heads(table: str) -> None:
    """Whatever a row lacks."""
    chosen = TABLES[table]
    row: dict[str, Any] = dict.fromkeys(chosen.names, 0)
    row |= {"posting_date": date(2026, 1, 2), "qty_scale": 2}
    for missing in ({}, {"id": None}, {"qty_diff": None, "lot_id": None, "value": 0}):
        given = tuple({**row, **missing}.get(name) for name in chosen.names)
        if table == "movements" and missing == {"id": None}:
            continue
        assert len(chosen.cells(given, minor_digits=2, digits=2)) == len(chosen.columns)
    heads = [column.head for column in chosen.columns]
    assert len(set(heads)) == len(heads)


def test_a_row_of_results_adds_up_in_the_file(tmp_path: Path) -> None:
    """Opening + in = out + closing, by the columns that a reader sees; the price is a quotient."""
    path = str(tmp_path / "t.csv")
    begin(Order(path=path, table="results", format="csv", digits=4, bom=False, minor_digits=2))
    add(path, [result_row(), result_row(price_den=0, brand="", speaks=False, stale=True)])
    assert finish(path, []) == Path(path).stat().st_size
    with Path(path).open(encoding="utf-8", newline="") as written:
        first, second = csv.DictReader(written)
    value = {name: Decimal(cell) for name, cell in first.items() if "value (" in name}
    by_head = {name.partition(":")[0]: cell for name, cell in value.items()}
    assert by_head["Opening"] + by_head["In"] == by_head["Out"] + by_head["Closing"]
    assert first["Unit price (Đơn giá vốn)"] == "0.6667"
    assert first["Unit price, numerator (tử số)"] == "2"
    assert first["Unit price, denominator (mẫu số)"] == "3"
    assert (first["Item (Mã hàng)"], first["Pool (Kho tính giá)"]) == ("'=B", "'-1")
    assert first["Negative within period (Âm trong kỳ)"] == "yes"
    assert second["Unit price (Đơn giá vốn)"] == ""
    assert (second["Replaced by a later run"], second["Stale"]) == ("replaced", "stale")

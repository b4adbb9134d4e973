"""What stands in a cell: on one line where it is prose, and told as it is where it is refused."""

import json
from pathlib import Path

import pytest

from tests.importing import workbook
from tests.unit.worker.imports.files import read
from worker.imports.cells import unbroken
from worker.imports.problems import FileRefused
from worker.imports.reading import Order, begin, end, take


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Thu tiền\nkhách lẻ", "Thu tiền khách lẻ"),
        ("a \r\n\r\n  b", "a b"),
        ("a\tb\u2028c\x85d", "a b c d"),
        ("\na\n", " a "),
        ("a  b\u00a0c", "a  b\u00a0c"),
        ("a\x07b", "a\x07b"),
    ],
)
def test_a_line_break_is_a_space(said: str, meant: str) -> None:
    """Nothing else of the text is touched."""
    assert unbroken(said) == meant


@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_words_may_be_laid_out_on_several_lines_and_codes_may_not(path: Path, form: str) -> None:
    """A memo, and a head, whose cell somebody has broken for the eye."""
    rows = [
        ["Loại\nchứng từ", "Số CT", "Ngày CT", "Kho", "Diễn giải", "Thành tiền"],
        ["manual", "C1", "05/01/2026", "R1", "Bán hàng\r\nngày 5", "1"],
        ["manual", "C2", "05/01/2026", "R\n1", "", "1"],
    ]
    csv = "\n".join(";".join(f'"{cell}"' for cell in row) for row in rows)
    found = read(path, workbook(rows) if form == "xlsx" else csv, "documents")
    (document,) = found.rows.values()
    assert json.loads(document["body"].replace("\\\\", "\\"))["memo"] == "Bán hàng ngày 5"
    assert found.problems[0][1:] == ("store", "CELL_REFUSED")


def test_quotes_in_the_heads_that_never_end_are_told(path: Path) -> None:
    """Nobody reads the whole file for where they might."""
    with pytest.raises(FileRefused, match="quote"):
        read(path, 'doc_id,"doc_line,kind\n' + "a,1,issue\n" * 100_000)


def values_told(path: Path, content: str | bytes, layout: str = "movements") -> list[str | None]:
    """The values of the lines that reading refuses."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    begin(Order(path=str(path), layout=layout, job_id="j", company="ACME"))
    try:
        return [problem.value for problem in take(str(path), 1_000).problems]
    finally:
        end(str(path))


def test_a_refused_line_is_told_as_the_file_has_it(path: Path) -> None:
    """Not as it was understood; but of a spreadsheet's own numbers what it shows."""
    head = ["doc_id", "doc_line", "kind", "posting_date", "store", "item", "quantity", "value"]
    line = ["N1", "1", "Nhập kho", "05/01/2026", "R1", "A", "-1.500,50", "1"]
    content = ";".join(head) + "\n" + ";".join(line) + "\n"
    assert values_told(path, content) == ["-1.500,50"]
    other = content.replace("-1.500,50", "1").replace(";1\n", ";(5)\n")
    assert values_told(path, other) == ["(5)"]
    numbers = [*line[:6], -0.30000000000000004, "1"]
    assert values_told(path, workbook([head, numbers])) == ["-0.3"]


def test_what_the_books_may_refuse_keeps_the_words_of_its_cells(path: Path) -> None:
    """Those that are written otherwise than their values; of a document by its lines."""
    content = "Số CT;Dòng;Loại;Ngày;Kho;Mã hàng;Số lượng;Giá trị\n"
    found = read(
        path, content + "N\\1;1;Nhập kho;05/01/2026;K1;H1;1,50;5\nN2;1;issue;2026-01-05;K1;H1;1;\n"
    )
    assert {line: json.loads(said) for line, said in found.said.items()} == {
        2: {"kind": "Nhập kho", "posting_date": "05/01/2026", "quantity": "1,50"}
    }
    content = "type;doc_no;doc_date;store;net\nmanual;C1;05/01/2026;R1;1.000,5\nmanual;C1;05/01/2026;;2,0\n"
    found = read(path, content, "documents")
    assert {line: json.loads(said) for line, said in found.said.items()} == {
        2: {
            "2": {"doc_date": "05/01/2026", "net": "1.000,5"},
            "3": {"doc_date": "05/01/2026", "net": "2,0"},
        }
    }

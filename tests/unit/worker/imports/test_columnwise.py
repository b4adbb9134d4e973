"""Lines that are read column by column come out as those that are read one by one, to the byte."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from worker.imports.csv_records import Lines
from worker.imports.problems import LineProblem
from worker.imports.reading import Order, begin, end, take

COLUMNS: dict[str, Sequence[str]] = {
    "company": ("ACME", "ACME", "", "OTHER", " ACME"),
    "doc_id": (
        "PN1",
        "PN2",
        "PN3",
        "",
        " PN4 ",
        "PN 5",
        "'0012",
        "1.23457E+12",
        "a\\b",
        "Số1",
        "\x00",
    ),
    "doc_line": ("1", "2", "3", "0", "007", "", "2147483648", "x", "1.0", "-1"),
    "kind": ("receipt", "issue", "nhập kho", "XUẤT", "transfer", "?", "", "sales_return", "count"),
    "posting_date": ("2026-01-05", "05/01/2026", "20260105", "46027", "30/02/2026", "1/2/26", ""),
    "store": ("R1", "R2", "K\u0301", ""),
    "to_store": ("", "", "", "R1", "R3"),
    "item": ("A", "B", "C-\t1", ""),
    "quantity": ("1", "12", "0", "-0", "-5", "1,5", "1.234", "9" * 19, "9" * 18, "1e5", "(3)", ""),
    "value": ("", "", "100", "-100", "1.000.000", "0", "12,50"),
    "currency": ("", "", "", "", "USD", "usd"),
    "fc_amount": ("", "", "", "5"),
    "ref_doc": ("", "", "", "PN1"),
    "ref_line": ("", "", "", "1"),
    "memo": ("", "said"),
}
ODD = ("", ",,,", '"', 'a,"b', "x" * 40, "\v", "\x85", "\u2028", "\udc80")


def cell(chance: random.Random, choices: Sequence[str], oddness: float) -> str:
    """The first ones are sound."""
    return chance.choice(choices if chance.random() < oddness else choices[:2])


def content(seed: int, end_of_line: str) -> bytes:
    """A file of which a few lines are odd, or most of them."""
    chance = random.Random(seed)
    names = [n for n in COLUMNS if n not in {"company", "memo"} or chance.random() < 0.5]
    oddness, padding = chance.choice((0.0, 0.003, 0.1)), "," * chance.choice((0, 0, 2))
    lines = [",".join(names) + padding]
    for _ in range(700):
        cells = [cell(chance, COLUMNS[name], oddness) for name in names]
        if chance.random() < 0.1:
            move = {"kind": "transfer", "to_store": chance.choice(("R1", "R3")), "value": ""}
            cells = [move.get(name, found) for name, found in zip(names, cells, strict=True)]
        if chance.random() < oddness:
            cells[1] = f'"{cells[1]}"'
        lines.append(",".join(cells) + padding)
        if chance.random() < oddness:
            lines.append(chance.choice(ODD))
    return end_of_line.join(lines).encode("utf-8", "surrogateescape")


def portions(
    path: Path, most: Sequence[int], after: int = 0
) -> tuple[bytes, list[LineProblem], int]:
    """All that is read of the file, portion by portion."""
    order = Order(
        path=str(path), layout="movements", job_id="J", company="ACME", ignore_others=True
    )
    begin(replace(order, after_line=after))
    copied, lines = b"", 0
    problems: list[LineProblem] = []
    for number in range(10_000):
        portion = take(str(path), most[number % len(most)])
        assert portion.lines <= most[number % len(most)]
        assert portion.copy.count(b"\n") == portion.rows == portion.lines - portion.refused
        copied += portion.copy
        problems += portion.problems
        lines += portion.lines
        if portion.ended:
            break
    end(str(path))
    return copied, problems, lines


@pytest.mark.parametrize("seed", range(40))
def test_column_by_column_is_as_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rows, problems, numbers, whatever a portion has room for and wherever an attempt begins."""
    path = tmp_path / "file"
    path.write_bytes(content(seed, "\r\n" if seed % 3 == 0 else "\n"))
    after = seed * 13 if seed % 2 else 0
    found = portions(path, (1, 300, 7), after)
    monkeypatch.setattr("worker.imports.csv_records.BLOCK", 997)
    assert portions(path, (10_000,), after) == found
    monkeypatch.setattr(Lines, "block", lambda _: None)
    assert portions(path, (10_000,), after) == found
    assert found[2] > 100

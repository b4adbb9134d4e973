"""The sample company's files: the same numbers give the same bytes, and the documents add up."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from dev.sample_documents import MonthFiles, write_month

FILES = ("items", "openings", "movements", "documents")


def _written(directory: Path, *, seed: int = 7) -> MonthFiles:
    directory.mkdir()
    return write_month(
        directory,
        seed=seed,
        movements=4_000,
        items=120,
        first_day=date(2026, 1, 1),
        last_day=date(2026, 1, 31),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MonthFiles:
    return _written(tmp_path_factory.mktemp("month") / "files")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)


def test_the_same_seed_writes_the_same_bytes(files: MonthFiles, tmp_path: Path) -> None:
    again, other = _written(tmp_path / "again"), _written(tmp_path / "other", seed=8)
    for name in FILES:
        first: Path = getattr(files, name)
        assert getattr(again, name).read_bytes() == first.read_bytes()
    assert other.movements.read_bytes() != files.movements.read_bytes()


def test_every_document_adds_up_but_for_the_rounding_of_its_vat(files: MonthFiles) -> None:
    lines: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in _rows(files.documents):
        lines[row["doc_no"]].append(row)
    assert len(lines) == files.lines["documents"]
    types = {rows[0]["type"] for rows in lines.values()}
    assert types >= {"opening", "sale", "sale_return", "purchase", "purchase_return"}
    assert types >= {"transfer", "cash_in", "cash_out", "manual"}
    for rows in lines.values():
        if rows[0]["total"]:
            net = sum(int(row["net"]) for row in rows)
            vat = sum(int(row["vat"] or 0) for row in rows)
            assert int(rows[0]["total"]) == net + int(rows[0]["vat_total"])
            assert abs(int(rows[0]["vat_total"]) - vat) <= len(rows)
        elif rows[0]["type"] in {"opening", "manual"}:
            sides = dict.fromkeys(("debit", "credit"), 0)
            for row in rows:
                sides[row["side"]] += int(row["net"])
            assert sides["debit"] == sides["credit"]


def test_what_documents_say_of_goods_is_what_movements_say(files: MonthFiles) -> None:
    stated = {
        (row["doc_no"], row["line_no"]): (row["item"], row["qty"], row["net"])
        for row in _rows(files.documents)
        if row["type"] in {"purchase", "purchase_return", "sale", "sale_return", "transfer"}
    }
    met = set()
    for row in _rows(files.movements):
        key = (row["doc_id"], row["doc_line"])
        if row["kind"] in {"adjust_in", "adjust_out", "count"}:
            assert key not in stated
            continue
        item, quantity, net = stated[key]
        met.add(key)
        assert item == row["item"]
        assert Decimal(quantity or "0") == Decimal(row["quantity"])
        if row["kind"] in {"receipt", "landed_cost"}:
            assert net == row["value"]
    assert met == set(stated)

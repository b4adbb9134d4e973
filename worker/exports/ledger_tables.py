"""The reports on the ledger as tables: trial balance, general ledger, journal.

Heads are English, with the words of a Vietnamese ledger. Amounts are in the company's currency.
"""

from collections.abc import Iterator, Mapping, Sequence

from shared.costs.shown import scaled
from worker.exports.cells import Cell, Column, Number
from worker.exports.tables import DbRow, Table

SIDES = ("debit", "credit")
ACCOUNT = [Column("Account (Tài khoản)", 10), Column("Name (Tên tài khoản)", 40)]


def _amounts(row: DbRow, names: Sequence[str], minor_digits: int) -> Iterator[Cell]:
    for name in names:
        yield Number(scaled(int(row[name]), minor_digits))


def _trial_balance(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from (row["account"], row["name_vi"] or row["name"])
    yield from _amounts(row, BALANCE_NAMES, minor_digits)


BALANCE_NAMES = (
    "opening_debit",
    "opening_credit",
    "debit",
    "credit",
    "closing_debit",
    "closing_credit",
)
TRIAL_BALANCE = Table(
    title="Trial balance",
    columns=[
        *ACCOUNT,
        Column("Opening debit (Dư nợ đầu kỳ)"),
        Column("Opening credit (Dư có đầu kỳ)"),
        Column("Debit (Phát sinh nợ)"),
        Column("Credit (Phát sinh có)"),
        Column("Closing debit (Dư nợ cuối kỳ)"),
        Column("Closing credit (Dư có cuối kỳ)"),
    ],
    names=("account", "name", "name_vi", *BALANCE_NAMES),
    _cells=_trial_balance,
)
DOCUMENT = [
    Column("Date (Ngày ghi sổ)", 11),
    Column("Series (Sổ)", 8),
    Column("Number (Số bút toán)", 10),
    Column("Type (Loại chứng từ)"),
    Column("Document (Chứng từ)", 18),
    Column("Description (Diễn giải)", 40),
]
DIMENSIONS = [
    Column("Party (Đối tượng)"),
    Column("Store (Kho)", 10),
    Column("Item (Mã hàng)", 16),
    Column("Brand (Thương hiệu)", 10),
]
DOCUMENT_NAMES = ("posting_date", "series", "entry_no", "type", "doc_no", "memo")
DIMENSION_NAMES = ("party", "store", "item", "brand")


def _document(row: DbRow) -> Iterator[Cell]:
    yield row["posting_date"].isoformat()
    yield row["series"]
    yield None if row["entry_no"] is None else Number(row["entry_no"])
    yield from (row["type"], row["doc_no"], row["memo"])


def _general_ledger(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from _document(row)
    yield from (row["account"], ", ".join(row["contra"]))
    yield from _amounts(row, (*SIDES, "balance"), minor_digits)
    yield from (row[name] for name in DIMENSION_NAMES)


GENERAL_LEDGER = Table(
    title="General ledger",
    columns=[
        *DOCUMENT,
        ACCOUNT[0],
        Column("Contra account (TK đối ứng)", 12),
        Column("Debit (Nợ)"),
        Column("Credit (Có)"),
        Column("Balance (Số dư)"),
        *DIMENSIONS,
    ],
    names=(*DOCUMENT_NAMES, "account", "contra", *SIDES, "balance", *DIMENSION_NAMES),
    _cells=_general_ledger,
)


def _journal(row: DbRow, minor_digits: int, _digits: int) -> Iterator[Cell]:
    yield from _document(row)
    yield from (row["account"], row["name_vi"] or row["name"])
    yield from _amounts(row, SIDES, minor_digits)
    yield from (row[name] for name in DIMENSION_NAMES)


JOURNAL = Table(
    title="Journal",
    columns=[
        *DOCUMENT,
        *ACCOUNT,
        Column("Debit (Nợ)"),
        Column("Credit (Có)"),
        *DIMENSIONS,
    ],
    names=(*DOCUMENT_NAMES, "account", "name", "name_vi", *SIDES, *DIMENSION_NAMES),
    _cells=_journal,
)
LEDGER_TABLES: Mapping[str, Table] = {
    "trial_balance": TRIAL_BALANCE,
    "general_ledger": GENERAL_LEDGER,
    "journal": JOURNAL,
}

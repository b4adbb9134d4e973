"""The ledger as it looks from outside: money as decimal strings, days as dates."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from api.bodies import job_url, show_instant
from shared.costs.shown import scaled
from shared.ledger.chart import Kind
from shared.ledger.entries import Link
from shared.ledger.reports import BALANCES, totals_of
from shared.ledger.rules import DocumentType

Side = Literal["debit", "credit"]
ENTRIES = "/v1/ledger/entries"
Row = RowMapping | Mapping[str, Any]


class AccountView(BaseModel):
    """An account: what each of its lines must name, and the days on which it takes any."""

    code: str
    name: str
    name_vi: str | None
    kind: Kind
    postable: bool = Field(description="false: accounts below it take its entries")
    needs_party: bool
    needs_store: bool
    needs_item: bool
    is_stock: bool = Field(description="its balance is what costing says the goods are worth")
    active_from: str | None
    active_to: str | None


class RoleView(BaseModel):
    """Which account plays a role in posting rules and cost entries."""

    role: str
    account: str
    initial: str = Field(description="where the company has named none")
    own: bool
    name: str | None = Field(description="null: the company's chart has no such account")


class RuleLineView(BaseModel):
    """What a line of an entry is made of."""

    per: Literal["document", "line"]
    amount: Literal["gross", "net", "vat", "stated"]
    side: Side | None = Field(description="null: that of the document's line")
    role: str | None
    own_account: bool = Field(description="the document's or its line's account goes first")
    store: Literal["store", "to_store"]


class RuleView(BaseModel):
    """A version of a type's rule. `shared`: it stands behind the company's own."""

    type: DocumentType
    version: int
    valid_from: str
    series: str
    rest: Literal["largest_line", "account"]
    memo: str | None
    shared: bool
    lines: list[RuleLineView]


class EntrySummary(BaseModel):
    """An entry; `amount` is the sum of its debits, of brands that the account may see."""

    id: int
    company: str
    series: str
    fiscal_year: int
    entry_no: int = Field(description="without a gap within series and fiscal year")
    posting_date: str
    role: Literal["main", "cost", "adjust"]
    kind: Literal["normal", "reversal"]
    brand: str | None
    document_id: int
    document_version: int
    type: str
    doc_no: str
    memo: str | None
    amount: str
    lines: int
    rule_version: int
    reverses: int | None = Field(description="the entry that it takes back")
    reversed_by: int | None = Field(description="the entry that has taken it back")
    hash: str
    job_id: str
    status_url: str = Field(description="of the job that has posted it")
    created_at: str
    links: dict[str, str]


class LineView(BaseModel):
    """A line of an entry: debit or credit."""

    line_no: int
    account: str
    name: str
    debit: str
    credit: str
    party: str | None
    store: str | None
    item: str | None
    qty: str | None = Field(description="in the item's base unit")
    unit: str | None
    brand: str | None
    currency: str | None
    fc_amount: str | None = Field(description="in that currency")
    memo: str | None


class EntryView(EntrySummary):
    """An entry with those of its lines that the account may see."""

    entry_lines: list[LineView]


class LinkView(BaseModel):
    """A number of the chain: `broken` says what is wrong with it."""

    entry_no: int
    entry_id: int | None
    hash: str
    broken: Literal["GAP", "CONTENT", "LINK", "HEAD"] | None


class ChainView(BaseModel):
    """Some numbers of a series in order, each proven anew from its rows."""

    company: str
    series: str
    fiscal_year: int
    last_no: int
    ok: bool = Field(description="nothing of this page is broken")
    links_checked: list[LinkView]
    next_from: int | None = Field(description="`first` of the next page; null: the chain ends here")


class BalanceView(BaseModel):
    """An account over the days asked for."""

    account: str
    name: str | None
    name_vi: str | None
    kind: Kind | None
    opening_debit: str
    opening_credit: str
    debit: str
    credit: str
    closing_debit: str
    closing_credit: str


class TotalsView(BaseModel):
    """The sums of all accounts."""

    opening_debit: str
    opening_credit: str
    debit: str
    credit: str
    closing_debit: str
    closing_credit: str


class TrialBalanceView(BaseModel):
    """Trial balance (bảng cân đối số phát sinh). `balanced`: debits are credits in each pair.

    The books of a whole company always are; of some brands alone they need not be.
    """

    company: str
    date_from: str
    date_to: str
    balanced: bool
    totals: TotalsView
    accounts: list[BalanceView]


class MovedLine(BaseModel):
    """A line with the document it comes from."""

    date: str
    entry_id: int
    entry_no: int
    series: str
    kind: Literal["normal", "reversal"]
    document_id: int
    type: str
    doc_no: str
    line_no: int
    account: str
    debit: str
    credit: str
    party: str | None
    store: str | None
    item: str | None
    brand: str | None
    memo: str | None


class LedgerLine(MovedLine):
    """A line of an account, with the balance after it and the accounts on the other side."""

    contra: list[str]
    balance: str = Field(description="debits less credits")


class GeneralLedgerView(BaseModel):
    """General ledger (sổ cái) of an account, and those below it, page by page."""

    company: str
    account: str
    date_from: str
    date_to: str
    opening: str = Field(description="debits less credits before the first day")
    debit: str
    credit: str
    closing: str
    lines: list[LedgerLine]
    next_cursor: str | None


class JournalView(BaseModel):
    """Journal (nhật ký chung), page by page."""

    company: str
    date_from: str
    date_to: str
    lines: list[MovedLine]
    next_cursor: str | None


def account_view(row: RowMapping) -> dict[str, Any]:
    """What AccountView describes."""
    days = {name: _day(row[name]) for name in ("active_from", "active_to")}
    return dict(row) | days


def _day(day: Any) -> str | None:
    return None if day is None else day.isoformat()


def rule_view(row: RowMapping) -> dict[str, Any]:
    """What RuleView describes."""
    own = {name: row[name] for name in ("version", "series", "rest", "memo")}
    return own | {
        "type": row["doc_type"],
        "valid_from": row["valid_from"].isoformat(),
        "shared": row["company"] == "*",
        "lines": row["lines"] or [],
    }


SAME = (
    "id",
    "company",
    "series",
    "fiscal_year",
    "entry_no",
    "role",
    "kind",
    "brand",
    "document_id",
    "document_version",
    "type",
    "doc_no",
    "memo",
    "lines",
    "rule_version",
    "reversed_by",
)


def entry_summary(row: RowMapping) -> dict[str, Any]:
    """What EntrySummary describes."""
    url = f"{ENTRIES}/{row['id']}"
    return {name: row[name] for name in SAME} | {
        "posting_date": row["posting_date"].isoformat(),
        "amount": scaled(row["amount"], row["minor_digits"]),
        "reverses": row["reverses_entry_id"],
        "hash": row["hash"].hex(),
        "job_id": str(row["job_id"]),
        "status_url": job_url(row["job_id"]),
        "created_at": show_instant(row["created_at"]),
        "links": {"self": url, "chain": f"{url}/chain"},
    }


def entry_view(row: RowMapping, lines: Sequence[RowMapping]) -> dict[str, Any]:
    """What EntryView describes."""
    shown = [_line_view(line, row["minor_digits"]) for line in lines]
    return entry_summary(row) | {"entry_lines": shown}


def _line_view(row: RowMapping, digits: int) -> dict[str, Any]:
    names = ("line_no", "account", "name", "party", "store", "item", "brand", "currency", "memo")
    qty, foreign = row["qty_base"], row["fc_amount"]
    return {name: row[name] for name in names} | {
        "debit": scaled(row["debit"], digits),
        "credit": scaled(row["credit"], digits),
        "qty": None if qty is None else scaled(qty, row["qty_scale"] or 0),
        "unit": row["base_uom"],
        "fc_amount": None if foreign is None else format(foreign, "f"),
    }


def chain_view(row: RowMapping, links: Sequence[Link], last_no: int) -> dict[str, Any]:
    """What ChainView describes."""
    end = links[-1].entry_no if links else last_no
    shown = [
        {
            "entry_no": link.entry_no,
            "entry_id": link.entry_id,
            "hash": link.hash.hex(),
            "broken": link.broken,
        }
        for link in links
    ]
    return {name: row[name] for name in ("company", "series", "fiscal_year")} | {
        "last_no": last_no,
        "ok": all(link.broken is None for link in links),
        "links_checked": shown,
        "next_from": end + 1 if end < last_no else None,
    }


def balances(row: Row, digits: int) -> dict[str, str]:
    """The six amounts of a trial balance."""
    return {name: scaled(int(row[name]), digits) for name in BALANCES}


def trial_balance_view(rows: Sequence[RowMapping], digits: int) -> dict[str, Any]:
    """The members of TrialBalanceView that come from its rows."""
    sums = totals_of(rows)
    pairs = list(zip(BALANCES[::2], BALANCES[1::2], strict=True))
    named = ("account", "name", "name_vi", "kind")
    return {
        "balanced": all(sums[one] == sums[other] for one, other in pairs),
        "totals": balances(sums, digits),
        "accounts": [{name: row[name] for name in named} | balances(row, digits) for row in rows],
    }


MOVED = (
    "entry_id",
    "entry_no",
    "series",
    "kind",
    "document_id",
    "type",
    "doc_no",
    "line_no",
    "account",
    "party",
    "store",
    "item",
    "brand",
    "memo",
)


def moved_line(row: RowMapping, digits: int) -> dict[str, Any]:
    """What MovedLine describes."""
    return {name: row[name] for name in MOVED} | {
        "date": row["posting_date"].isoformat(),
        "debit": scaled(row["debit"], digits),
        "credit": scaled(row["credit"], digits),
    }


def ledger_lines(
    rows: Sequence[RowMapping], balance: int, digits: int
) -> tuple[list[dict[str, Any]], int]:
    """What LedgerLine describes, from that balance on; and the balance after the last of them."""
    shown = []
    for row in rows:
        balance += row["debit"] - row["credit"]
        told = {"contra": list(row["contra"]), "balance": scaled(balance, digits)}
        shown.append(moved_line(row, digits) | told)
    return shown, balance

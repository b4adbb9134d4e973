"""Posting rules (định khoản): which lines a document of a type yields. Versions, never changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Literal

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, note
from shared.json_text import to_json
from shared.ledger.chart import ChartRefused

DocumentType = Literal[
    "sale",
    "sale_return",
    "purchase",
    "purchase_return",
    "transfer",
    "cash_in",
    "cash_out",
    "manual",
    "opening",
    "cost",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLine:
    """What one line of an entry is made of; `stated`: side and account are the document line's.

    `own_account`: the document's account, or its line's, goes before the role's.
    """

    per: Literal["document", "line"]
    amount: Literal["gross", "net", "vat", "stated"]
    side: Literal["debit", "credit"] | None = None
    role: str | None = None
    own_account: bool = False
    store: Literal["store", "to_store"] = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """The next version of a type's rule, from a day on."""

    company: str
    doc_type: DocumentType
    valid_from: date
    lines: Sequence[RuleLine]
    series: str = "NKC"
    rest: Literal["largest_line", "account"] = "largest_line"
    memo: str | None = None


LIST_RULES = text("""
    SELECT r.company, r.doc_type, r.version, r.valid_from, r.series, r.rest, r.memo,
           (SELECT jsonb_agg(jsonb_build_object(
                       'per', l.per, 'side', l.side, 'role', l.role, 'own_account', l.own_account,
                       'amount', l.amount, 'store', l.store) ORDER BY l.line_no)
              FROM books.posting_rule_lines l
             WHERE l.company = r.company AND l.doc_type = r.doc_type AND l.version = r.version)
           AS lines
      FROM books.posting_rules r
     WHERE r.company IN (:company, '*')
       AND (CAST(:doc_type AS text) IS NULL OR r.doc_type = CAST(:doc_type AS text))
     ORDER BY r.doc_type, r.company = '*', r.version DESC""")


async def list_rules(
    conn: AsyncConnection, company: str, doc_type: str | None = None
) -> Sequence[RowMapping]:
    """The company's rules, newest version first, then those of company `*` that stand behind."""
    binds = {"company": company, "doc_type": doc_type}
    return (await conn.execute(LIST_RULES, binds)).mappings().all()


TAKE_TURN = text("""
    SELECT pg_advisory_xact_lock(hashtextextended('books.rules/' || :company || '/' || :doc_type,
                                                  0))""")
NEWEST = text("""
    SELECT coalesce(max(version), 0) AS version, max(valid_from) AS valid_from
      FROM books.posting_rules WHERE company = :company AND doc_type = :doc_type""")
ADD_RULE = text("""
    INSERT INTO books.posting_rules (company, doc_type, version, valid_from, series, rest, memo)
    VALUES (:company, :doc_type, :version, :valid_from, :series, :rest, :memo)""")
ADD_LINES = text("""
    INSERT INTO books.posting_rule_lines (company, doc_type, version, line_no, per, side, role,
                                          own_account, amount, store)
    SELECT :company, :doc_type, :version, l.line_no, l.per, l.side, l.role, l.own_account,
           l.amount, l.store
      FROM jsonb_to_recordset(CAST(:lines AS jsonb)) AS l (line_no integer, per text, side text,
           role text, own_account boolean, amount text, store text)""")
ROLES = text("SELECT role FROM books.role_defaults")


async def add_rule(conn: AsyncConnection, rule: NewRule) -> int:
    """Store it as the next version, which it answers. Documents posted before keep theirs.

    ChartRefused RULE_UNBALANCED, ROLE_UNKNOWN, RULE_OLDER (it would be valid from an earlier day
    than the version before it).
    """
    refuse_unbalanced(rule.lines)
    known = {row.role for row in await conn.execute(ROLES)}
    for number, line in enumerate(rule.lines):
        if line.role is not None and line.role not in known:
            said = f"must be one of {', '.join(sorted(known))}"
            raise ChartRefused(said, field=f"lines[{number}].role", code="ROLE_UNKNOWN")
    place = {"company": rule.company, "doc_type": rule.doc_type}
    await conn.execute(TAKE_TURN, place)
    newest = (await conn.execute(NEWEST, place)).one()
    if newest.valid_from is not None and newest.valid_from > rule.valid_from:
        said = f"must not be before {newest.valid_from}, from which version {newest.version} holds"
        raise ChartRefused(said, field="valid_from", code="RULE_OLDER")
    facts = {name: value for name, value in asdict(rule).items() if name != "lines"}
    binds = facts | {"version": newest.version + 1}
    await conn.execute(ADD_RULE, binds)
    lines = [asdict(line) | {"line_no": number} for number, line in enumerate(rule.lines, 1)]
    key = {name: binds[name] for name in ("company", "doc_type", "version")}
    await conn.execute(ADD_LINES, key | {"lines": to_json(lines)})
    told = {"version": binds["version"], "valid_from": rule.valid_from.isoformat()}
    target = f"rule {rule.doc_type}"
    await note(conn, Action.LEDGER_CHART, target=target, company=rule.company, facts=told)
    return int(binds["version"])


def refuse_unbalanced(lines: Sequence[RuleLine]) -> None:
    """ChartRefused RULE_UNBALANCED unless debits are credits whatever the amounts of a document.

    Gross is net and VAT, and what is once each line adds up to what is once a document. Stated
    lines bring sides of their own, which posting holds to each other.
    """
    sums: Counter[str] = Counter()
    for line in lines:
        sign = {"debit": 1, "credit": -1, None: 0}[line.side]
        parts: dict[str, Any] = {"gross": ("net", "vat"), "stated": ()}
        for part in parts.get(line.amount, (line.amount,)):
            sums[part] += sign
    beyond = [f"{part} {count:+d}" for part, count in sorted(sums.items()) if count]
    if beyond or not lines:
        said = f"must debit what they credit: {', '.join(beyond) or 'there are none'}"
        raise ChartRefused(said, field="lines", code="RULE_UNBALANCED")

"""Charts of accounts and account roles: data of each company, changed by an act that is audited."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Literal

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, note
from shared.errors import PlatformError

Kind = Literal["asset", "liability", "equity", "revenue", "expense", "result"]


class ChartRefused(PlatformError):
    """What a chart does not take, by its code and the field that is wrong. Nothing was written."""

    def __init__(self, message: str, *, field: str, code: str) -> None:
        super().__init__(message)
        self.field, self.code = field, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account. What it `needs` must stand in each of its lines; a parent is not `postable`.

    `is_stock`: its balance is, item by item and pool by pool, what costing says goods are worth.
    """

    code: str
    name: str
    kind: Kind
    name_vi: str | None = None
    postable: bool = True
    needs_party: bool = False
    needs_store: bool = False
    needs_item: bool = False
    is_stock: bool = False
    active_from: date | None = None
    active_to: date | None = None


TEMPLATES = text("""
    SELECT template, count(*) AS accounts FROM books.chart_templates GROUP BY 1 ORDER BY 1""")
ADOPT = text("SELECT books.adopt_chart(:company, :template)")


async def adopt(conn: AsyncConnection, company: str, template: str) -> int:
    """Copy a template's accounts to the company; how many it had not had. What it has stays.

    ChartRefused TEMPLATE_UNKNOWN. The company is one that is there.
    """
    names = [row.template for row in await conn.execute(TEMPLATES)]
    if template not in names:
        rule = f"must be one of {', '.join(names)}"
        raise ChartRefused(rule, field="template", code="TEMPLATE_UNKNOWN")
    binds = {"company": company, "template": template}
    added = int((await conn.execute(ADOPT, binds)).scalar_one())
    if added:
        facts = {"template": template, "added": added}
        await note(conn, Action.LEDGER_CHART, target=template, company=company, facts=facts)
    return added


LIST_ACCOUNTS = text("""
    SELECT code, name, name_vi, kind, postable, needs_party, needs_store, needs_item, is_stock,
           active_from, active_to
      FROM books.gl_accounts
     WHERE company = :company AND code > :after AND starts_with(code, :below)
     ORDER BY code LIMIT :most""")


async def list_accounts(
    conn: AsyncConnection, company: str, *, below: str = "", after: str = "", limit: int
) -> Sequence[RowMapping]:
    """Accounts of the company by code; `below` those that begin so."""
    binds = {"company": company, "after": after, "below": below, "most": limit}
    return (await conn.execute(LIST_ACCOUNTS, binds)).mappings().all()


READ_ACCOUNT = text("""
    SELECT code, name, name_vi, kind, postable, needs_party, needs_store, needs_item, is_stock,
           active_from, active_to
      FROM books.gl_accounts WHERE company = :company AND code = :code FOR NO KEY UPDATE""")
ADD_ACCOUNT = text("""
    INSERT INTO books.gl_accounts (company, code, name, name_vi, kind, postable, needs_party,
           needs_store, needs_item, is_stock, active_from, active_to)
    VALUES (:company, :code, :name, :name_vi, :kind, :postable, :needs_party, :needs_store,
            :needs_item, :is_stock, :active_from, :active_to)
    ON CONFLICT DO NOTHING""")
CHANGE_ACCOUNT = text("""
    UPDATE books.gl_accounts
       SET name = :name, name_vi = :name_vi, postable = :postable, needs_party = :needs_party,
           needs_store = :needs_store, needs_item = :needs_item, is_stock = :is_stock,
           active_from = :active_from, active_to = :active_to
     WHERE company = :company AND code = :code AND kind = :kind""")


async def put_account(conn: AsyncConnection, company: str, account: Account) -> str:
    """Add the account or make it what is said: "added", "changed", or "unchanged".

    What an account is of never changes: ChartRefused ACCOUNT_KIND.
    """
    binds = {"company": company, **asdict(account)}
    if (await conn.execute(ADD_ACCOUNT, binds)).rowcount:
        await _note(conn, company, account.code, {"added": account.kind})
        return "added"
    place = {"company": company, "code": account.code}
    before = dict((await conn.execute(READ_ACCOUNT, place)).mappings().one())
    if before["kind"] != account.kind:
        rule = (
            f"is {before['kind']} and stays so; entries are of it. Add an account of another code"
        )
        raise ChartRefused(rule, field="kind", code="ACCOUNT_KIND")
    wanted = asdict(account)
    changed = [name for name in wanted if wanted[name] != before[name]]
    if not changed:
        return "unchanged"
    await conn.execute(CHANGE_ACCOUNT, binds)
    facts = {name: [_said(before[name]), _said(wanted[name])] for name in changed}
    await _note(conn, company, account.code, facts)
    return "changed"


def _said(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


async def _note(conn: AsyncConnection, company: str, target: str, facts: dict[str, Any]) -> None:
    await note(conn, Action.LEDGER_CHART, target=target, company=company, facts=facts)


LIST_ROLES = text("""
    SELECT d.role, coalesce(r.account, d.account) AS account, d.account AS initial,
           r.account IS NOT NULL AS own, a.name, a.name_vi
      FROM books.role_defaults d
      LEFT JOIN books.account_roles r ON r.company = :company AND r.role = d.role
      LEFT JOIN books.gl_accounts a
        ON a.company = :company AND a.code = coalesce(r.account, d.account)
     ORDER BY d.role""")


async def list_roles(conn: AsyncConnection, company: str) -> Sequence[RowMapping]:
    """Which account plays which role; `own` where the company has named one of its own."""
    return (await conn.execute(LIST_ROLES, {"company": company})).mappings().all()


ROLE_IS_KNOWN = text("SELECT EXISTS (SELECT FROM books.role_defaults WHERE role = :role)")
ROLE_ACCOUNT = text("SELECT books.role_account(:company, :role)")
POSTABLE = text("""
    SELECT postable FROM books.gl_accounts WHERE company = :company AND code = :account""")
SET_ROLE = text("""
    INSERT INTO books.account_roles (company, role, account) VALUES (:company, :role, :account)
    ON CONFLICT (company, role) DO UPDATE SET account = excluded.account""")


async def set_role(conn: AsyncConnection, company: str, role: str, account: str) -> str:
    """Let the account play the role from now on; the account that did before.

    ChartRefused ROLE_UNKNOWN, ACCOUNT_UNKNOWN, ACCOUNT_NOT_POSTABLE.
    """
    if not await conn.scalar(ROLE_IS_KNOWN, {"role": role}):
        rule = "must be a role: GET /v1/ledger/roles lists them"
        raise ChartRefused(rule, field="role", code="ROLE_UNKNOWN")
    binds = {"company": company, "role": role, "account": account}
    postable = await conn.scalar(POSTABLE, {"company": company, "account": account})
    if not postable:
        code = "ACCOUNT_UNKNOWN" if postable is None else "ACCOUNT_NOT_POSTABLE"
        rule = f"must be an account of {company} that takes entries"
        raise ChartRefused(rule, field="account", code=code)
    former = str(await conn.scalar(ROLE_ACCOUNT, {"company": company, "role": role}))
    await conn.execute(SET_ROLE, binds)
    if former != account:
        await _note(conn, company, role, {"account": [former, account]})
    return former

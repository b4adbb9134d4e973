"""Task `accounts.remap`: from one chart of accounts to another, without touching what is posted.

First, at once: the new accounts, the roles, and drafts of manual documents that move the balances.
Then, batch by batch, the drafts that name an old account. A posted line stays what it is for ever;
the drafts that move balances are posted like any document, after somebody has looked at them.
"""

from collections.abc import Iterator
from datetime import date
from itertools import count
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError
from shared.json_text import to_json
from shared.migrations.books import REMAP_ACCOUNTS, RemapAccountsParams
from worker.migrations.task import Applied, Batch, Check, Preparation, Run, Source, Task

# A document has at most 10,000 lines; each balance takes two.
BALANCES_A_DOCUMENT = 2_000

UNKNOWN = text("""
    SELECT o.code FROM unnest(CAST(:old AS text[])) AS o (code)
     WHERE NOT EXISTS (SELECT FROM books.gl_accounts a
                        WHERE a.company = :company AND a.code = o.code)
     ORDER BY o.code LIMIT 20""")
_MAP = "jsonb_each_text(CAST(:map AS jsonb)) AS m (old, new)"
# Of the template where that has it, else what the old one was.
ADD_ACCOUNTS = text(f"""
    INSERT INTO books.gl_accounts (company, code, name, name_vi, kind, postable, needs_party,
                                   needs_store, needs_item, is_stock, active_from)
    SELECT DISTINCT ON (m.new) a.company, m.new, coalesce(t.name, a.name),
           coalesce(t.name_vi, a.name_vi), coalesce(t.kind, a.kind),
           coalesce(t.postable, a.postable), coalesce(t.needs_party, a.needs_party),
           coalesce(t.needs_store, a.needs_store), coalesce(t.needs_item, a.needs_item),
           coalesce(t.is_stock, a.is_stock), a.active_from
      FROM {_MAP}
      JOIN books.gl_accounts a ON a.company = :company AND a.code = m.old
      LEFT JOIN books.chart_templates t ON t.template = :template AND t.code = m.new
     ORDER BY m.new, m.old
    ON CONFLICT DO NOTHING""")
CLOSE_ACCOUNTS = text("""
    UPDATE books.gl_accounts SET active_to = :as_of
     WHERE company = :company AND code = ANY(CAST(:old AS text[]))
       AND (active_to IS NULL OR active_to > :as_of)
       AND (active_from IS NULL OR active_from <= :as_of)""")
# Roles that stand for an old account by default get a row of their own.
SET_ROLES = text(f"""
    INSERT INTO books.account_roles (company, role, account)
    SELECT :company, d.role, m.new
      FROM books.role_defaults d
      LEFT JOIN books.account_roles r ON r.company = :company AND r.role = d.role
      JOIN {_MAP} ON m.old = coalesce(r.account, d.account)
     ORDER BY d.role
    ON CONFLICT (company, role) DO UPDATE SET account = excluded.account""")
# What a draft of an earlier run is to move is moved, once somebody posts it: never by two drafts.
BALANCES = text(f"""
    WITH held AS (
        SELECT l.account, l.store, l.item, l.party, l.debit - l.credit AS amount
          FROM books.gl_lines l
         WHERE l.company = :company AND l.account = ANY(CAST(:old AS text[]))
           AND l.posting_date <= :as_of
        UNION ALL
        SELECT l.account, l.store, l.item, l.party,
               CASE l.side WHEN 'debit' THEN l.net ELSE -l.net END
          FROM books.documents d
          JOIN books.document_lines l ON l.document_id = d.id
         WHERE d.company = :company AND d.status = 'draft' AND d.source = 'remap'
           AND d.posting_date <= :as_of AND l.account = ANY(CAST(:old AS text[])))
    SELECT m.old, m.new, h.store, h.item, h.party,
           trim_scale(sum(h.amount) / power(10::numeric, c.minor_digits)) AS balance
      FROM {_MAP}
      JOIN held h ON h.account = m.old
      JOIN books.companies c ON c.code = :company
     GROUP BY m.old, m.new, h.store, h.item, h.party, c.minor_digits
    HAVING sum(h.amount) <> 0
     ORDER BY m.old, h.store NULLS FIRST, h.item NULLS FIRST, h.party NULLS FIRST""")
# A number is given once: a draft of another run, posted or not, keeps its own.
NUMBERS = text("""
    SELECT d.doc_no FROM books.documents d
     WHERE d.company = :company AND d.type = 'manual' AND starts_with(d.doc_no, :prefix)""")
PUT = text("""
    SELECT outcome, code, detail
      FROM books.put_documents(:company, CAST(:documents AS jsonb), :principal, 'remap')""")
# An update of lines would need a right that nobody has: they are taken out and put back. One
# statement, since a draft whose lines are new is no row of the source any more.
REMAP = """
    WITH drafts AS MATERIALIZED (
        SELECT d.id FROM books.documents d
         WHERE d.id IN (SELECT r.id FROM {source} WHERE {where}) AND d.status = 'draft'
         ORDER BY d.id FOR NO KEY UPDATE),
    taken AS (
        DELETE FROM books.document_lines l USING drafts
         WHERE l.document_id = drafts.id AND l.account = ANY(CAST(:old AS text[]))
        RETURNING l.*),
    put_back AS (
        INSERT INTO books.document_lines (document_id, qty_base, net, vat, line_no, item, uom,
               qty_doc, vat_rate, fc_net, fc_vat, side, account, store, party, lot_id, ref_line,
               memo, role)
        SELECT t.document_id, t.qty_base, t.net, t.vat, t.line_no, t.item, t.uom, t.qty_doc,
               t.vat_rate, t.fc_net, t.fc_vat, t.side, CAST(:map AS jsonb) ->> t.account, t.store,
               t.party, t.lot_id, t.ref_line, t.memo, t.role
          FROM taken t)
    UPDATE books.documents d
       SET account = coalesce(CAST(:map AS jsonb) ->> d.account, d.account),
           version = d.version + 1, updated_at = clock_timestamp(),
           content_hash = sha256(d.content_hash || convert_to(CAST(:map AS text), 'UTF8'))
      FROM drafts WHERE d.id = drafts.id"""
_USES = """(r.account = ANY(CAST(:old AS text[])) OR EXISTS (
            SELECT FROM books.document_lines l
             WHERE l.document_id = r.id AND l.account = ANY(CAST(:old AS text[]))))"""
_DRAFTS = f"r.status = 'draft' AND r.source <> 'remap' AND {_USES}"
USES = text(f"""
    SELECT (SELECT count(*) FROM books.documents r
             WHERE r.company = :company AND {_DRAFTS}) AS drafts,
           (SELECT count(*) FROM books.role_defaults d
              LEFT JOIN books.account_roles a ON a.company = :company AND a.role = d.role
             WHERE coalesce(a.account, d.account) = ANY(CAST(:old AS text[]))) AS roles,
           (SELECT count(*) FROM books.gl_lines l
             WHERE l.company = :company AND l.account = ANY(CAST(:old AS text[]))) AS posted_lines,
           (SELECT count(*) FROM books.gl_accounts a
             WHERE a.company = :company AND a.code = ANY(CAST(:new AS text[]))) AS new_accounts""")


class RemapAccounts(Task):
    """A draft that names an old account is a row."""

    spec = REMAP_ACCOUNTS
    writes = ("books.document_lines",)
    largest_batch = 5_000

    def source(self, run: Run) -> Source:
        """Drafts that name one, on their head or on a line; but those that move the balances."""
        return Source(
            table="books.documents",
            key=("id",),
            fixed={"company": run.company},
            where=_DRAFTS,
            binds={"old": sorted(_params(run).accounts)},
        )

    async def prepare(self, preparation: Preparation) -> None:
        """New accounts, roles and the drafts that move the balances, in one transaction."""
        run, params = preparation.run, _params(preparation.run)
        async with preparation.context.read() as conn:
            unknown = (await conn.execute(UNKNOWN, _binds(run))).scalars().all()
        if unknown:
            raise PermanentError(
                f"ACCOUNT_UNKNOWN: accounts: {', '.join(unknown)}: the chart of company "
                f"{run.company} has no such account to remap",
                code="ACCOUNT_UNKNOWN",
            )
        if run.dry_run or run.state is not None:
            return
        async with preparation.transaction() as tx:
            await tx.connection.execute(ADD_ACCOUNTS, _binds(run) | {"template": params.template})
            roles = await tx.connection.execute(SET_ROLES, _binds(run))
            documents = await self._reclassify(tx.connection, run) if params.reclassify else []
            if params.close:
                await tx.connection.execute(CLOSE_ACCOUNTS, _binds(run))
            await preparation.save(tx, {"roles": roles.rowcount, "documents": documents})

    async def _reclassify(self, conn: AsyncConnection, run: Run) -> list[str]:
        """Put the drafts that move what the old accounts hold on that day; their numbers."""
        rows = (await conn.execute(BALANCES, _binds(run))).mappings().all()
        params = _params(run)
        numbers = await _free_numbers(conn, run, f"REMAP-{params.as_of}-")
        documents = [
            {
                "type": "manual",
                "doc_no": next(numbers),
                "doc_date": params.as_of,
                "memo": f"accounts.remap as of {params.as_of}",
                "lines": [
                    line
                    for row in rows[first : first + BALANCES_A_DOCUMENT]
                    for line in _moved(row)
                ],
            }
            for first in range(0, len(rows), BALANCES_A_DOCUMENT)
        ]
        if documents:
            binds = {
                "company": run.company,
                "documents": to_json(documents),
                "principal": run.principal,
            }
            for outcome in (await conn.execute(PUT, binds)).all():
                if outcome.outcome == "error":
                    raise PermanentError(
                        f"{outcome.code}: the drafts that move the balances: {outcome.detail}",
                        code=outcome.code,
                    )
        return [str(each["doc_no"]) for each in documents]

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """The next version of each draft, with the new accounts in it."""
        params = _params(batch.run)
        binds = {"old": sorted(params.accounts), "map": to_json(params.accounts)}
        done = await batch.execute(conn, REMAP, **binds)
        return Applied(counts={"drafts": done.rowcount})

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """What still names an old account: drafts and roles should not, posted lines always do."""
        facts = dict((await conn.execute(USES, _binds(run))).mappings().one())
        return Check(facts=facts)


async def _free_numbers(conn: AsyncConnection, run: Run, prefix: str) -> Iterator[str]:
    found = await conn.execute(NUMBERS, {"company": run.company, "prefix": prefix})
    taken = set(found.scalars())
    return (f"{prefix}{n}" for n in count(1) if f"{prefix}{n}" not in taken)


def _moved(row: Any) -> list[dict[str, str]]:
    """Two lines: out of the old account, into the new one, with the same dimensions."""
    amount = row["balance"]
    places = {name: row[name] for name in ("store", "item", "party") if row[name] is not None}
    sides = ("credit", "debit") if amount > 0 else ("debit", "credit")
    return [
        {"side": side, "account": row[which], "net": format(abs(amount), "f"), **places}
        for side, which in zip(sides, ("old", "new"), strict=True)
    ]


def _params(run: Run) -> RemapAccountsParams:
    assert isinstance(run.params, RemapAccountsParams), "the spec says so"
    return run.params


def _binds(run: Run) -> dict[str, Any]:
    params = _params(run)
    return {
        "company": run.company,
        "old": sorted(params.accounts),
        "new": sorted(params.accounts.values()),
        "map": to_json(params.accounts),
        "as_of": date.fromisoformat(params.as_of),
    }


MIGRATIONS = (RemapAccounts(),)

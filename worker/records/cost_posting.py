"""Cost documents into the ledger: what is out of date is taken back, what is new is posted.

A number is never given again: where a document of a run is made anew (a draft that it rests on has
changed, or its layout), a suffix tells the next one apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError, RetryableError
from worker.records.cost_plan import CostPeriod
from worker.records.posting import Poster, post_documents
from worker.records.posting_list import Listed, Outcome
from worker.records.reversals import standing_entries, take_back

# What a line of a role is, for whoever reads the ledger.
WORDS = {
    "stock": "Goods (Hàng tồn kho)",
    "cost_of_sales": "Cost of sales (Giá vốn hàng bán)",
    "variance": "Cost difference (Chênh lệch giá vốn)",
    "rounding": "Rounding of costs (Chênh lệch làm tròn giá vốn)",
    "true_up": "Settling of stock below zero (Điều chỉnh giá vốn xuất âm kho)",
    "usage": "Goods used or missing (Hàng xuất dùng, thiếu hụt)",
    "gain": "Goods found (Hàng thừa khi kiểm kê)",
    "production": "Production (Chi phí sản xuất)",
}
# Beyond so many documents a transaction gains nothing, however few lines they have.
MOST_DOCUMENTS = 500
# Of documents that cannot be posted so many are named.
MOST_NAMED = 5

NEXT = text("""
    SELECT w.seq, w.lines, w.old_document_id, w.digest IS NOT NULL AS new FROM books.cost_work w
     WHERE w.job_id = :job_id AND w.seq > :after ORDER BY w.seq LIMIT :most""")
LOCK_OLD = text("""
    SELECT d.id FROM books.documents d WHERE d.id = ANY (CAST(:ids AS bigint[]))
     ORDER BY d.id FOR NO KEY UPDATE""")
PASS_GATE = text("SELECT books.pass_gates(:company, ARRAY[CAST(:day AS date)])")
MAKE = text("""
    WITH numbered AS (
        SELECT w.seq, w.key, w.base, w.day, w.brand, w.run_id, w.digest,
               row_number() OVER (PARTITION BY w.base ORDER BY w.seq)
               + (SELECT count(*) FROM books.cost_documents c
                   WHERE c.company = :company AND c.base = w.base) AS n
          FROM books.cost_work w
         WHERE w.job_id = :job_id AND w.seq = ANY (CAST(:seqs AS integer[]))),
    made AS (
        INSERT INTO books.documents (company, brand, type, doc_no, doc_date, posting_date,
                                     cost_run_id, store, memo, source, principal, content_hash)
        SELECT :company, n.brand, 'cost', n.base || CASE WHEN n.n > 1 THEN '~' || n.n ELSE '' END,
               n.day, n.day, n.run_id, CASE WHEN n.key LIKE 'D-%' THEN substr(n.key, 6) END,
               left(CASE left(n.key, 1)
                   WHEN 'D' THEN format('Costs of %1$s, store %2$s (Giá vốn %1$s, cửa hàng %2$s)',
                                        n.day, substr(n.key, 6))
                   WHEN 'N' THEN format('Costs of %1$s, group %2$s (Giá vốn %1$s, nhóm hàng %2$s)',
                                        CAST(:period AS text),
                                        coalesce(nullif(substr(n.key, 3), ''), '–'))
                   WHEN 'S' THEN format('Costs of %1$s (Giá vốn chứng từ %1$s)',
                                        regexp_replace(n.key, '^S-..-[a-z_]+-', ''))
                   ELSE format('Costs of %1$s, the rest (Giá vốn %1$s, phần còn lại)',
                               CAST(:period AS text))
                   END, 500), 'costs', :principal, n.digest
          FROM numbered n ORDER BY n.seq
        RETURNING id, version, doc_no)
    SELECT n.seq, n.key, n.base, m.id, m.version, m.doc_no
      FROM numbered n
      JOIN made m ON m.doc_no = n.base || CASE WHEN n.n > 1 THEN '~' || n.n ELSE '' END
     ORDER BY m.id""")
LIST = text("""
    INSERT INTO books.cost_documents (document_id, company, period, key, base)
    SELECT m.id, :company, :period, m.key, m.base
      FROM unnest(CAST(:ids AS bigint[]), CAST(:keys AS text[]), CAST(:bases AS text[]))
           AS m (id, key, base)""")
STATE = text("""
    INSERT INTO books.document_lines (document_id, line_no, side, account, store, item, net, role,
                                      memo)
    SELECT m.id, l.line_no, CASE WHEN l.amount > 0 THEN 'debit' ELSE 'credit' END, l.account,
           l.store, l.item, abs(l.amount), l.role, coalesce(w.memo, l.role)
      FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS integer[])) AS m (id, seq)
     CROSS JOIN LATERAL (SELECT * FROM books.cost_work_lines l
                          WHERE l.job_id = :job_id AND l.seq = m.seq OFFSET 0) AS l
      LEFT JOIN unnest(CAST(:roles AS text[]), CAST(:words AS text[])) AS w (role, memo)
        ON w.role = l.role""")
# Between two places of one job: the key is used whatever is known of the table.
DROP_LINES = text("""
    DELETE FROM books.cost_work_lines w
     WHERE w.job_id = :job_id AND w.seq BETWEEN :first AND :last""")
DROP_WORK = text("""
    DELETE FROM books.cost_work w
     WHERE w.job_id = :job_id AND w.seq BETWEEN :first AND :last""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A part of a plan: documents to take back, and places of documents to make."""

    seqs: list[int]
    old: list[int]
    new: list[int]


async def next_pending(
    conn: AsyncConnection, costs: CostPeriod, after: int, lines: int
) -> Pending | None:
    """The next of a plan behind that place, together about so many lines; None at its end."""
    binds = {"job_id": costs.job_id, "after": after, "most": MOST_DOCUMENTS}
    taken: list[Any] = []
    room = lines
    for row in (await conn.execute(NEXT, binds)).all():
        if taken and row.lines > room:
            break
        taken.append(row)
        room -= row.lines
    if not taken:
        return None
    return Pending(
        seqs=[row.seq for row in taken],
        old=[row.old_document_id for row in taken if row.old_document_id is not None],
        new=[row.seq for row in taken if row.new],
    )


async def hold_documents(conn: AsyncConnection, pending: Pending) -> None:
    """Hold what is to be taken back, before the gate: as everybody who posts does."""
    await conn.execute(LOCK_OLD, {"ids": pending.old})


async def pass_gate(conn: AsyncConnection, costs: CostPeriod) -> None:
    """Keep the period as it is, open and with its results, until the transaction ends.

    A driver's error CH101 or CH102 (worker.records.posting.GATE_REFUSALS) where it is not open.
    """
    await conn.execute(PASS_GATE, {"company": costs.company, "day": costs.ends_on})


async def post_pending(
    conn: AsyncConnection, costs: CostPeriod, pending: Pending, principal: str | None
) -> None:
    """Take back and post, in the caller's transaction, which holds documents and gate.

    PermanentError COSTS_REFUSED where a document cannot be posted, RetryableError where another
    attempt has posted it; nothing of it is there then.
    """
    await _take_back(conn, costs, pending.old)
    await _make(conn, costs, pending.new, principal)
    done = {"job_id": costs.job_id, "first": pending.seqs[0], "last": pending.seqs[-1]}
    for statement in (DROP_LINES, DROP_WORK):
        await conn.execute(statement, done)


async def _take_back(conn: AsyncConnection, costs: CostPeriod, ids: Sequence[int]) -> None:
    entries = await standing_entries(conn, ids)
    await take_back(
        conn,
        ids,
        {entry.entry_id: entry.posting_date for entry in entries},
        company=costs.company,
        job_id=costs.job_id,
        fence=costs.fence,
        memo="The costs have changed (Giá vốn đã thay đổi)",
    )


async def _make(
    conn: AsyncConnection, costs: CostPeriod, seqs: Sequence[int], principal: str | None
) -> None:
    if not seqs:
        return
    binds = {
        "company": costs.company,
        "period": costs.period,
        "job_id": costs.job_id,
        "seqs": list(seqs),
        "principal": principal,
        "roles": list(WORDS),
        "words": list(WORDS.values()),
    }
    made = (await conn.execute(MAKE, binds)).all()
    if len(made) != len(seqs):
        raise RetryableError("another attempt of the job has gone on with its plan")
    columns = {
        "ids": [row.id for row in made],
        "keys": [row.key for row in made],
        "bases": [row.base for row in made],
        "seqs": [row.seq for row in made],
    }
    await conn.execute(LIST, binds | columns)
    await conn.execute(STATE, binds | columns)
    poster = Poster(
        job_id=costs.job_id, fence=costs.fence, company=costs.company, brand=None, costs=True
    )
    listed = [Listed(seq=row.seq, document_id=row.id, version=row.version) for row in made]
    outcomes = await post_documents(conn, poster, listed)
    numbers = {row.seq: str(row.doc_no) for row in made}
    _require_posted(costs, [(numbers[each.seq], each) for each in outcomes if each.codes])


def _require_posted(costs: CostPeriod, refused: Sequence[tuple[str, Outcome]]) -> None:
    if not refused:
        return
    first = [
        {"document": number, "codes": list(each.codes), "detail": each.detail}
        for number, each in refused[:MOST_NAMED]
    ]
    number, each = refused[0]
    raise PermanentError(
        f"COSTS_REFUSED: {len(refused)} cost documents of period {costs.period} cannot be posted, "
        f"the first is {number}: {each.detail}; put the accounts of its roles right "
        "(`chot ledger roles`), then ask again: what is posted stays",
        code="COSTS_REFUSED",
        details={"period": costs.period, "documents": first},
    )

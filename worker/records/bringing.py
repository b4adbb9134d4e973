"""Bringing lines into the books that somebody else may be writing at this very moment.

A line has no key of its own: an ERP may number as it likes. So whoever brings lines looks for them
first, writes what is not there, and then holds the gates of its periods alone from a last look to
its commit. Who had passed a gate before has committed by then, and is seen by that look; who comes
later is refused what stands there already (MOVEMENT_THERE, by the table's trigger).
"""

from collections.abc import Sequence
from datetime import date

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import Conflict

# Two that bring lines to a company would not see each other's rows: they take turns.
TAKE_TURN = text("""
    SELECT pg_advisory_xact_lock(hashtextextended('books.import_movements/' || :company, 0))""")
SNAPSHOT = text("SELECT CAST(pg_current_snapshot() AS text)")
# Others queue behind whoever waits for a gate: not for long.
SHORT_WAIT = text("SET LOCAL lock_timeout = '800ms'")
# In the order of the index that is meant: by statistics that do not know the company yet another
# one would do as well, and read all of its movements.
WRITTEN_DAYS = text("""
    SELECT DISTINCT m.posting_date
      FROM (SELECT posting_date, xid FROM books.stock_movements
             WHERE company = :company AND xid >= pg_current_xact_id() ORDER BY xid OFFSET 0) m
     WHERE m.xid = pg_current_xact_id()""")
HOLD_GATES = text("""
    SELECT pg_advisory_xact_lock(books.period_gate_key(p.company, p.period))
      FROM (SELECT company, period FROM books.periods
             WHERE company = :company
               AND EXISTS (SELECT FROM unnest(CAST(:days AS date[])) AS day
                            WHERE day BETWEEN starts_on AND ends_on)
             ORDER BY period) p""")
MINE = """
                     SELECT true FROM books.stock_movements o
                      WHERE o.xid = pg_current_xact_id() AND o.company || '' = m.company
                        AND o.reverses_movement_id IS NULL AND """
# What the first look cannot have seen, but for this transaction's own rows, which are many. As in
# the trigger: the same line, and the same opening.
MEANWHILE = text(f"""
    SELECT m.doc_id, m.doc_line
      FROM ((SELECT * FROM books.stock_movements
              WHERE company = :company AND xid < pg_current_xact_id()
                AND xid >= pg_snapshot_xmin(CAST(CAST(:since AS text) AS pg_snapshot))
              ORDER BY xid OFFSET 0)
             UNION ALL
            (SELECT * FROM books.stock_movements
              WHERE company = :company AND xid > pg_current_xact_id() ORDER BY xid OFFSET 0)) m
     WHERE NOT pg_visible_in_snapshot(m.xid, CAST(CAST(:since AS text) AS pg_snapshot))
       AND m.job_id IS NULL AND m.reverses_movement_id IS NULL
       AND coalesce(({MINE}o.doc_id = m.doc_id AND o.doc_line = m.doc_line AND o.kind = m.kind
                        AND o.item || '' = m.item AND o.store || '' = m.store LIMIT 1),
                    ({MINE}o.kind = 'opening' AND o.item = m.item AND o.store = m.store
                        AND o.posting_date = m.posting_date
                        AND o.lot_id IS NOT DISTINCT FROM m.lot_id
                        AND (o.qty_base, o.value) = (m.qty_base, m.value)
                        AND m.kind = 'opening' LIMIT 1), false)
     LIMIT 1""")


async def begin_bringing(conn: AsyncConnection, company: str) -> str:
    """Take the company's turn until the transaction ends; what to give to end_bringing().

    Call it before the lines are looked for.
    """
    await conn.execute(TAKE_TURN, {"company": company})
    return str(await conn.scalar(SNAPSHOT))


async def end_bringing(
    conn: AsyncConnection, company: str, since: str, days: Sequence[date] | None = None
) -> None:
    """Keep everybody out of the periods that were written to, from now to the commit.

    `days` are those of the lines, where the caller knows them.

    Conflict, or a driver's error of a lock, where somebody wrote one of these lines meanwhile, or
    is about to commit for long: roll back, and look for the lines again.
    """
    await conn.execute(SHORT_WAIT)
    if days is None:
        days = (await conn.scalars(WRITTEN_DAYS, {"company": company})).all()
    await conn.execute(HOLD_GATES, {"company": company, "days": list(days)})
    found = (await conn.execute(MEANWHILE, {"company": company, "since": since})).one_or_none()
    if found is not None:
        raise Conflict(
            f"line {found.doc_line} of document {found.doc_id} was written meanwhile by another"
        )

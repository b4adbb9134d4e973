"""The stage of an atomic posting: judged chunk by chunk, published in one transaction.

An item of the list that is staged has the rule version that its lines are of, and the id of the
entry they will be; one without lines has no entry. Whatever changes before the publication is found
there and staged again.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.posting import Poster
from worker.records.posting_list import Listed
from worker.records.verdicts import GROUNDS, STAGE

NEXT_UNSTAGED = text("""
    SELECT seq, document_id, version FROM books.posting_items
     WHERE job_id = CAST(:job_id AS uuid) AND NOT done AND seq > :after
       AND rule_version IS NULL AND outcome IS NULL
     ORDER BY seq LIMIT :most""")


async def next_unstaged(
    conn: AsyncConnection, job_id: UUID, *, after: int, most: int
) -> list[Listed]:
    """The next documents of the list that are not staged and have no outcome; [] at its end."""
    binds = {"job_id": job_id, "after": after, "most": most}
    return [Listed(**row) for row in (await conn.execute(NEXT_UNSTAGED, binds)).mappings()]


NOTE_STAGED = text("""
    UPDATE books.posting_items i
       SET entry_id = s.entry_id, series = s.series, rule_version = s.rule_version,
           outcome = s.outcome, detail = nullif(s.detail, ''),
           codes = ARRAY(SELECT jsonb_array_elements_text(CAST(s.codes AS jsonb)))
      FROM unnest(CAST(:seqs AS integer[]), CAST(:entries AS bigint[]), CAST(:series AS text[]),
                  CAST(:rules AS integer[]), CAST(:outcomes AS text[]), CAST(:codes AS text[]),
                  CAST(:details AS text[]))
           AS s (seq, entry_id, series, rule_version, outcome, codes, detail)
     CROSS JOIN LATERAL (SELECT p.ctid FROM books.posting_items p
                          WHERE p.job_id = CAST(:job_id AS uuid)
                            AND p.seq >= s.seq AND p.seq <= s.seq
                          ORDER BY p.job_id, p.seq LIMIT 1) k
     WHERE i.ctid = k.ctid""")


async def stage_documents(conn: AsyncConnection, poster: Poster, listed: Sequence[Listed]) -> str:
    """Judge documents as they are now; of sound ones the lines are staged, of others the faults.

    Answers by which grounds (read_grounds) they were judged.
    """
    binds = poster.judging(listed) | {"job_id": poster.job_id}
    verdicts = (await conn.execute(STAGE, binds)).all()
    noted = {
        "job_id": poster.job_id,
        "seqs": [listed[each.n - 1].seq for each in verdicts],
        "entries": [each.entry_id for each in verdicts],
        "series": [each.series for each in verdicts],
        "rules": [None if each.codes else each.rule_version for each in verdicts],
        "outcomes": [each.codes[0] if each.codes else None for each in verdicts],
        "codes": [_json(each.codes) for each in verdicts],
        "details": [each.detail for each in verdicts],
    }
    await conn.execute(NOTE_STAGED, noted)
    return str(verdicts[0].grounds)


def _json(codes: Sequence[str]) -> str:
    return "[" + ",".join(f'"{code}"' for code in codes) + "]"


COUNT_REFUSED = text("""
    SELECT count(*) FROM books.posting_items
     WHERE job_id = CAST(:job_id AS uuid) AND outcome <> ALL (CAST(:successes AS text[]))""")
# Each by its key, in the order of ids; nobody is waited for.
LOCK_LISTED = text("""
    SELECT count(*) FILTER (WHERE d.id IS NULL) AS busy
      FROM (SELECT i.document_id FROM books.posting_items i
             WHERE i.job_id = CAST(:job_id AS uuid) ORDER BY i.document_id) w
      LEFT JOIN LATERAL (SELECT d.id FROM books.documents d WHERE d.id = w.document_id
                            FOR NO KEY UPDATE SKIP LOCKED) d ON true""")
# What is not staged (it keeps changing), or is held by others now; the rest waits for them.
GIVE_UP_CHANGED = text("""
    UPDATE books.posting_items
       SET outcome = 'BUSY', codes = '{BUSY}', detail = CAST(:detail AS text)
     WHERE job_id = CAST(:job_id AS uuid) AND NOT done AND outcome IS NULL
       AND rule_version IS NULL""")
GIVE_UP_HELD = text("""
    WITH held AS MATERIALIZED (
        SELECT w.seq
          FROM (SELECT i.seq, i.document_id FROM books.posting_items i
                 WHERE i.job_id = CAST(:job_id AS uuid) ORDER BY i.document_id) w
          LEFT JOIN LATERAL (SELECT d.id FROM books.documents d WHERE d.id = w.document_id
                                FOR NO KEY UPDATE SKIP LOCKED) d ON true
         WHERE d.id IS NULL)
    UPDATE books.posting_items i
       SET outcome = 'BUSY', codes = '{BUSY}', detail = CAST(:detail AS text)
      FROM held h WHERE i.job_id = CAST(:job_id AS uuid) AND i.seq = h.seq""")
PASS_ALL_GATES = text("""
    SELECT books.pass_gates(CAST(:company AS text), ARRAY(
        SELECT DISTINCT d.posting_date FROM books.posting_items i
         CROSS JOIN LATERAL (SELECT d.posting_date FROM books.documents d
                              WHERE d.id = i.document_id OFFSET 0) d
         WHERE i.job_id = CAST(:job_id AS uuid) AND i.rule_version IS NOT NULL))""")
READ_GROUNDS = text(f"SELECT {GROUNDS} AS grounds")


async def read_grounds(conn: AsyncConnection, company: str) -> str:
    """A word for the rules, roles and accounts of a company as they are now."""
    return str(await conn.scalar(READ_GROUNDS, {"company": company}))


# What is not as it was when it was staged.
_CHANGED = """
    SELECT i.seq FROM books.posting_items i
     CROSS JOIN LATERAL (SELECT d.status, d.version, d.posting_date FROM books.documents d
                          WHERE d.id = i.document_id OFFSET 0) d
     WHERE i.job_id = CAST(:job_id AS uuid)
       AND CASE WHEN i.outcome IS NULL THEN d.status <> 'draft' OR d.version <> i.version
                     OR i.rule_version IS NULL
                     OR NOT EXISTS (SELECT FROM books.periods p
                                     WHERE p.company = :company AND p.status = 'open'
                                       AND d.posting_date BETWEEN p.starts_on AND p.ends_on)
                ELSE d.status <> 'posted' END"""
ANY_CHANGED = text(f"SELECT EXISTS ({_CHANGED})")
_UNSTAGE = """
    WITH changed AS MATERIALIZED ({changed}),
    back AS (
        UPDATE books.posting_items i
           SET entry_id = NULL, series = NULL, rule_version = NULL, outcome = NULL,
               codes = '{{}}', detail = NULL
          FROM changed c, books.posting_items b
         WHERE i.job_id = CAST(:job_id AS uuid) AND i.seq = c.seq
           AND b.job_id = i.job_id AND b.seq = i.seq
        RETURNING b.entry_id)
    DELETE FROM books.posting_lines l USING back
     WHERE l.job_id = CAST(:job_id AS uuid) AND l.entry_id = back.entry_id"""
UNSTAGE_CHANGED = text(_UNSTAGE.format(changed=_CHANGED))
UNSTAGE_ALL = text(
    _UNSTAGE.format(
        changed="""
            SELECT i.seq FROM books.posting_items i
             WHERE i.job_id = CAST(:job_id AS uuid) AND NOT i.done"""
    )
)
PUBLISH_LINES = text("""
    WITH staged AS (
        DELETE FROM books.posting_lines WHERE job_id = CAST(:job_id AS uuid) RETURNING *)
    INSERT INTO books.gl_lines (entry_id, line_no, debit, credit, qty_base, posting_date, company,
                                brand, account, party, store, item, currency, fc_amount, memo)
    SELECT entry_id, line_no, debit, credit, qty_base, posting_date, company, brand, account,
           party, store, item, currency, fc_amount, memo
      FROM staged ORDER BY entry_id, line_no""")
MARK_LISTED = text("""
    UPDATE books.documents d
       SET status = 'posted', posted_version = d.version, updated_at = clock_timestamp()
      FROM books.posting_items i
     WHERE i.job_id = CAST(:job_id AS uuid) AND i.rule_version IS NOT NULL AND i.outcome IS NULL
       AND d.id = i.document_id AND d.status = 'draft'""")
# By the list alone: joined with what was marked, one list could be walked through for each of the
# other.
NOTE_LISTED = text("""
    UPDATE books.posting_items i SET outcome = 'POSTED', done = true
     WHERE i.job_id = CAST(:job_id AS uuid) AND i.rule_version IS NOT NULL AND i.outcome IS NULL""")
END_LIST = text("""
    UPDATE books.posting_items SET done = true
     WHERE job_id = CAST(:job_id AS uuid) AND outcome IS NOT NULL AND NOT done""")
APPEND_LISTED = text("""
    SELECT count(*) AS appended, (SELECT count(*) FROM books.posting_items i
              WHERE i.job_id = CAST(:job_id AS uuid) AND i.entry_id IS NOT NULL) AS staged
      FROM books.append_entries(
        CAST(:company AS text), CAST(:job_id AS uuid), CAST(:fence AS bigint), ARRAY(
            SELECT CAST(ROW(i.entry_id, i.document_id, i.version, 'main', 'normal', NULL,
                            d.posting_date, d.brand, i.series, i.rule_version, d.memo)
                        AS books.new_entry)
              FROM books.posting_items i
             CROSS JOIN LATERAL (SELECT d.posting_date, d.brand, d.memo FROM books.documents d
                                  WHERE d.id = i.document_id OFFSET 0) d
             WHERE i.job_id = CAST(:job_id AS uuid) AND i.entry_id IS NOT NULL))""")


async def publish(conn: AsyncConnection, poster: Poster) -> None:
    """Post all that is staged; it is locked, and as it was. Numbers last: others wait for them."""
    binds: dict[str, Any] = {"job_id": poster.job_id}
    await conn.execute(PUBLISH_LINES, binds)
    marked = await conn.execute(MARK_LISTED, binds)
    noted = await conn.execute(NOTE_LISTED, binds)
    assert marked.rowcount == noted.rowcount, "they are locked, and as they were"
    await conn.execute(END_LIST, binds)
    whole = {**binds, "company": poster.company, "fence": poster.fence}
    row = (await conn.execute(APPEND_LISTED, whole)).one()
    assert row.appended == row.staged, "each entry has a number"

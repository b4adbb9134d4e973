"""What the ledger refuses, whoever writes it: set-based in the statement, and once more at COMMIT.

An entry is looked at when it is inserted; its lines are there by then, and none is taken after it,
so that what was looked at stays. At COMMIT each change of a series is held to its entries: every
number given, the chain whole, each under the fence its job has then.
"""

from alembic import op

revision = "0146_ledger_nets"
down_revision = "0145_append_entries"
branch_labels = None
depends_on = None

FUNCTIONS = (
    "check_entries",
    "refuse_late_lines",
    "check_series",
    "refuse_ledger_change",
    "keep_posted_document",
    "keep_posted_lines",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _entries()
    _lines()
    _series()
    _append_only()
    _posted_documents()
    for function in FUNCTIONS:
        op.execute(f"REVOKE ALL ON FUNCTION books.{function}() FROM PUBLIC")


def _entries() -> None:
    # Their plans are made once a session, perhaps while the ledger is still empty: a chunk reads its
    # own rows by their keys, however large the ledger is by then, and never the whole of it.
    op.execute("""
        CREATE TRIGGER gl_entries_gate AFTER INSERT ON books.gl_entries
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.pass_period_gate()""")
    op.execute("""
        CREATE FUNCTION books.check_entries() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
        DECLARE bad record;
        BEGIN
            SELECT c.* INTO bad FROM (
                SELECT f.id, f.document_id, l.debit, l.credit, CASE
                       WHEN l.many < 2 THEN 'EMPTY: fewer than two lines'
                       WHEN l.debit <> l.credit THEN format(
                           'UNBALANCED: debit %s, credit %s', l.debit, l.credit)
                       WHEN l.strays > 0 THEN 'LINE_ELSEWHERE: a line of another company or day'
                       WHEN d.company <> f.company THEN 'WRONG_COMPANY: the document is another''s'
                       WHEN f.fiscal_year <> books.fiscal_year(f.company, f.posting_date)
                           THEN 'FISCAL_YEAR: it is not of the year of its series'
                       WHEN s.last_no IS NULL OR f.entry_no > s.last_no
                           THEN 'NUMBER_NOT_GIVEN: the series has not given that number'
                       END AS said
                  FROM fresh f
                  LEFT JOIN books.documents d ON d.id = f.document_id
                  LEFT JOIN books.gl_series s ON s.company = f.company AND s.series = f.series
                   AND s.fiscal_year = f.fiscal_year
                  CROSS JOIN LATERAL (
                       SELECT count(*) AS many, coalesce(sum(g.debit), 0) AS debit,
                              coalesce(sum(g.credit), 0) AS credit,
                              count(*) FILTER (WHERE g.company <> f.company
                                                  OR g.posting_date <> f.posting_date) AS strays
                         FROM books.gl_lines g WHERE g.entry_id = f.id) l
                ) c
             WHERE c.said IS NOT NULL ORDER BY c.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION '%, in entry % of document %', bad.said, bad.id, bad.document_id
                    USING ERRCODE = 'CH131';
            END IF;
            -- One entry of a document stands at a time: the next version's only after a reversal.
            SELECT f.id, f.document_id INTO bad FROM fresh f
             WHERE f.kind = 'normal' AND (
                   SELECT true FROM books.gl_entries e
                    WHERE e.document_id = f.document_id AND e.role = f.role AND e.kind = 'normal'
                      AND e.id <> f.id AND (SELECT true FROM books.gl_entries r
                                             WHERE r.reverses_entry_id = e.id) IS NULL
                    LIMIT 1)
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'STILL_POSTED: another entry of document % stands beside entry %',
                    bad.document_id, bad.id USING ERRCODE = 'CH131';
            END IF;
            -- What takes an entry back has its lines, on the other side; account by account.
            SELECT f.id, f.reverses_entry_id INTO bad FROM fresh f
              LEFT JOIN books.gl_entries e ON e.id = f.reverses_entry_id
             WHERE f.kind = 'reversal' AND (
                   (e.company, e.document_id, e.role, e.kind)
                       IS DISTINCT FROM (f.company, f.document_id, f.role, 'normal')
                OR EXISTS (
                   SELECT FROM books.gl_lines g WHERE g.entry_id IN (f.id, e.id)
                    GROUP BY g.account, g.party, g.store, g.item, g.brand
                   HAVING sum(g.debit) <> sum(g.credit)))
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'NO_REVERSAL: entry % does not take back entry % of its document',
                    bad.id, bad.reverses_entry_id USING ERRCODE = 'CH131';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("""
        CREATE TRIGGER gl_entries_check AFTER INSERT ON books.gl_entries
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.check_entries()""")


def _lines() -> None:
    op.execute("""
        CREATE FUNCTION books.refuse_late_lines() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
        DECLARE late bigint;
        BEGIN
            SELECT f.entry_id INTO late FROM (SELECT DISTINCT entry_id FROM fresh) f
             WHERE (SELECT true FROM books.gl_entries e WHERE e.id = f.entry_id)
             ORDER BY f.entry_id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'LINE_TOO_LATE: entry % is in the ledger; it takes no more lines',
                    late USING ERRCODE = 'CH131';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("""
        CREATE TRIGGER gl_lines_late AFTER INSERT ON books.gl_lines
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_late_lines()""")


def _series() -> None:
    op.execute("""
        CREATE FUNCTION books.check_series() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off AS $$
        DECLARE
            given bigint;
            linked bigint;
            stale uuid;
        BEGIN
            SELECT count(*), count(*) FILTER (WHERE e.prev_hash = e.before
                       AND (e.entry_no < NEW.last_no OR e.hash = NEW.last_hash))
              INTO given, linked
              FROM (SELECT g.entry_no, g.hash, g.prev_hash,
                           coalesce(lag(g.hash) OVER (ORDER BY g.entry_no), OLD.last_hash) AS before
                      FROM books.gl_entries g
                     WHERE g.company = NEW.company AND g.series = NEW.series
                       AND g.fiscal_year = NEW.fiscal_year
                       AND g.entry_no > OLD.last_no AND g.entry_no <= NEW.last_no) e;
            IF (OLD.company, OLD.series, OLD.fiscal_year)
                   IS DISTINCT FROM (NEW.company, NEW.series, NEW.fiscal_year)
               OR given <> NEW.last_no - OLD.last_no OR linked <> given OR given = 0 THEN
                RAISE EXCEPTION 'SERIES_BROKEN: numbers % to % of series % of % are % entries, % '
                    'of them linked', OLD.last_no + 1, NEW.last_no, NEW.series, NEW.fiscal_year,
                    given, linked USING ERRCODE = 'CH133';
            END IF;
            SELECT w.job_id INTO stale
              FROM (SELECT DISTINCT g.job_id, g.fence FROM books.gl_entries g
                     WHERE g.company = NEW.company AND g.series = NEW.series
                       AND g.fiscal_year = NEW.fiscal_year
                       AND g.entry_no > OLD.last_no AND g.entry_no <= NEW.last_no) w
             WHERE NOT EXISTS (SELECT FROM chot.jobs j WHERE j.id = w.job_id
                                  AND j.fence = w.fence AND j.state = 'running')
             LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'FENCE_STALE: job % no longer runs under the fence of its entries',
                    stale USING ERRCODE = 'CH132';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("""
        CREATE CONSTRAINT TRIGGER gl_series_check AFTER UPDATE ON books.gl_series
        DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION books.check_series()""")


def _append_only() -> None:
    op.execute("""
        CREATE FUNCTION books.refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            RAISE EXCEPTION 'books.% is append-only: % is refused to everybody; an entry is taken '
                'back by a reversal', TG_TABLE_NAME, TG_OP
                USING ERRCODE = 'CH007', DETAIL = TG_TABLE_NAME;
        END $$""")
    for table, what in (
        ("gl_entries", "UPDATE OR DELETE OR TRUNCATE"),
        ("gl_lines", "UPDATE OR DELETE OR TRUNCATE"),
        ("gl_series", "DELETE OR TRUNCATE"),
    ):
        op.execute(f"""
            CREATE TRIGGER {table}_append_only BEFORE {what} ON books.{table}
            FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_ledger_change()""")


def _posted_documents() -> None:
    op.execute("""
        CREATE FUNCTION books.keep_posted_document() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE free text[] := ARRAY['status', 'version', 'updated_at'];
        BEGIN
            IF to_jsonb(NEW) - free <> to_jsonb(OLD) - free
               OR NEW.status <> OLD.status AND (OLD.status = 'void' OR NEW.status = 'void')
               OR NEW.version <> OLD.version + CAST(NEW.status <> OLD.status AS integer) THEN
                RAISE EXCEPTION 'DOCUMENT_KEPT: document % is %; what it says stays as it is',
                    OLD.id, OLD.status USING ERRCODE = 'CH134';
            END IF;
            RETURN NEW;
        END $$""")
    op.execute("""
        CREATE TRIGGER documents_posted BEFORE UPDATE ON books.documents
        FOR EACH ROW WHEN (OLD.status <> 'draft')
        EXECUTE FUNCTION books.keep_posted_document()""")
    op.execute("""
        CREATE FUNCTION books.keep_posted_lines() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE kept record;
        BEGIN
            -- By a subquery of one value: a join in the order of ids would read all documents.
            SELECT k.* INTO kept FROM (
                SELECT t.document_id AS id, (SELECT d.status FROM books.documents d
                                              WHERE d.id = t.document_id) AS status
                  FROM (SELECT DISTINCT document_id FROM touched) t) k
             WHERE k.status <> 'draft' ORDER BY k.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'DOCUMENT_KEPT: document % is %; its lines stay as they are',
                    kept.id, kept.status USING ERRCODE = 'CH134';
            END IF;
            RETURN NULL;
        END $$""")
    for what, side in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD")):
        op.execute(f"""
            CREATE TRIGGER document_lines_kept_{what.lower()} AFTER {what} ON books.document_lines
            REFERENCING {side} TABLE AS touched
            FOR EACH STATEMENT EXECUTE FUNCTION books.keep_posted_lines()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for what in ("insert", "update", "delete"):
        op.execute(f"DROP TRIGGER document_lines_kept_{what} ON books.document_lines")
    op.execute("DROP TRIGGER documents_posted ON books.documents")
    for table in ("gl_entries", "gl_lines", "gl_series"):
        op.execute(f"DROP TRIGGER {table}_append_only ON books.{table}")
    op.execute("DROP TRIGGER gl_series_check ON books.gl_series")
    op.execute("DROP TRIGGER gl_lines_late ON books.gl_lines")
    op.execute("DROP TRIGGER gl_entries_check ON books.gl_entries")
    op.execute("DROP TRIGGER gl_entries_gate ON books.gl_entries")
    for function in FUNCTIONS:
        op.execute(f"DROP FUNCTION books.{function}()")

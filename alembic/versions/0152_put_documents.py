"""Documents are put, many at a time: books.put_documents(), the one way in for api and import.

The key is (company, type, doc_no). What is new is made, a draft that says something else becomes
its next version, the same again is `unchanged`, and a posted document is never touched. One
statement inserts or locks all of them in the order of their keys, so two calls that meet in any
order wait for one another and neither deadlock nor make one twice. A document that breaks a rule
costs the others nothing.
"""

from alembic import op

revision = "0152_put_documents"
down_revision = "0151_document_lines"
branch_labels = None
depends_on = None

JUDGE = "books.judge_documents(books.asked_document[], books.asked_line[])"
REFER = """books.judge_references(
    text, books.asked_document[], books.asked_line[], books.judged_document[], text[])"""
WRITE = """books.write_documents(
    text, books.asked_document[], books.asked_line[], books.judged_document[], text, text, text[])"""
PUT = "books.put_documents(text, jsonb, text, text, text[])"
ALL = f"{JUDGE}, {REFER}, {WRITE}, {PUT}"
LARGEST = "9223372036854775807"
WORTHLESS = "('manual', 'opening')"  # their lines state debit and credit, the whole states nothing
HEAD = """type, doc_no, doc_date, posting_date, brand, store, to_store, party, account, currency,
    fc_rate, memo"""
SUMS = "total, vat_total, fc_total, fc_vat_total"
LINE = """line_no, item, uom, qty_doc, qty_base, net, vat, vat_rate, fc_net, fc_vat, side, account,
    store, party, lot_id, ref_line, memo"""

_REFERRED = """(SELECT r.id FROM books.documents r WHERE r.company = write_documents.company
                           AND r.type = h.ref_type AND r.doc_no = h.ref_doc_no)"""


def _of(alias: str, columns: str) -> str:
    return ", ".join(f"{alias}.{name.strip()}" for name in columns.split(","))


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TYPE books.judged_document AS (
            n integer, first integer, total bigint, vat_total bigint, fc_total numeric,
            fc_vat_total numeric, content_hash bytea, faults jsonb[])""")
    _judge_documents()
    _judge_references()
    _write_documents()
    _put_documents()
    op.execute(f"REVOKE ALL ON FUNCTION {ALL} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {ALL} TO chot_app")


def _judge_documents() -> None:
    # The hash is of the content only: who sent it, from where and when makes it no other document.
    # What is not stated is what the lines come to.
    op.execute(f"""
        CREATE FUNCTION books.judge_documents(
            heads books.asked_document[], lines books.asked_line[])
        RETURNS SETOF books.judged_document LANGUAGE plpgsql IMMUTABLE
        SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_generic_plan AS $$
        #variable_conflict use_column
        BEGIN
        RETURN QUERY
        WITH added AS (
            SELECT l.n, sum(l.vat) AS vat, sum(l.fc_vat) AS fc_vat,
                   sum(l.net) AS net, count(*) = count(l.net) AS all_net,
                   sum(l.fc_net) AS fc_net, count(*) = count(l.fc_net) AS all_fc_net,
                   jsonb_agg(jsonb_build_array({_of("l", LINE)}) ORDER BY l.line_no) AS said
              FROM unnest(lines) AS l GROUP BY l.n),
        broken AS (
            SELECT l.n, trim_array(array_agg(f.fault ORDER BY l.place, f.at), greatest(0, count(*)::integer - 100)) AS faults
              FROM unnest(lines) AS l CROSS JOIN unnest(l.faults) WITH ORDINALITY AS f (fault, at)
             GROUP BY l.n),
        vats AS (
            SELECT h.*, a.net, a.fc_net, a.all_net, a.all_fc_net, coalesce(a.said, '[]') AS said,
                   h.faults || coalesce(b.faults, '{{}}') AS found,
                   h.type IN {WORTHLESS} AS worthless, h.type = 'transfer' AS moves,
                   CASE WHEN h.type IN {WORTHLESS} OR h.type = 'transfer' THEN NULL
                        WHEN h.currency IS NULL THEN coalesce(h.vat_total, a.vat, 0)
                    END AS vat,
                   CASE WHEN h.type IN {WORTHLESS} OR h.type = 'transfer' THEN NULL
                        WHEN h.currency IS NOT NULL THEN coalesce(h.fc_vat_total, a.fc_vat, 0)
                    END AS fc_vat
              FROM unnest(heads) AS h
              LEFT JOIN added a ON a.n = h.n
              LEFT JOIN broken b ON b.n = h.n),
        wholes AS (
            SELECT v.*,
                   CASE WHEN v.worthless OR v.currency IS NOT NULL THEN NULL
                        WHEN v.total IS NOT NULL THEN v.total
                        WHEN v.all_net OR NOT v.moves THEN v.net + coalesce(v.vat, 0) END AS whole,
                   CASE WHEN v.worthless OR v.currency IS NULL THEN NULL
                        WHEN v.fc_total IS NOT NULL THEN v.fc_total
                        WHEN v.all_fc_net OR NOT v.moves THEN v.fc_net + coalesce(v.fc_vat, 0)
                    END AS fc_whole
              FROM vats v),
        judged AS (
            SELECT w.*, w.found || array_remove(ARRAY[
                       CASE WHEN cardinality(w.found) = 0
                             AND least(w.whole, w.vat, w.fc_whole, w.fc_vat) < 0 THEN
                           jsonb_build_object('field', 'lines', 'code', 'AMOUNT_INVALID', 'value',
                               least(w.whole, w.vat, w.fc_whole, w.fc_vat)::text, 'rule',
                               'must not come to less than 0, nor their VAT: what goes back is '
                               'a document of the returning type') END,
                       CASE WHEN greatest(w.whole, w.vat) > {LARGEST} THEN
                           jsonb_build_object('field', 'lines', 'code', 'OVERFLOW', 'value',
                               greatest(w.whole, w.vat)::text, 'rule', 'come to more than the '
                               'books hold: {LARGEST} of the smallest unit') END], NULL) AS faulty
              FROM wholes w)
        SELECT j.n, NULL::integer,
               CASE WHEN j.whole <= {LARGEST} THEN j.whole::bigint END,
               CASE WHEN j.vat <= {LARGEST} THEN j.vat::bigint END, j.fc_whole, j.fc_vat,
               sha256(convert_to(jsonb_build_array({_of("j", HEAD)}, j.ref_type, j.ref_doc_no,
                   j.whole, j.vat, j.fc_whole, j.fc_vat, j.said)::text, 'UTF8')),
               j.faulty
          FROM judged j;
        END $$""")


def _judge_references() -> None:
    # A document of the same call is as good as one that is there, if it is in order itself; so
    # what refers to a bad one is bad, one round for each link of the longest such chain. `first`
    # is the first good one of a number. Documents are looked up by subqueries of one value, which are
    # never turned into joins: statistics from before a first load would read the whole company.
    op.execute("""
        CREATE FUNCTION books.judge_references(
            company text, heads books.asked_document[], lines books.asked_line[],
            judged books.judged_document[], brands text[])
        RETURNS SETOF books.judged_document LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_custom_plan AS $$
        #variable_conflict use_column
        DECLARE
            missing integer[];
            bad integer[];
            stray integer[] := '{}';
            more integer[];
            strays books.judged_document[];
        BEGIN
            strays := ARRAY(
                SELECT ROW(l.n, NULL, NULL, NULL, NULL, NULL, NULL, array_agg(jsonb_build_object(
                           'field', 'lines[' || l.place - 1 || '].ref_line', 'code', 'REF_UNKNOWN',
                           'value', l.ref_line::text, 'rule', 'is no line of that document with '
                           'this item') ORDER BY l.place))::books.judged_document
                  FROM unnest(lines) AS l
                  JOIN unnest(heads) AS h ON h.n = l.n
                 CROSS JOIN LATERAL (
                    SELECT coalesce(h.ref_type, h.type) AS type,
                           coalesce(h.ref_doc_no, h.doc_no) AS doc_no) o
                 WHERE l.ref_line IS NOT NULL
                   AND NOT EXISTS (
                       SELECT FROM unnest(heads) AS b JOIN unnest(lines) AS x ON x.n = b.n
                        WHERE b.type = o.type AND b.doc_no = o.doc_no AND x.line_no = l.ref_line
                          AND x.item IS NOT DISTINCT FROM l.item)
                   AND (h.ref_doc_no IS NULL OR (
                        SELECT true FROM books.document_lines x
                         WHERE x.line_no = l.ref_line AND x.item IS NOT DISTINCT FROM l.item
                           AND x.document_id = (
                               SELECT d.id FROM books.documents d
                                WHERE d.company = judge_references.company AND d.type = o.type
                                  AND d.doc_no = o.doc_no)) IS NULL)
                 GROUP BY l.n);
            missing := ARRAY(
                SELECT h.n FROM unnest(heads) AS h
                 WHERE h.ref_doc_no IS NOT NULL AND h.ref_type IS NOT NULL AND (
                       SELECT true FROM books.documents d
                        WHERE d.company = judge_references.company AND d.type = h.ref_type
                          AND d.doc_no = h.ref_doc_no AND d.status <> 'void'
                          AND (brands IS NULL OR d.brand = ANY (brands))) IS NULL);
            bad := ARRAY(SELECT j.n FROM unnest(judged) AS j WHERE cardinality(j.faults) > 0
                         UNION SELECT x.n FROM unnest(strays) AS x);
            LOOP
                more := ARRAY(
                    SELECT h.n FROM unnest(heads) AS h
                     WHERE h.n = ANY (missing) AND h.n <> ALL (stray) AND NOT EXISTS (
                           SELECT FROM unnest(heads) AS o
                            WHERE o.type = h.ref_type AND o.doc_no = h.ref_doc_no AND o.n <> h.n
                              AND o.n <> ALL (bad)));
                EXIT WHEN cardinality(more) = 0;
                stray := stray || more;
                bad := bad || more;
            END LOOP;
            RETURN QUERY
            SELECT f.n, min(f.n) FILTER (WHERE cardinality(f.found) = 0)
                        OVER (PARTITION BY f.type, f.doc_no),
                   f.total, f.vat_total, f.fc_total, f.fc_vat_total, f.content_hash, f.found
              FROM (SELECT j.*, h.type, h.doc_no,
                           j.faults || CASE WHEN j.n = ANY (stray) THEN
                               ARRAY[jsonb_build_object('field', 'ref_doc_no', 'code',
                                   'REF_UNKNOWN', 'value', h.ref_doc_no, 'rule',
                                   'is no ' || coalesce(h.ref_type, 'document') || ' that is here, '
                                   'or in order in the same call; put that one first')]
                               ELSE '{}' END || coalesce(x.faults, '{}') AS found
                      FROM unnest(judged) AS j
                      JOIN unnest(heads) AS h ON h.n = j.n
                      LEFT JOIN unnest(strays) AS x ON x.n = j.n) f;
        END $$""")


def _write_documents() -> None:
    # A plan that does not know how many documents there are would take the tables for large.
    # `made` is all that this call inserted: the rest of its numbers is locked by the same pass.
    op.execute(f"""
        CREATE FUNCTION books.write_documents(
            company text, heads books.asked_document[], lines books.asked_line[],
            judged books.judged_document[], principal text, source text, brands text[])
        RETURNS TABLE (made bigint[], changed bigint[]) LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_custom_plan AS $$
        #variable_conflict use_column
        DECLARE
            ns integer[];
            ids bigint[];
        BEGIN
            WITH fresh AS (
                INSERT INTO books.documents AS d (company, {HEAD}, {SUMS}, content_hash,
                       ref_document_id, principal, source)
                SELECT write_documents.company, {_of("h", HEAD)}, {_of("j", SUMS)}, j.content_hash,
                       {_REFERRED}, write_documents.principal, write_documents.source
                  FROM unnest(heads) AS h
                  JOIN unnest(judged) AS j ON j.n = h.n
                 WHERE cardinality(j.faults) = 0 AND j.n = j.first
                 ORDER BY h.type, h.doc_no
                ON CONFLICT (company, type, doc_no) DO UPDATE SET status = d.status WHERE false
                RETURNING d.id)
            SELECT coalesce(array_agg(id), '{{}}') INTO made FROM fresh;
            -- A new statement: it sees those that the pass has waited for.
            SELECT array_agg(k.n), array_agg(k.id) INTO ns, ids
              FROM (SELECT h.n, (SELECT d.id FROM books.documents d
                                  WHERE d.company = write_documents.company AND d.type = h.type
                                    AND d.doc_no = h.doc_no) AS id
                      FROM unnest(heads) AS h
                      JOIN unnest(judged) AS j ON j.n = h.n
                     WHERE cardinality(j.faults) = 0 AND j.n = j.first) k;
            WITH renewed AS (
                UPDATE books.documents AS d
                   SET ({HEAD}, {SUMS}, content_hash, ref_document_id, principal, source, version,
                        updated_at)
                     = ({_of("h", HEAD)}, {_of("j", SUMS)}, j.content_hash, {_REFERRED},
                        write_documents.principal, write_documents.source, d.version + 1,
                        clock_timestamp())
                  FROM unnest(ns, ids) AS k (n, id)
                  JOIN unnest(heads) AS h ON h.n = k.n
                  JOIN unnest(judged) AS j ON j.n = k.n
                 WHERE d.id = k.id AND d.id <> ALL (made) AND d.status = 'draft'
                   AND d.content_hash <> j.content_hash
                   AND (brands IS NULL OR d.brand = ANY (brands))
                RETURNING d.id)
            SELECT coalesce(array_agg(id), '{{}}') INTO changed FROM renewed;
            IF cardinality(changed) > 0 THEN
                DELETE FROM books.document_lines WHERE document_id = ANY (changed);
            END IF;
            INSERT INTO books.document_lines (document_id, {LINE})
            SELECT k.id, {_of("l", LINE)}
              FROM unnest(ns, ids) AS k (n, id) JOIN unnest(lines) AS l ON l.n = k.n
             WHERE k.id = ANY (made || changed) ORDER BY k.id, l.line_no;
            -- What was made together could not be named before it was there.
            UPDATE books.documents AS d SET ref_document_id = {_REFERRED}
              FROM unnest(ns, ids) AS k (n, id) JOIN unnest(heads) AS h ON h.n = k.n
             WHERE d.id = k.id AND h.ref_doc_no IS NOT NULL AND d.id = ANY (made || changed)
               AND d.ref_document_id IS NULL;
            RETURN NEXT;
        END $$""")


def _put_documents() -> None:
    op.execute("""
        CREATE FUNCTION books.put_documents(
            company text, documents jsonb, principal text, source text,
            brands text[] DEFAULT NULL)
        RETURNS TABLE (n integer, document_id bigint, version integer, status text, outcome text,
                       code text, detail text, faults jsonb)
        LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_custom_plan AS $$
        #variable_conflict use_column
        DECLARE
            heads books.asked_document[];
            lines books.asked_line[];
            judged books.judged_document[];
            done record;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'ISOLATION_REFUSED: books are written at READ COMMITTED only'
                    USING ERRCODE = 'CH104';
            END IF;
            IF NOT EXISTS (SELECT FROM books.companies c WHERE c.code = put_documents.company) THEN
                RAISE EXCEPTION 'COMPANY_UNKNOWN: % is no company',
                    quote_nullable(put_documents.company) USING ERRCODE = 'CH103', DETAIL = 'company';
            END IF;
            heads := ARRAY(SELECT h FROM books.read_document_heads(
                put_documents.company, documents, brands) AS h);
            lines := ARRAY(SELECT l FROM books.read_document_lines(
                put_documents.company, heads, brands) AS l);
            judged := ARRAY(SELECT j FROM books.judge_documents(heads, lines) AS j);
            judged := ARRAY(SELECT j FROM books.judge_references(
                put_documents.company, heads, lines, judged, brands) AS j);
            SELECT * INTO done FROM books.write_documents(put_documents.company, heads, lines,
                judged, put_documents.principal, put_documents.source, brands);
            RETURN QUERY
            SELECT a.n, CASE WHEN a.met IS NULL THEN a.id END,
                   CASE WHEN a.met IS NULL THEN a.version END,
                   CASE WHEN a.met IS NULL THEN a.status END,
                   CASE WHEN cardinality(a.found) > 0 THEN 'error'
                        WHEN a.n <> a.first THEN 'unchanged'
                        WHEN a.id = ANY (done.made) THEN 'created'
                        WHEN a.id = ANY (done.changed) THEN 'updated'
                        ELSE 'unchanged' END,
                   a.found[1] ->> 'code',
                   concat_ws(': ', nullif(a.found[1] ->> 'field', ''), a.found[1] ->> 'rule'),
                   to_jsonb(a.found)
              FROM (SELECT j.n, j.first, d.id, d.version, d.status, m.met, j.faults
                           || CASE WHEN m.met IS NULL THEN '{}'
                                   ELSE ARRAY[jsonb_build_object('field', 'doc_no', 'code', m.met,
                                        'value', h.doc_no, 'rule', m.rule)] END AS found
                      FROM unnest(judged) AS j
                      JOIN unnest(heads) AS h ON h.n = j.n
                      LEFT JOIN unnest(judged) AS f ON f.n = j.first
                      LEFT JOIN LATERAL (
                        SELECT x.* FROM books.documents x
                         WHERE x.company = put_documents.company AND x.type = h.type
                           AND x.doc_no = h.doc_no OFFSET 0) d ON cardinality(j.faults) = 0
                      CROSS JOIN LATERAL (SELECT (CASE
                        WHEN cardinality(j.faults) > 0 THEN ARRAY[NULL, NULL]
                        WHEN brands IS NOT NULL AND (d.brand = ANY (brands)) IS NOT TRUE THEN
                            ARRAY['NUMBER_TAKEN', 'is the number of a document that this account '
                                  'may not see']
                        WHEN d.status = 'void' THEN
                            ARRAY['NUMBER_VOIDED', 'is the number of a document that was voided, '
                                  'and is never given again; take another one']
                        WHEN j.content_hash <> f.content_hash THEN
                            ARRAY['DUPLICATE', format('is in this call more than once: document '
                                  '%s of the call has it first, with other content', j.first)]
                        WHEN d.status = 'posted' AND d.content_hash <> j.content_hash THEN
                            ARRAY['ALREADY_POSTED', format('is posted, in version %s, and says '
                                  'something else; unpost it first', d.version)]
                        ELSE ARRAY[NULL, NULL] END) AS said) x
                      CROSS JOIN LATERAL (SELECT x.said[1] AS met, x.said[2] AS rule) m) a
             ORDER BY a.n;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"DROP FUNCTION {PUT}")
    op.execute(f"DROP FUNCTION {WRITE}")
    op.execute(f"DROP FUNCTION {REFER}")
    op.execute(f"DROP FUNCTION {JUDGE}")
    op.execute("DROP TYPE books.judged_document")

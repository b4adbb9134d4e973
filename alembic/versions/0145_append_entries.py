"""The one way into the ledger: gates first, numbers last, each entry chained to the one before.

Who posts writes the lines, then calls books.append_entries() once, with all entries of the
transaction. Locks: the documents (the caller's), the gates of all days, the series in key order.
Whoever held a series and then waited for a gate would deadlock with the close that waits for it.

The hash of an entry is sha256(hash of the entry before || its number as eight bytes || content).
`content` is the sha256 of a JSON array of what the entry says and of the digest of its lines, each
a JSON array of its own: the text of a jsonb depends on no setting of the session.
"""

from alembic import op

revision = "0145_append_entries"
down_revision = "0144_posting_items"
branch_labels = None
depends_on = None

NEW_ENTRY = """
            entry_id           bigint,
            document_id        bigint,
            document_version   integer,
            role               text,
            kind               text,
            reverses_entry_id  bigint,
            posting_date       date,
            brand              text,
            series             text,
            rule_version       integer,
            memo               text"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _gates()
    op.execute(f"CREATE TYPE books.new_entry AS ({NEW_ENTRY})")
    _contents()
    _append()


def _gates() -> None:
    op.execute("""
        CREATE FUNCTION books.pass_gates(company text, days date[]) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            stray date;
            gate record;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'ISOLATION_REFUSED: books are written at READ COMMITTED only'
                    USING ERRCODE = 'CH104';
            END IF;
            SELECT day INTO stray FROM unnest($2) AS day
             WHERE NOT EXISTS (SELECT FROM books.periods p WHERE p.company = $1
                                  AND day BETWEEN p.starts_on AND p.ends_on)
             ORDER BY day LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'PERIOD_UNKNOWN: company % has no period that holds %',
                    quote_literal($1), stray USING ERRCODE = 'CH102';
            END IF;
            FOR gate IN
                SELECT p.period FROM books.periods p
                 WHERE p.company = $1
                   AND EXISTS (SELECT FROM unnest($2) AS day
                                WHERE day BETWEEN p.starts_on AND p.ends_on)
                 ORDER BY p.period
            LOOP
                PERFORM pg_advisory_xact_lock_shared(books.period_gate_key($1, gate.period));
                PERFORM 1 FROM books.periods p
                  WHERE p.company = $1 AND p.period = gate.period AND p.status = 'open'
                    FOR KEY SHARE;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'PERIOD_CLOSED: period % of company % is not open',
                        gate.period, quote_literal($1) USING ERRCODE = 'CH101';
                END IF;
            END LOOP;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.pass_gates(text, date[]) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION books.pass_gates(text, date[]) TO chot_app")


def _contents() -> None:
    op.execute("""
        CREATE VIEW books.gl_line_digests AS
        SELECT l.entry_id, sha256(convert_to(string_agg(
                   jsonb_build_array(l.line_no, l.account, l.debit, l.credit, l.party, l.store,
                       l.item, l.qty_base, l.currency, l.fc_amount, l.brand, l.memo)::text,
                   E'\\n' ORDER BY l.line_no), 'UTF8')) AS digest
          FROM books.gl_lines l GROUP BY l.entry_id""")
    op.execute("GRANT SELECT ON books.gl_line_digests TO chot_app, chot_read")
    op.execute("""
        CREATE FUNCTION books.fiscal_year(company text, day date) RETURNS integer
        LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT CAST(extract(year FROM $2) AS integer)
                 - CASE WHEN extract(month FROM $2) < c.fiscal_year_start_month THEN 1 ELSE 0 END
              FROM books.companies c WHERE c.code = $1
        $$""")
    op.execute("""
        CREATE FUNCTION books.entry_content(company text, fiscal_year integer, job_id uuid,
                                            entry books.new_entry, lines bytea) RETURNS bytea
        LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT sha256(convert_to(jsonb_build_array(
                'entry/1', $1, ($4).series, $2, ($4).entry_id, ($4).document_id,
                ($4).document_version, ($4).role, ($4).kind, ($4).reverses_entry_id,
                ($4).posting_date, ($4).brand, ($4).rule_version, ($4).memo, $3,
                encode($5, 'hex'))::text, 'UTF8'))
        $$""")
    op.execute("""
        CREATE FUNCTION books.chained(before bytea, entry_no bigint, content bytea) RETURNS bytea
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN sha256($1 || int8send($2) || $3)""")
    for function in (
        "fiscal_year(text, date)",
        "entry_content(text, integer, uuid, books.new_entry, bytea)",
        "chained(bytea, bigint, bytea)",
    ):
        op.execute(f"REVOKE ALL ON FUNCTION books.{function} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION books.{function} TO chot_app, chot_read")


def _append() -> None:
    op.execute("""
        CREATE FUNCTION books.append_entries(company text, job_id uuid, fence bigint,
                                             entries books.new_entry[])
        RETURNS TABLE (entry_id bigint, entry_no bigint)
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off AS $$
        #variable_conflict use_column
        DECLARE
            chain record;
            top bigint;
            head bytea;
            contents bytea[];
            befores bytea[];
            hashes bytea[];
        BEGIN
            PERFORM books.pass_gates($1, ARRAY(SELECT DISTINCT e.posting_date FROM unnest($4) e));
            PERFORM 1 FROM chot.jobs j WHERE j.id = $2 AND j.fence = $3 AND j.state = 'running';
            IF NOT FOUND THEN
                RAISE EXCEPTION 'FENCE_STALE: job % does not run under fence %', $2, $3
                    USING ERRCODE = 'CH132';
            END IF;
            -- All that can be made ready is, before anybody has to wait.
            FOR chain IN
                WITH sealed AS MATERIALIZED (
                    SELECT e AS entry, books.fiscal_year($1, e.posting_date) AS fiscal_year,
                           row_number() OVER (ORDER BY e.posting_date, e.document_id,
                               e.document_version, e.kind DESC, e.role DESC, e.entry_id) AS place
                      FROM unnest($4) AS e)
                SELECT (s.entry).series AS series, s.fiscal_year, count(*) AS many,
                       array_agg(s.entry ORDER BY s.place) AS entries,
                       array_agg(books.entry_content($1, s.fiscal_year, $2, s.entry, d.digest)
                                 ORDER BY s.place) AS contents
                  FROM sealed s
                  -- OFFSET 0: as a join it would digest the whole ledger for each call.
                  LEFT JOIN LATERAL (SELECT g.digest FROM books.gl_line_digests g
                                      WHERE g.entry_id = (s.entry).entry_id OFFSET 0) d ON true
                 GROUP BY 1, 2 ORDER BY 1, 2
            LOOP
                INSERT INTO books.gl_series AS g (company, series, fiscal_year)
                VALUES ($1, chain.series, chain.fiscal_year) ON CONFLICT DO NOTHING;
                SELECT g.last_no, g.last_hash INTO top, head FROM books.gl_series g
                 WHERE g.company = $1 AND g.series = chain.series
                   AND g.fiscal_year = chain.fiscal_year FOR NO KEY UPDATE;
                contents := chain.contents; -- a variable: of a record each look would copy it
                befores := '{}';
                hashes := '{}';
                FOR i IN 1 .. chain.many LOOP
                    befores[i] := head;
                    head := sha256(head || int8send(top + i) || contents[i]);
                    hashes[i] := head;
                END LOOP;
                UPDATE books.gl_series g SET last_no = top + chain.many, last_hash = head
                 WHERE g.company = $1 AND g.series = chain.series
                   AND g.fiscal_year = chain.fiscal_year;
                RETURN QUERY
                    INSERT INTO books.gl_entries AS g
                           (id, document_id, reverses_entry_id, entry_no, fence, job_id,
                            document_version, rule_version, fiscal_year, posting_date, company,
                            brand, series, role, kind, memo, prev_hash, hash)
                    SELECT e.entry_id, e.document_id, e.reverses_entry_id, top + e.n, $3, $2,
                           e.document_version, e.rule_version, chain.fiscal_year, e.posting_date,
                           $1, e.brand, e.series, e.role, e.kind, e.memo, e.before, e.hash
                      FROM unnest(chain.entries, befores, hashes) WITH ORDINALITY
                           AS e (entry_id, document_id, document_version, role, kind,
                                 reverses_entry_id, posting_date, brand, series, rule_version,
                                 memo, before, hash, n)
                    RETURNING g.id, g.entry_no;
            END LOOP;
        END $$""")
    name = "books.append_entries(text, uuid, bigint, books.new_entry[])"
    op.execute(f"REVOKE ALL ON FUNCTION {name} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION books.append_entries(text, uuid, bigint, books.new_entry[])")
    op.execute("DROP FUNCTION books.chained(bytea, bigint, bytea)")
    op.execute("DROP FUNCTION books.entry_content(text, integer, uuid, books.new_entry, bytea)")
    op.execute("DROP FUNCTION books.fiscal_year(text, date)")
    op.execute("DROP VIEW books.gl_line_digests")
    op.execute("DROP TYPE books.new_entry")
    op.execute("DROP FUNCTION books.pass_gates(text, date[])")

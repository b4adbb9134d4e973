"""What the ledger gets of documents, and all that is wrong with those that it does not get.

One statement for some hundreds of documents. Each thing that a document needs is looked up by its
key, document by document: nothing is joined whose size a planner would have to guess. What belongs
to one document is put together by windows over its legs (its lines in the ledger to be).

A leg is signed, a debit positive. `rest` is what the legs of a document are apart by: rounding, if
it is at most one unit for each of its lines, which the largest leg of a line takes (or, of a
document in another currency whose rule says so, a leg of its own), noted in its memo.
"""

from sqlalchemy import text

# Whatever is in its way, in this order; the first is the outcome of the document.
CODES = (
    "NOT_FOUND",
    "WRONG_COMPANY",
    "WRONG_BRAND",
    "ALREADY_POSTED",
    "VERSION_CHANGED",
    "VOID",
    "MADE_BY_COSTS",
    "EMPTY",
    "CONTENT",
    "PERIOD_CLOSED",
    "PERIOD_UNKNOWN",
    "REVERSED_LATER",
    "NO_RULE",
    "ACCOUNT_UNKNOWN",
    "ACCOUNT_NOT_POSTABLE",
    "ACCOUNT_INACTIVE",
    "DIMENSION_MISSING",
    "RATE_MISSING",
    "UNBALANCED",
    "OVERFLOW",
)
LARGEST = 2**63 - 1

# What each document is, and what it states; of one that is not ours nothing but that.
_HEADS = """
    WITH heads AS MATERIALIZED (
        SELECT w.n, w.id AS document_id, nextval('books.gl_entries_id_seq') AS entry_id,
               d.version, d.type, d.doc_no, d.posting_date, d.brand, d.store, d.to_store, d.party,
               d.account, d.memo, d.currency, d.fc_total, d.fc_vat_total,
               c.minor_digits, f.one, f.rate, f.is_foreign,
               coalesce(floor(d.fc_total * f.rate * f.one + 0.5), d.total) AS total,
               coalesce(floor(d.fc_vat_total * f.rate * f.one + 0.5), d.vat_total) AS vat_total,
               p.period, p.status AS period_status,
               r.company AS rule_company, r.version AS rule_version, r.series, r.rest AS rest_rule,
               d.status, s.stop, w.listed, t.taken_back
          FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS integer[]))
               WITH ORDINALITY AS w (id, listed, n)
          LEFT JOIN LATERAL (SELECT d.* FROM books.documents d
                              WHERE d.id = w.id AND w.listed IS NOT NULL OFFSET 0) d ON true
          CROSS JOIN LATERAL (
               SELECT CASE
                   WHEN d.id IS NULL THEN 'NOT_FOUND: there is no such document'
                   WHEN d.company <> :company THEN 'WRONG_COMPANY: it is another company''s'
                   WHEN d.brand IS DISTINCT FROM coalesce(CAST(:brand AS text), d.brand) THEN
                       'WRONG_BRAND: it is not one of brand ' || CAST(:brand AS text)
                       || '; a job of its brand or of the whole company may post it'
                   WHEN d.status = 'posted' THEN
                       'ALREADY_POSTED: as version ' || d.version END AS stop) s
          LEFT JOIN LATERAL (SELECT c.currency, c.minor_digits FROM books.companies c
                              WHERE c.code = d.company AND s.stop IS NULL OFFSET 0) c ON true
          CROSS JOIN LATERAL (
               SELECT power(CAST(10 AS numeric), c.minor_digits) AS one,
                      d.currency <> c.currency AS is_foreign,
                      coalesce(d.fc_rate, CASE WHEN d.currency = c.currency THEN 1 END) AS rate) f
          LEFT JOIN LATERAL (SELECT p.period, p.status FROM books.periods p
                              WHERE p.company = d.company AND s.stop IS NULL
                                AND d.posting_date BETWEEN p.starts_on AND p.ends_on
                              LIMIT 1) p ON true
          LEFT JOIN LATERAL (SELECT r.* FROM books.posting_rules r
                              WHERE r.company IN (d.company, '*') AND r.doc_type = d.type
                                AND r.valid_from <= d.posting_date AND s.stop IS NULL
                              ORDER BY r.company = '*', r.valid_from DESC, r.version DESC
                              LIMIT 1) r ON true
          LEFT JOIN LATERAL (
               SELECT 'its entry ' || e.entry_no || ' of ' || e.posting_date
                      || ' stands until entry ' || b.entry_no || ' of ' || b.posting_date
                      || ' takes it back (date it ' || b.posting_date || ' or later)' AS taken_back
                 FROM books.gl_entries b JOIN books.gl_entries e ON e.id = b.reverses_entry_id
                WHERE b.document_id = d.id AND d.posted_version IS NOT NULL
                  AND b.posting_date > greatest(d.posting_date, e.posting_date)
                  AND s.stop IS NULL
                ORDER BY b.posting_date DESC, b.id DESC LIMIT 1) t ON true),
    work AS MATERIALIZED (
        SELECT h.*, l.lines, l.amounts, l.vats, l.bare, l.net, l.vat,
               coalesce(h.vat_total, l.vat, 0) AS vat_stated,
               coalesce(h.total, l.net + coalesce(h.vat_total, l.vat, 0)) AS gross
          FROM heads h
         CROSS JOIN LATERAL (
               SELECT count(*) AS lines, count(coalesce(l.net, l.fc_net)) AS amounts,
                      count(coalesce(l.vat, l.fc_vat)) AS vats,
                      min(l.line_no) FILTER (WHERE coalesce(l.net, l.fc_net) IS NULL) AS bare,
                      sum(coalesce(floor(l.fc_net * h.rate * h.one + 0.5), l.net)) AS net,
                      sum(coalesce(floor(l.fc_vat * h.rate * h.one + 0.5), l.vat)) AS vat
                 FROM books.document_lines l
                WHERE l.document_id = h.document_id AND h.stop IS NULL) l),"""
# One row a document at least, so that the windows have what to say of each. Legs of the rule come
# once, or once a line; the last is for a rest that has a leg of its own.
_LEGS = """
    legs AS MATERIALIZED (
        SELECT k.*, x.line_no AS place, x.per, x.amount AS basis, e.line_no, e.own_memo,
               e.item, e.qty_base,
               CASE WHEN x.per = 'rest' THEN x.role
                    ELSE coalesce(CASE WHEN x.own_account THEN e.own_account END, a.account)
                    END AS leg_account,
               CASE WHEN x.store = 'to_store' THEN k.to_store
                    ELSE coalesce(e.own_store, k.store) END AS leg_store,
               coalesce(e.own_party, k.party) AS leg_party,
               CASE WHEN coalesce(x.side, e.own_side) = 'credit' THEN -1 ELSE 1 END
                   * coalesce(e.amount, 0) AS signed,
               x.amount = 'stated' AS is_stated, e.own_side IS NULL AS is_unsided,
               CASE WHEN k.is_foreign THEN e.fc_amount END AS fc_amount
          FROM work k
          LEFT JOIN LATERAL (
               SELECT x.line_no, x.per, x.side, x.role, x.own_account, x.amount, x.store
                 FROM books.posting_rule_lines x
                WHERE x.company = k.rule_company AND x.doc_type = k.type
                  AND x.version = k.rule_version
                UNION ALL
               SELECT 2147483647, 'rest', NULL, NULL, false, 'rest', 'store'
                WHERE k.is_foreign AND k.rest_rule = 'account') x ON true
          LEFT JOIN LATERAL (
               SELECT coalesce((SELECT r.account FROM books.account_roles r
                                 WHERE r.company = :company AND r.role = x.role),
                               (SELECT d.account FROM books.role_defaults d
                                 WHERE d.role = x.role)) AS account) a ON true
          LEFT JOIN LATERAL (
               SELECT l.line_no, l.account AS own_account, l.store AS own_store,
                      l.party AS own_party, l.side AS own_side, l.memo AS own_memo, l.item,
                      l.qty_base,
                      CASE x.amount WHEN 'vat' THEN v.vat
                           WHEN 'gross' THEN v.net + coalesce(v.vat, 0)
                           ELSE v.net END AS amount,
                      CASE x.amount WHEN 'vat' THEN l.fc_vat
                           WHEN 'gross' THEN l.fc_net + coalesce(l.fc_vat, 0)
                           ELSE l.fc_net END AS fc_amount
                 FROM books.document_lines l
                CROSS JOIN LATERAL (
                      SELECT coalesce(floor(l.fc_net * k.rate * k.one + 0.5), l.net) AS net,
                             coalesce(floor(l.fc_vat * k.rate * k.one + 0.5), l.vat) AS vat) v
                WHERE l.document_id = k.document_id AND x.per = 'line'
                UNION ALL
               SELECT 0, k.account, NULL, NULL, NULL, NULL, NULL, NULL,
                      CASE x.amount WHEN 'vat' THEN k.vat_stated WHEN 'gross' THEN k.gross
                           WHEN 'net' THEN k.net END,
                      CASE x.amount WHEN 'vat' THEN k.fc_vat_total WHEN 'gross' THEN k.fc_total END
                WHERE x.per IN ('document', 'rest')) e ON true),
    apart AS (
        SELECT l.*, sum(l.signed) OVER d AS rest, bool_or(l.is_stated) OVER d AS stated,
               min(l.line_no) FILTER (WHERE l.is_stated AND l.is_unsided) OVER d AS unsided,
               row_number() OVER (PARTITION BY l.n ORDER BY l.per = 'rest' DESC NULLS LAST,
                   l.per = 'line' DESC NULLS LAST, abs(l.signed) DESC, l.place, l.line_no) AS size
          FROM legs l WINDOW d AS (PARTITION BY l.n)),
    balanced AS (
        SELECT a.*, t.takes, CASE WHEN t.takes THEN a.signed - a.rest ELSE a.signed END AS value,
               CASE WHEN a.per <> 'rest' THEN a.leg_account
                    WHEN a.rest > 0 THEN g.gain ELSE g.loss END AS wanted,
               a.rest <> 0 AND NOT bool_or(t.takes) OVER (PARTITION BY a.n) AS is_apart
          FROM apart a
         CROSS JOIN LATERAL (
               SELECT coalesce(a.size = 1 AND a.per <> 'document' AND a.rest <> 0
                   AND abs(a.rest) <= CASE WHEN a.stated AND a.is_foreign IS NOT TRUE THEN 0
                                           ELSE a.lines END
                   AND (a.signed = 0 OR sign(a.signed - a.rest) = sign(a.signed)), false)
                   AS takes) t
          LEFT JOIN LATERAL (
               SELECT books.role_account(:company, 'fx_gain') AS gain,
                      books.role_account(:company, 'fx_loss') AS loss
                WHERE a.per = 'rest' AND a.rest <> 0) g ON true),"""
# All faults of a document, each as "CODE: what is wrong", in the order of CODES.
_FAULTS = f"""
    judged AS (
        SELECT b.*, coalesce(s.brand, b.brand) AS leg_brand, u.unknown, u.closed, u.inactive,
               u.lacks, u.strange, u.store_unknown
          FROM balanced b
          LEFT JOIN LATERAL (SELECT a.* FROM books.gl_accounts a
                              WHERE a.company = :company AND a.code = b.wanted AND b.value <> 0
                             OFFSET 0) a ON true
          LEFT JOIN LATERAL (
               SELECT string_agg(c.code, ', ' ORDER BY c.code) AS codes
                 FROM (SELECT c.code FROM books.gl_accounts c
                        WHERE NOT a.postable AND c.company = :company AND c.postable
                          AND starts_with(c.code, a.code)
                        ORDER BY c.code LIMIT 6) c) c ON NOT a.postable
          LEFT JOIN LATERAL (SELECT s.brand FROM books.stores s
                              WHERE s.company = :company AND s.code = b.leg_store
                             OFFSET 0) s ON true
         CROSS JOIN LATERAL (
               SELECT CASE WHEN b.line_no > 0 THEN ', line ' || b.line_no ELSE '' END AS words) o
         CROSS JOIN LATERAL (
               SELECT CASE WHEN b.value = 0 OR a.code IS NOT NULL THEN NULL
                           WHEN b.wanted IS NULL THEN
                               'no account is named by the document or the rule' || o.words
                           ELSE 'the chart has no account ' || b.wanted || o.words
                           END AS unknown,
                      CASE WHEN NOT a.postable THEN
                               'account ' || a.code || ' is a heading' || o.words || CASE
                                   WHEN c.codes IS NULL THEN ' (name another one)'
                                   ELSE ' (name one below it: ' || c.codes || ')' END END AS closed,
                      CASE WHEN b.posting_date < a.active_from OR b.posting_date > a.active_to THEN
                               'account ' || a.code || ' is not in use on ' || b.posting_date
                               || o.words END AS inactive,
                      'account ' || a.code || ' needs ' || CASE
                          WHEN a.needs_party AND b.leg_party IS NULL THEN 'a party'
                          WHEN a.needs_store AND b.leg_store IS NULL THEN 'a store'
                          WHEN a.needs_item AND b.item IS NULL THEN 'an item' END
                          || o.words AS lacks,
                      CASE WHEN b.value <> 0 AND coalesce(s.brand, b.brand)
                                IS DISTINCT FROM coalesce(CAST(:brand AS text), s.brand, b.brand)
                           THEN 'store ' || b.leg_store || ' is not one of brand '
                               || CAST(:brand AS text) || o.words
                               || '; a job of the whole company may post it' END AS strange,
                      CASE WHEN b.leg_store IS NOT NULL AND s.brand IS NULL THEN
                               'the company has no store ' || b.leg_store || o.words
                           END AS store_unknown) u),
    told AS (
        SELECT j.*, min(j.unknown) OVER d AS no_account, min(j.closed) OVER d AS no_posting,
               min(j.inactive) OVER d AS not_in_use, min(j.lacks) OVER d AS no_dimension,
               min(j.strange) OVER d AS wrong_brand, min(j.store_unknown) OVER d AS no_store,
               sum(greatest(j.value, 0)) OVER d AS debit,
               sum(greatest(-j.value, 0)) OVER d AS credit,
               bool_or(j.value <> 0) OVER d AS has_lines, max(abs(j.value)) OVER d AS largest,
               row_number() OVER d AS leg
          FROM judged j WINDOW d AS (PARTITION BY j.n)),
    verdicts AS MATERIALIZED (
        SELECT t.*, CASE WHEN t.stop IS NOT NULL THEN ARRAY[t.stop] ELSE array_remove(ARRAY[
            'WRONG_BRAND: ' || t.wrong_brand,
            CASE WHEN t.version <> t.listed THEN
                'VERSION_CHANGED: it is version ' || t.version || ', version ' || t.listed
                || ' was to be posted; look at it and post it again' END,
            CASE WHEN t.status = 'void' THEN 'VOID: it has been voided' END,
            CASE WHEN t.type = 'cost' AND NOT CAST(:costs AS boolean) THEN
                'MADE_BY_COSTS: cost documents are posted by posting.costs' END,
            CASE WHEN t.lines = 0 THEN 'EMPTY: it has no line'
                 WHEN t.type <> 'transfer' AND t.amounts = 0 THEN
                     'EMPTY: none of its lines states an amount' END,
            CASE WHEN t.type <> 'transfer' AND t.amounts > 0 AND t.bare IS NOT NULL THEN
                     'CONTENT: line ' || t.bare || ' states no net amount'
                 WHEN t.unsided IS NOT NULL THEN
                     'CONTENT: line ' || t.unsided || ' is neither debit nor credit'
                 ELSE 'CONTENT: ' || t.no_store END,
            CASE WHEN t.period_status <> 'open' THEN
                'PERIOD_CLOSED: period ' || t.period || ' is ' || t.period_status
                || ' (date it in an open one, or reopen it)' END,
            CASE WHEN t.period IS NULL THEN
                'PERIOD_UNKNOWN: no period holds ' || t.posting_date
                || ' (correct the date, or add the period)' END,
            'REVERSED_LATER: ' || t.taken_back,
            CASE WHEN t.rule_version IS NULL THEN 'NO_RULE: no posting rule for ' || t.type
                || ' is valid on ' || t.posting_date END,
            'ACCOUNT_UNKNOWN: ' || t.no_account || ' (add it to the chart, or name another one)',
            'ACCOUNT_NOT_POSTABLE: ' || t.no_posting,
            'ACCOUNT_INACTIVE: ' || t.not_in_use || ' (name another one, or let it be used then)',
            'DIMENSION_MISSING: ' || t.no_dimension || ' (put it into the document)',
            CASE WHEN t.is_foreign AND t.rate IS NULL THEN
                'RATE_MISSING: it is in ' || t.currency || ' and states no rate (put fc_rate)' END,
            CASE WHEN t.is_foreign AND t.rate IS NULL THEN NULL
                 WHEN t.is_apart THEN
                     'UNBALANCED: debit ' || round(t.debit / t.one, t.minor_digits) || ', credit '
                     || round(t.credit / t.one, t.minor_digits)
                 WHEN NOT t.stated AND t.vats > 0 AND abs(t.vat - t.vat_stated) > t.lines THEN
                     'UNBALANCED: VAT of the lines ' || round(t.vat / t.one, t.minor_digits)
                     || ', of the document ' || round(t.vat_stated / t.one, t.minor_digits) END,
            CASE WHEN t.debit > {LARGEST} OR t.credit > {LARGEST} OR t.largest > {LARGEST} THEN
                'OVERFLOW: its amounts are larger than the ledger holds' END], NULL)
            END AS faults
          FROM told t),"""
# What a line of the ledger says where it is not what the document's line says.
_LINES = """
    SELECT {job}v.entry_id,
           CAST(row_number() OVER (PARTITION BY v.n ORDER BY v.place, v.line_no) AS integer),
           CAST(greatest(v.value, 0) AS bigint), CAST(greatest(-v.value, 0) AS bigint),
           v.qty_base, v.posting_date, :company, v.leg_brand, v.wanted, v.leg_party, v.leg_store,
           v.item, CASE WHEN v.fc_amount IS NOT NULL THEN v.currency END, abs(v.fc_amount),
           nullif(concat_ws('; ', v.own_memo,
               CASE WHEN v.takes THEN 'rounding '
                        || round(-v.rest / v.one, v.minor_digits) || ' to the stated total' END,
               CASE WHEN v.per = 'document' AND v.basis = 'vat' AND v.vats > 0
                         AND v.vat <> v.vat_stated THEN
                        'VAT of the lines: ' || round(v.vat / v.one, v.minor_digits) END), '')
      FROM verdicts v WHERE v.faults = '{{}}' AND v.value <> 0"""
_COLUMNS = """(entry_id, line_no, debit, credit, qty_base, posting_date, company, brand, account,
               party, store, item, currency, fc_amount, memo)"""
_ANSWER = """
    SELECT v.n, v.document_id, v.version, v.type, v.posting_date, v.brand,
           v.series, v.rule_version, v.memo,
           CASE WHEN v.faults = '{}' AND v.has_lines THEN v.entry_id END AS entry_id,
           ARRAY(SELECT split_part(f, ':', 1) FROM unnest(v.faults) f) AS codes,
           CASE WHEN v.faults = '{}' AND v.has_lines IS NOT TRUE THEN
                    CASE WHEN v.amounts > 0 THEN 'without an entry: its amounts come to 0'
                         ELSE 'without an entry: it states no amount' END
                ELSE left(array_to_string(v.faults, '; '), 1000) END AS detail
      FROM verdicts v WHERE v.leg = 1 ORDER BY v.n"""
_JUDGED = _HEADS + _LEGS + _FAULTS
# What the verdicts of all documents rest on: rules, which are only added to, roles, and the chart.
GROUNDS = """md5(concat_ws(E'\\n',
        (SELECT string_agg(concat_ws(',', r.company, r.doc_type, r.version), ';'
                           ORDER BY r.company, r.doc_type, r.version)
           FROM books.posting_rules r WHERE r.company IN (CAST(:company AS text), '*')),
        (SELECT string_agg(concat_ws(',', d.role, coalesce(r.account, d.account)), ';'
                           ORDER BY d.role)
           FROM books.role_defaults d
           LEFT JOIN books.account_roles r ON r.company = :company AND r.role = d.role),
        (SELECT string_agg(concat_ws(',', a.code, a.postable, a.needs_party, a.needs_store,
                                     a.needs_item, coalesce(a.active_from, '-infinity'),
                                     coalesce(a.active_to, 'infinity')), ';' ORDER BY a.code)
           FROM books.gl_accounts a WHERE a.company = :company)))"""

# Into the ledger at once: the documents are locked, and their periods' gates passed.
POST = text(
    _JUDGED
    + f"""
    written AS (INSERT INTO books.gl_lines {_COLUMNS} {_LINES.format(job="")})
    {_ANSWER}"""
)
# Into the stage: nothing is locked, all will be looked at once more. By which grounds is told by
# the same statement: what is changed, and changed back, is seen by both or by neither.
STAGE = text(
    _JUDGED
    + f"""
    written AS (INSERT INTO books.posting_lines (job_id, {_COLUMNS[1:]}
                {_LINES.format(job="CAST(:job_id AS uuid), ")}),
    grounds AS MATERIALIZED (SELECT {GROUNDS} AS said)
    SELECT a.*, (SELECT said FROM grounds) AS grounds FROM ({_ANSWER}) a ORDER BY a.n"""
)

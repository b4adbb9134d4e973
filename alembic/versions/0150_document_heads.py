"""Documents as they are sent, read by the database: heads, and every rule that they break.

The api and an import send the same JSON, so both are told the same things. Nothing raises on what
somebody sent: a fault names the field, the value and the rule, and all faults of a document are
found at once. Texts are kept in Unicode's composed form (NFC); codes of the books are found in the
form they are sent in first, then in that one.
"""

from alembic import op

revision = "0150_document_heads"
down_revision = "0147_chart_templates"
branch_labels = None
depends_on = None

HEADS = "books.read_document_heads(text, jsonb, text[])"
MEMBERS = """type doc_no doc_date posting_date brand store to_store party account currency fc_rate
    total vat_total fc_total fc_vat_total memo ref_type ref_doc_no"""
TEXTS = tuple(MEMBERS.split())
TYPES = """'sale', 'sale_return', 'purchase', 'purchase_return', 'transfer', 'cash_in',
    'cash_out', 'manual', 'opening'"""
AMOUNT = r"'^-?[0-9]{1,19}([.][0-9]{1,9})?$'"
RATE = r"'^[0-9]{1,12}([.][0-9]{1,12})?$'"
# Neither blanks at an end, which nobody sees, nor control characters.
UNSEEN = r"'^\s|\s$|[\u0001-\u001f\u007f]'"
# Looked for by one call; only where there is one is each member looked at.
NO_TEXT = """'$.* ? (@.type() != "string" && @.type() != "null")'"""
SAYS_UNSEEN = "must have no blank at an end and no control character"
SAYS_AMOUNT = 'must be a decimal in a string such as "1250000" or "-12.50": digits, one point'
SAYS_DATE = "must be a day as YYYY-MM-DD, from 1900 on"
LARGEST = "9223372036854775807"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TYPE books.asked_document AS (
            n integer, type text, doc_no text, doc_date date, posting_date date, brand text,
            store text, to_store text, party text, account text, currency text, fc_rate numeric,
            total bigint, vat_total bigint, fc_total numeric, fc_vat_total numeric, memo text,
            ref_type text, ref_doc_no text, minor_digits integer, own_currency text, body jsonb,
            faults jsonb[])""")
    _iso_date()
    _strange_members()
    _read_heads()
    op.execute(f"""REVOKE ALL ON FUNCTION books.iso_date(text),
        books.strange_members(jsonb, text, text[], text[], text), {HEADS} FROM PUBLIC""")
    op.execute(f"""GRANT EXECUTE ON FUNCTION books.iso_date(text),
        books.strange_members(jsonb, text, text[], text[], text), {HEADS} TO chot_app""")


def _iso_date() -> None:
    # A cast raises on the 30th of February, which would be the end of all other documents.
    op.execute("""
        CREATE FUNCTION books.iso_date(said text) RETURNS date
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT CASE
                WHEN said !~ '^(19|[2-9][0-9])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$'
                THEN NULL
                WHEN substr(said, 9)::integer > extract(day FROM
                     (substr(said, 1, 8) || '01')::date + interval '1 month - 1 day') THEN NULL
                ELSE said::date END
        $$""")


def _strange_members() -> None:
    op.execute("""
        CREATE FUNCTION books.strange_members(
            body jsonb, place text, texts text[], integers text[], list text DEFAULT NULL)
        RETURNS jsonb[]
        LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT coalesce(array_agg(jsonb_build_object(
                       'field', place || left(m.key, 60),
                       'code', CASE WHEN m.key = ANY (texts || integers)
                                    THEN 'WRONG_TYPE' ELSE 'UNKNOWN_MEMBER' END,
                       'value', left(m.value #>> '{}', 100),
                       'rule', CASE
                           WHEN m.key = ANY (texts) THEN
                               'must be a JSON string (amounts and quantities as well)'
                           WHEN m.key = ANY (integers) THEN
                               'must be a JSON integer from 1 to 999999'
                           ELSE 'is none of the members: '
                                || array_to_string(texts || integers || list, ', ') END) ORDER BY m.key),
                   '{}')
              FROM jsonb_each(body) m
             WHERE CASE WHEN m.key = ANY (texts) THEN jsonb_typeof(m.value) NOT IN ('string', 'null')
                        WHEN m.key = ANY (integers) THEN NOT (jsonb_typeof(m.value) = 'null'
                             OR (jsonb_typeof(m.value) = 'number'
                                 AND m.value::text ~ '^[1-9][0-9]{0,5}$'))
                        ELSE m.key IS DISTINCT FROM list END
        $$""")


def _text(name: str) -> str:
    return f"CASE WHEN jsonb_typeof(r.d -> '{name}') = 'string' THEN r.d ->> '{name}' END AS {name}"


def _fault(name: str, code: str, broken: str, rule: str) -> str:
    """NULL where the rule holds; `rule` is an SQL expression."""
    return f"""CASE WHEN {broken} THEN jsonb_build_object('field', '{name}', 'code', '{code}',
                   'value', left(s.{name}, 100), 'rule', {rule}) END"""


def _missing(name: str) -> str:
    # Of another type than a string it is not missing, and has its fault already.
    absent = f"coalesce(jsonb_typeof(s.d -> '{name}'), 'null') = 'null'"
    return _fault(name, "MISSING", absent, "'is missing'")


def _unseen(name: str, most: int) -> str:
    long = f"'must have 1 to {most} characters'"
    return ",\n".join(
        (
            _fault(
                name, "INVALID", f"length(normalize(s.{name}, NFC)) NOT BETWEEN 1 AND {most}", long
            ),
            _fault(name, "INVALID", f"s.{name} ~ {UNSEEN}", f"'{SAYS_UNSEEN}'"),
        )
    )


def _amounts() -> str:
    faults = []
    for name in ("total", "vat_total", "fc_total", "fc_vat_total"):
        faults += [
            _fault(name, "AMOUNT_INVALID", f"s.{name} !~ {AMOUNT}", f"'{SAYS_AMOUNT}'"),
            _fault(
                name,
                "AMOUNT_INVALID",
                f"s.{name}_no < 0",
                "'must not be below 0: what goes back is a document of the returning type'",
            ),
            _fault(
                name,
                "NOT_OF_TYPE",
                f"s.{name} IS NOT NULL AND s.type IN ('manual', 'opening')",
                "'is not stated by a ' || s.type || ' document: its lines state debit and credit'",
            ),
        ]
    for name in ("total", "vat_total"):
        faults += [
            _fault(
                name,
                "AMOUNT_NOT_EXACT",
                f"s.{name}_no * s.one <> trunc(s.{name}_no * s.one)",
                "format('has more decimals than %s has, which is %s', s.own, s.minor_digits)",
            ),
            _fault(
                name,
                "OVERFLOW",
                f"s.{name}_no * s.one > {LARGEST}",
                f"'is beyond what the books hold: {LARGEST} of the smallest unit'",
            ),
            _fault(
                name,
                "NOT_OF_CURRENCY",
                f"s.{name} IS NOT NULL AND s.is_foreign",
                f"format('a document in %s states fc_{name}', s.currency)",
            ),
        ]
    for name in ("fc_rate", "fc_total", "fc_vat_total"):
        faults.append(
            _fault(
                name,
                "NOT_OF_CURRENCY",
                f"s.{name} IS NOT NULL AND NOT s.is_foreign",
                "format('is of a document whose currency is another one than %s', s.own)",
            )
        )
    return ",\n".join(faults)


def _codes() -> str:
    return ",\n".join(
        (
            _missing("type"),
            _fault(
                "type",
                "TYPE_UNKNOWN",
                f"s.type NOT IN ({TYPES})",
                f"'must be one of: {' '.join(TYPES.replace(chr(39), '').split())}'",
            ),
            _missing("doc_no"),
            _unseen("doc_no", 60),
            _missing("doc_date"),
            _fault("doc_date", "DATE_INVALID", _no_date("doc_date"), f"'{SAYS_DATE}'"),
            _fault("posting_date", "DATE_INVALID", _no_date("posting_date"), f"'{SAYS_DATE}'"),
            _unseen("party", 60),
            _fault(
                "account",
                "INVALID",
                "s.account !~ '^[0-9A-Za-z.]{1,20}$'",
                "'must be the code of an account: 1 to 20 digits, letters or points'",
            ),
            _fault(
                "currency",
                "INVALID",
                "s.currency !~ '^[A-Z]{3}$'",
                "'must be three capitals, such as USD'",
            ),
            _fault(
                "fc_rate",
                "INVALID",
                f"s.fc_rate !~ {RATE} OR s.fc_rate_no = 0",
                """'must be a decimal above 0: what one unit of the currency costs'""",
            ),
            _fault("memo", "INVALID", "length(s.memo) > 500", "'must have at most 500 characters'"),
        )
    )


def _no_date(name: str) -> str:
    return f"s.{name} IS NOT NULL AND s.{name}_day IS NULL"


def _places() -> str:
    faults = []
    for name, says in (("store", "from"), ("to_store", "to")):
        rule = "'is no store of this company that this account may name'"
        broken = f"s.{name} IS NOT NULL AND s.at_{name} IS NULL"
        faults.append(_fault(name, "STORE_UNKNOWN", broken, rule))
        broken = f"s.type = 'transfer' AND s.{name} IS NULL"
        faults.append(_fault(name, "MISSING", broken, f"'is missing: goods go {says} a store'"))
    faults += [
        _fault(
            "to_store",
            "NOT_OF_TYPE",
            "s.type <> 'transfer' AND s.to_store IS NOT NULL",
            "'is of a transfer, and of nothing else'",
        ),
        _fault(
            "to_store",
            "INVALID",
            "s.at_to_store = s.at_store",
            "'must be another store than that of the goods'",
        ),
        _fault(
            "brand",
            "BRAND_UNKNOWN",
            "s.brand IS NOT NULL AND s.at_brand IS NULL",
            "'is no brand of this company that this account may name'",
        ),
        _fault(
            "brand",
            "BRAND_MISMATCH",
            "s.at_brand <> s.store_brand",
            "format('store %s is of brand %s', s.store, s.store_brand)",
        ),
        _fault(
            "brand",
            "MISSING",
            "$3 IS NOT NULL AND coalesce(s.store, s.brand) IS NULL",
            "'is missing: this account has some brands only; name a store or a brand'",
        ),
    ]
    return ",\n".join(faults)


def _refs() -> str:
    return ",\n".join(
        (
            _fault(
                "ref_type",
                "TYPE_UNKNOWN",
                f"s.ref_type NOT IN ({TYPES})",
                "'must be the type of the document that is referred to'",
            ),
            _fault(
                "ref_type",
                "INVALID",
                "s.ref_type IS NOT NULL AND s.ref_doc_no IS NULL",
                "'comes with ref_doc_no'",
            ),
            _fault(
                "ref_doc_no",
                "INVALID",
                """s.ref_doc_no IS NOT NULL AND s.ref_type IS NULL
                   AND s.type NOT IN ('sale_return', 'purchase_return', 'purchase')""",
                "'a document of this type names ref_type, too'",
            ),
            _fault(
                "ref_doc_no",
                "INVALID",
                """normalize(s.ref_doc_no, NFC) = normalize(s.doc_no, NFC)
                   AND coalesce(s.ref_type, s.type) = s.type
                   AND s.type NOT IN ('sale_return', 'purchase_return')""",
                "'is the number of this document itself'",
            ),
        )
    )


def _lines_of_head() -> str:
    return """
        CASE WHEN NOT s.d ? 'lines' OR jsonb_typeof(s.d -> 'lines') = 'null' THEN
            jsonb_build_object('field', 'lines', 'code', 'MISSING', 'value', NULL,
                               'rule', 'is missing: a list, which may be empty in a draft')
             WHEN jsonb_typeof(s.d -> 'lines') <> 'array' THEN
            jsonb_build_object('field', 'lines', 'code', 'WRONG_TYPE',
                'value', left(s.d ->> 'lines', 100), 'rule', 'must be a list of objects')
             WHEN jsonb_array_length(s.d -> 'lines') > 10000 THEN
            jsonb_build_object('field', 'lines', 'code', 'TOO_MANY',
                'value', jsonb_array_length(s.d -> 'lines')::text,
                'rule', 'a document has at most 10000 lines') END"""


def _store(name: str) -> str:
    """The store in the form it is sent in, or in NFC; only one that may be named."""
    return f"""LEFT JOIN LATERAL (
                SELECT x.code, x.brand FROM books.stores x
                 WHERE x.company = $1 AND x.code IN (t.{name}, normalize(t.{name}, NFC))
                   AND ($3 IS NULL OR x.brand = ANY ($3))
                 ORDER BY x.code = t.{name} DESC LIMIT 1) {name}_of ON t.{name} IS NOT NULL"""


def _read_heads() -> None:
    # In plpgsql, which keeps the plan: to plan this takes as long as to read fifty documents.
    texts = ", ".join(f"'{name}'" for name in TEXTS)
    numbers = ",\n".join(
        f"CASE WHEN t.{name} ~ {AMOUNT} THEN t.{name}::numeric END AS {name}_no"
        for name in ("total", "vat_total", "fc_total", "fc_vat_total")
    )
    op.execute(rf"""
        CREATE FUNCTION books.read_document_heads(company text, documents jsonb, brands text[])
        RETURNS SETOF books.asked_document LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_generic_plan AS $$
        #variable_conflict use_column
        BEGIN
        RETURN QUERY
        WITH sent AS (
            SELECT e.n::integer AS n, jsonb_typeof(e.d) <> 'object' AS is_other,
                   left(e.d #>> '{{}}', 100) AS body,
                   CASE WHEN jsonb_typeof(e.d) = 'object' THEN e.d ELSE '{{}}' END AS d
              FROM jsonb_array_elements($2) WITH ORDINALITY AS e (d, n)),
        texts AS MATERIALIZED (
            SELECT r.n, r.is_other, r.body, r.d, {", ".join(map(_text, TEXTS))} FROM sent r),
        s AS MATERIALIZED (
            SELECT t.*, {numbers},
                   books.iso_date(t.doc_date) AS doc_date_day,
                   books.iso_date(t.posting_date) AS posting_date_day,
                   CASE WHEN t.fc_rate ~ {RATE} THEN t.fc_rate::numeric END AS fc_rate_no,
                   power(10::numeric, c.minor_digits) AS one, c.minor_digits, c.currency AS own,
                   coalesce(t.currency <> c.currency AND t.currency ~ '^[A-Z]{{3}}$', false)
                       AS is_foreign,
                   store_of.code AS at_store, store_of.brand AS store_brand,
                   to_store_of.code AS at_to_store, b.code AS at_brand
              FROM texts t
              JOIN books.companies c ON c.code = $1
              {_store("store")}
              {_store("to_store")}
              LEFT JOIN LATERAL (
                SELECT x.code FROM books.brands x
                 WHERE x.company = $1 AND x.code IN (t.brand, normalize(t.brand, NFC))
                   AND ($3 IS NULL OR x.code = ANY ($3))
                 ORDER BY x.code = t.brand DESC LIMIT 1) b ON t.brand IS NOT NULL),
        judged AS (
            SELECT s.*, CASE WHEN s.is_other THEN ARRAY[jsonb_build_object('field', '',
                       'code', 'NOT_AN_OBJECT', 'value', s.body, 'rule', 'must be a JSON object')]
                   ELSE CASE WHEN (s.d - ARRAY[{texts}, 'lines']) <> '{{}}'
                               OR jsonb_path_exists(s.d - 'lines', {NO_TEXT})
                             THEN books.strange_members(s.d, '', ARRAY[{texts}], '{{}}', 'lines')
                             ELSE '{{}}' END
                        || array_remove(ARRAY[{_codes()}, {_places()}, {_amounts()}, {_refs()},
                                              {_lines_of_head()}], NULL) END AS faults
              FROM s)
        SELECT j.n, j.type, normalize(j.doc_no, NFC), j.doc_date_day,
               coalesce(j.posting_date_day, j.doc_date_day),
               coalesce(j.store_brand, j.at_brand), coalesce(j.at_store, j.store),
               coalesce(j.at_to_store, j.to_store),
               normalize(j.party, NFC), j.account, CASE WHEN j.is_foreign THEN j.currency END,
               trim_scale(j.fc_rate_no),
               CASE WHEN j.total_no * j.one <= {LARGEST} THEN (j.total_no * j.one)::bigint END,
               CASE WHEN j.vat_total_no * j.one <= {LARGEST}
                    THEN (j.vat_total_no * j.one)::bigint END,
               trim_scale(j.fc_total_no), trim_scale(j.fc_vat_total_no), normalize(j.memo, NFC),
               CASE WHEN j.ref_doc_no IS NULL THEN NULL
                    ELSE coalesce(j.ref_type, CASE j.type WHEN 'sale_return' THEN 'sale'
                        WHEN 'purchase_return' THEN 'purchase' WHEN 'purchase' THEN 'purchase' END)
                    END,
               normalize(j.ref_doc_no, NFC), j.minor_digits::integer, j.own,
               CASE WHEN jsonb_typeof(j.d -> 'lines') = 'array'
                     AND jsonb_array_length(j.d -> 'lines') <= 10000
                    THEN j.d -> 'lines' ELSE '[]' END,
               j.faults
          FROM judged j ORDER BY j.n;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"DROP FUNCTION {HEADS}")
    op.execute("DROP FUNCTION books.strange_members(jsonb, text, text[], text[], text)")
    op.execute("DROP FUNCTION books.iso_date(text)")
    op.execute("DROP TYPE books.asked_document")

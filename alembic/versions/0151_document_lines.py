"""Lines of documents as they are sent: exact amounts and quantities, and every rule they break.

A quantity is the base unit's, exactly (qty · num/den · 10^qty_scale), or a fault: it is never
rounded. Which members a line has hangs on the type of its document.
"""

from alembic import op

revision = "0151_document_lines"
down_revision = "0150_document_heads"
branch_labels = None
depends_on = None

LINES = "books.read_document_lines(text, books.asked_document[], text[])"
MEMBERS = "item qty uom net vat vat_rate fc_net fc_vat side account store party lot_id memo"
TEXTS = tuple(MEMBERS.split())
INTEGERS = ("line_no", "ref_line")
AMOUNT = r"'^-?[0-9]{1,19}([.][0-9]{1,9})?$'"
QUANTITY = r"'^[0-9]{1,19}([.][0-9]{1,9})?$'"
PERCENT = r"'^(100([.]0{1,4})?|[0-9]{1,2}([.][0-9]{1,4})?)$'"
UNSEEN = r"'^\s|\s$|[\u0001-\u001f\u007f]'"
# Looked for by one call; only where there is one is each member looked at.
NO_TEXT = """'$.* ? (@.type() != "string" && @.type() != "null")'"""
LARGEST = "9223372036854775807"
STATED = "s.type IN ('manual', 'opening')"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TYPE books.asked_line AS (
            n integer, place integer, line_no integer, item text, uom text, qty_doc numeric,
            qty_base bigint, net bigint, vat bigint, vat_rate numeric, fc_net numeric,
            fc_vat numeric, side text, account text, store text, party text, lot_id text,
            ref_line integer, memo text, faults jsonb[])""")
    _read_lines()
    op.execute(f"REVOKE ALL ON FUNCTION {LINES} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {LINES} TO chot_app")


def _text(name: str) -> str:
    return f"CASE WHEN jsonb_typeof(r.d -> '{name}') = 'string' THEN r.d ->> '{name}' END AS {name}"


def _integer(name: str) -> str:
    return f"""CASE WHEN jsonb_typeof(r.d -> '{name}') = 'number'
                     AND r.d ->> '{name}' ~ '^[1-9][0-9]{{0,5}}$'
                    THEN (r.d ->> '{name}')::integer END AS {name}"""


def _fault(name: str, code: str, broken: str, rule: str) -> str:
    """NULL where the rule holds; `rule` is an SQL expression."""
    return f"""CASE WHEN {broken} THEN jsonb_build_object('field', s.at || '{name}',
                   'code', '{code}', 'value', left(s.{name}::text, 100), 'rule', {rule}) END"""


def _absent(name: str) -> str:
    # Of another type than a string it is not missing, and has its fault already.
    return f"coalesce(jsonb_typeof(s.d -> '{name}'), 'null') = 'null'"


def _none_of_type(name: str, types: str, rule: str) -> str:
    return _fault(name, "NOT_OF_TYPE", f"s.{name} IS NOT NULL AND {types}", rule)


def _unseen(name: str, most: int) -> str:
    broken = f"length(normalize(s.{name}, NFC)) NOT BETWEEN 1 AND {most} OR s.{name} ~ {UNSEEN}"
    rule = f"'must have 1 to {most} characters, no blank at an end, no control character'"
    return _fault(name, "INVALID", broken, rule)


def _amounts() -> list[str]:
    says = """'must be a decimal in a string such as "1250000" or "-12.50": digits, one point'"""
    faults = [
        _fault(name, "AMOUNT_INVALID", f"s.{name} !~ {AMOUNT}", says)
        for name in ("net", "vat", "fc_net", "fc_vat")
    ]
    for name in ("net", "vat"):
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
                f"abs(s.{name}_no) * s.one > {LARGEST}",
                f"'is beyond what the books hold: {LARGEST} of the smallest unit'",
            ),
            _fault(
                name,
                "NOT_OF_CURRENCY",
                f"s.{name} IS NOT NULL AND s.currency IS NOT NULL",
                f"format('a document in %s states fc_{name}', s.currency)",
            ),
            _fault(
                f"fc_{name}",
                "NOT_OF_CURRENCY",
                f"s.fc_{name} IS NOT NULL AND s.currency IS NULL",
                "format('is of a document whose currency is another one than %s', s.own)",
            ),
            # What a receipt puts into stock, and a return takes out, is worth 0 at least.
            _fault(
                f"{name}",
                "AMOUNT_INVALID",
                f"s.{name}_no < 0 AND s.qty IS NOT NULL AND s.type IN ('purchase', 'purchase_return')",
                "'must not be below 0 where goods come or go: a reduction is a line without qty'",
            ),
        ]
    for name, unless in (("net", "s.currency IS NULL"), ("fc_net", "s.currency IS NOT NULL")):
        missing = f"{_absent(name)} AND {unless} AND s.type <> 'transfer'"
        faults.append(_fault(name, "MISSING", missing, "'is missing: what the line is worth'"))
        faults.append(
            _fault(
                name,
                "AMOUNT_INVALID",
                f"s.{name}_no <= 0 AND {STATED}",
                "'must be above 0: what is less is of the other side'",
            )
        )
    for name in ("vat", "fc_vat", "vat_rate"):
        rule = "'is not of a ' || s.type || ' document'"
        faults.append(_none_of_type(name, f"(s.type = 'transfer' OR {STATED})", rule))
    return faults


def _goods() -> list[str]:
    return [
        _fault(
            "item",
            "ITEM_UNKNOWN",
            "s.item IS NOT NULL AND s.its_item IS NULL",
            "'is no item of this company'",
        ),
        _fault("item", "MISSING", f"s.type = 'transfer' AND {_absent('item')}", "'is missing'"),
        _fault("qty", "MISSING", f"s.type = 'transfer' AND {_absent('qty')}", "'is missing'"),
        _fault(
            "qty",
            "QTY_INVALID",
            f"s.qty !~ {QUANTITY} OR s.qty_no = 0",
            """'must be a decimal above 0 in a string such as "12" or "0.250"'""",
        ),
        _fault(
            "qty",
            "INVALID",
            "s.qty IS NOT NULL AND s.item IS NULL",
            "'is of a line that names an item'",
        ),
        _fault("uom", "INVALID", "s.uom IS NOT NULL AND s.qty IS NULL", "'comes with qty'"),
        _fault(
            "uom",
            "UOM_UNKNOWN",
            "s.uom IS NOT NULL AND s.its_item IS NOT NULL AND s.its_uom IS NULL",
            "format('item %s has no such unit; its base unit is %s', s.item, s.base_uom)",
        ),
        _fault(
            "qty",
            "UOM_NOT_EXACT",
            "s.qty_rest <> 0",
            """format('%s %s of item %s are no whole number of 10^-%s %s', s.qty, s.its_uom,
                      s.item, s.qty_scale, s.base_uom)""",
        ),
        _fault(
            "qty",
            "OVERFLOW",
            f"s.qty_whole > {LARGEST}",
            f"'is beyond what the books hold: {LARGEST} of the smallest unit'",
        ),
        _unseen("lot_id", 100),
        _fault(
            "store",
            "STORE_UNKNOWN",
            "s.store IS NOT NULL AND s.at_store IS NULL",
            "'is no store of this company that this account may name'",
        ),
        _fault(
            "store",
            "BRAND_MISMATCH",
            "s.store_brand <> s.brand",
            "format('is of brand %s, the document of brand %s', s.store_brand, s.brand)",
        ),
        _none_of_type("store", "s.type = 'transfer'", "'is that of the transfer itself'"),
        _fault(
            "store",
            "MISSING",
            "s.qty IS NOT NULL AND s.store IS NULL AND s.head_store IS NULL",
            "'is missing: goods lie in a store, the document names one or the line does'",
        ),
    ]


def _others() -> list[str]:
    return [
        _fault(
            "side",
            "INVALID",
            f"{STATED} AND ({_absent('side')} OR s.side NOT IN ('debit', 'credit'))",
            "'must be debit or credit'",
        ),
        _none_of_type("side", f"NOT {STATED}", "'is of lines of manual and opening documents'"),
        _fault(
            "account",
            "MISSING",
            f"{STATED} AND {_absent('account')}",
            "'is missing'",
        ),
        _fault(
            "account",
            "INVALID",
            "s.account !~ '^[0-9A-Za-z.]{1,20}$'",
            "'must be the code of an account: 1 to 20 digits, letters or points'",
        ),
        _fault(
            "vat_rate",
            "INVALID",
            f"s.vat_rate !~ {PERCENT}",
            """'must be a percentage from 0 to 100 in a string such as "8"'""",
        ),
        _unseen("party", 60),
        _fault("memo", "INVALID", "length(s.memo) > 500", "'must have at most 500 characters'"),
        _fault(
            "ref_line",
            "INVALID",
            "s.ref_line IS NOT NULL AND s.ref_doc_no IS NULL AND s.type <> 'purchase'",
            "'is a line of the document that ref_doc_no names, and comes with it'",
        ),
        _fault(
            "line_no",
            "DUPLICATE",
            "s.same_no > 1",
            "'is of more than one line; without line_no a line has the number of its place'",
        ),
    ]


def _read_lines() -> None:
    texts = ", ".join(f"'{name}'" for name in TEXTS)
    integers = ", ".join(f"'{name}'" for name in INTEGERS)
    numbers = ",\n".join(
        f"CASE WHEN t.{name} ~ {AMOUNT} THEN t.{name}::numeric END AS {name}_no"
        for name in ("net", "vat", "fc_net", "fc_vat")
    )
    faults = ",\n".join((*_goods(), *_amounts(), *_others()))
    op.execute(rf"""
        CREATE FUNCTION books.read_document_lines(
            company text, heads books.asked_document[], brands text[])
        RETURNS SETOF books.asked_line LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp
        SET plan_cache_mode = force_generic_plan AS $$
        #variable_conflict use_column
        BEGIN
        RETURN QUERY
        WITH sent AS (
            SELECT h.n, e.place::integer AS place, h.type, h.brand, h.store AS head_store,
                   h.currency, h.ref_doc_no, h.minor_digits, h.own_currency AS own,
                   jsonb_typeof(e.d) <> 'object' AS is_other, left(e.d #>> '{{}}', 100) AS body,
                   CASE WHEN jsonb_typeof(e.d) = 'object' THEN e.d ELSE '{{}}' END AS d
              FROM unnest($2) AS h
             CROSS JOIN LATERAL jsonb_array_elements(h.body) WITH ORDINALITY AS e (d, place)),
        t AS MATERIALIZED (
            SELECT r.*, 'lines[' || r.place - 1 || '].' AS at,
                   {", ".join(map(_text, TEXTS))}, {", ".join(map(_integer, INTEGERS))}
              FROM sent r),
        items AS MATERIALIZED (
            SELECT g.said, x.* FROM (SELECT DISTINCT t.item AS said FROM t) g
             CROSS JOIN LATERAL (
                SELECT i.code, i.base_uom, i.qty_scale FROM books.items i
                 WHERE i.company = $1 AND i.code IN (g.said, normalize(g.said, NFC))
                 ORDER BY i.code = g.said DESC LIMIT 1) x),
        stores AS MATERIALIZED (
            SELECT g.said, x.* FROM (SELECT DISTINCT t.store AS said FROM t) g
             CROSS JOIN LATERAL (
                SELECT i.code, i.brand FROM books.stores i
                 WHERE i.company = $1 AND i.code IN (g.said, normalize(g.said, NFC))
                   AND ($3 IS NULL OR i.brand = ANY ($3))
                 ORDER BY i.code = g.said DESC LIMIT 1) x),
        units AS MATERIALIZED (
            SELECT g.item, g.said, x.* FROM (
                SELECT DISTINCT i.code AS item, i.base_uom,
                       coalesce(t.uom, i.base_uom) AS said
                  FROM t JOIN items i ON i.said = t.item) g
             CROSS JOIN LATERAL (
                SELECT u.* FROM (
                    SELECT g.base_uom AS uom, 1 AS num, 1 AS den
                    UNION ALL
                    SELECT y.unit, y.num, y.den FROM books.item_units y
                     WHERE y.company = $1 AND y.item = g.item AND y.unit <> g.base_uom
                       AND y.unit IN (g.said, normalize(g.said, NFC))) u
                 WHERE u.uom IN (g.said, normalize(g.said, NFC))
                 ORDER BY u.uom = g.said DESC LIMIT 1) x),
        s AS MATERIALIZED (
            SELECT t.*, {numbers},
                   count(*) OVER (PARTITION BY t.n, coalesce(t.line_no, t.place)) AS same_no,
                   CASE WHEN t.qty ~ {QUANTITY} THEN t.qty::numeric END AS qty_no,
                   power(10::numeric, t.minor_digits) AS one,
                   i.code AS its_item, i.base_uom, i.qty_scale, u.uom AS its_uom,
                   CASE WHEN t.qty ~ {QUANTITY}
                        THEN div(t.qty::numeric * u.num * power(10::numeric, i.qty_scale), u.den)
                    END AS qty_whole,
                   CASE WHEN t.qty ~ {QUANTITY}
                        THEN mod(t.qty::numeric * u.num * power(10::numeric, i.qty_scale), u.den)
                    END AS qty_rest,
                   x.code AS at_store, x.brand AS store_brand
              FROM t
              LEFT JOIN items i ON i.said = t.item
              LEFT JOIN units u ON u.item = i.code AND u.said = coalesce(t.uom, i.base_uom)
              LEFT JOIN stores x ON x.said = t.store),
        judged AS (
            SELECT s.*, CASE WHEN s.is_other THEN ARRAY[jsonb_build_object(
                       'field', rtrim(s.at, '.'), 'code', 'NOT_AN_OBJECT', 'value', s.body,
                       'rule', 'must be a JSON object')]
                   ELSE CASE WHEN (s.d - ARRAY[{texts}, {integers}]) <> '{{}}'
                               OR jsonb_path_exists(s.d - ARRAY[{integers}], {NO_TEXT})
                               OR (s.d ? 'line_no' AND s.line_no IS NULL)
                               OR (s.d ? 'ref_line' AND s.ref_line IS NULL)
                             THEN books.strange_members(s.d, s.at, ARRAY[{texts}],
                                                        ARRAY[{integers}])
                             ELSE '{{}}' END
                        || array_remove(ARRAY[{faults}], NULL) END AS faults
              FROM s)
        SELECT j.n, j.place, coalesce(j.line_no, j.place), j.its_item,
               CASE WHEN j.qty IS NOT NULL THEN j.its_uom END, trim_scale(j.qty_no),
               CASE WHEN j.qty_whole <= {LARGEST} THEN j.qty_whole::bigint END,
               CASE WHEN abs(j.net_no) * j.one <= {LARGEST} THEN (j.net_no * j.one)::bigint END,
               CASE WHEN abs(j.vat_no) * j.one <= {LARGEST} THEN (j.vat_no * j.one)::bigint END,
               CASE WHEN j.vat_rate ~ {PERCENT} THEN trim_scale(j.vat_rate::numeric) END,
               trim_scale(j.fc_net_no), trim_scale(j.fc_vat_no), j.side, j.account, j.at_store,
               normalize(j.party, NFC), normalize(j.lot_id, NFC), j.ref_line,
               normalize(j.memo, NFC), j.faults
          FROM judged j ORDER BY j.n, j.place;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"DROP FUNCTION {LINES}")
    op.execute("DROP TYPE books.asked_line")

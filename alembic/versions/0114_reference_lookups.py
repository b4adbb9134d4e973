"""A movement that is named is looked up by its id and nothing else, so by no other index.

While a first load of movements is under way, statistics may say that the table is empty. The
planner then takes all its indexes for equal, and 0026 let it choose the one on (company, xid): each
return read every movement of its company, and a load of 200,000 rows did not end.
"""

from alembic import op

revision = "0114_reference_lookups"
down_revision = "0113_document_facts"
branch_labels = None
depends_on = None

NAMES = """
            SELECT f.* INTO stray FROM (
                SELECT DISTINCT company, brand, store FROM fresh
                UNION SELECT DISTINCT company, to_brand, to_store FROM fresh
                       WHERE to_store IS NOT NULL) f
              LEFT JOIN books.stores s
                     ON s.company = f.company AND s.code = f.store AND s.brand = f.brand
             WHERE s.code IS NULL ORDER BY f.company, f.brand, f.store LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'STORE_UNKNOWN: % is no store of brand % of company %',
                    quote_literal(stray.store), quote_literal(stray.brand),
                    quote_literal(stray.company) USING ERRCODE = 'CH103', DETAIL = 'store';
            END IF;
            SELECT f.* INTO stray FROM (SELECT DISTINCT company, item FROM fresh) f
              LEFT JOIN books.items i ON i.company = f.company AND i.code = f.item
             WHERE i.code IS NULL ORDER BY f.company, f.item LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'ITEM_UNKNOWN: % is no item of company %',
                    quote_literal(stray.item), quote_literal(stray.company)
                    USING ERRCODE = 'CH103', DETAIL = 'item';
            END IF;"""

BY_ID = """
            -- A scalar subquery is never turned into a join, which would read the whole table
            -- for every statement of a bulk load that nobody has analyzed yet.
            SELECT f.id, f.ref_movement_id INTO stray FROM fresh f
             WHERE f.ref_movement_id IS NOT NULL
               AND (SELECT o.company = f.company AND o.item = f.item
                      FROM books.stock_movements o WHERE o.id = f.ref_movement_id) IS NOT TRUE
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'REF_UNKNOWN: movement % names %, which is no movement of its item',
                    stray.id, stray.ref_movement_id
                    USING ERRCODE = 'CH103', DETAIL = 'ref_movement_id';
            END IF;
            SELECT f.id, f.reverses_movement_id INTO stray FROM fresh f
             WHERE f.reverses_movement_id IS NOT NULL
               AND (SELECT o.reverses_movement_id IS NULL
                       AND o.company = f.company AND o.item = f.item AND o.store = f.store
                       AND o.to_store IS NOT DISTINCT FROM f.to_store AND o.kind = f.kind
                       AND o.qty_base = f.qty_base AND o.value IS NOT DISTINCT FROM f.value
                      FROM books.stock_movements o WHERE o.id = f.reverses_movement_id) IS NOT TRUE
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'REVERSAL_MISMATCH: movement % does not mirror movement %',
                    stray.id, stray.reverses_movement_id
                    USING ERRCODE = 'CH103', DETAIL = 'reverses_movement_id';
            END IF;"""

AS_IN_0026 = """
            -- A scalar subquery is never turned into a join, which would read the whole table
            -- for every statement of a bulk load that nobody has analyzed yet.
            SELECT f.id, f.ref_movement_id INTO stray FROM fresh f
             WHERE f.ref_movement_id IS NOT NULL
               AND (SELECT true FROM books.stock_movements o WHERE o.id = f.ref_movement_id
                       AND o.company = f.company AND o.item = f.item) IS NULL
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'REF_UNKNOWN: movement % names %, which is no movement of its item',
                    stray.id, stray.ref_movement_id
                    USING ERRCODE = 'CH103', DETAIL = 'ref_movement_id';
            END IF;
            SELECT f.id, f.reverses_movement_id INTO stray FROM fresh f
             WHERE f.reverses_movement_id IS NOT NULL
               AND (SELECT true FROM books.stock_movements o
                    WHERE o.id = f.reverses_movement_id AND o.reverses_movement_id IS NULL
                      AND o.company = f.company AND o.item = f.item AND o.store = f.store
                      AND o.to_store IS NOT DISTINCT FROM f.to_store AND o.kind = f.kind
                      AND o.qty_base = f.qty_base
                      AND o.value IS NOT DISTINCT FROM f.value) IS NULL
             ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'REVERSAL_MISMATCH: movement % does not mirror movement %',
                    stray.id, stray.reverses_movement_id
                    USING ERRCODE = 'CH103', DETAIL = 'reverses_movement_id';
            END IF;"""


def _replace(references: str) -> None:
    op.execute(f"""
        CREATE OR REPLACE FUNCTION books.check_movement_references() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE stray record;
        BEGIN{NAMES}{references}
            RETURN NULL;
        END $$""")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(BY_ID)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(AS_IN_0026)

"""What a movement names must exist: store with its brand, item, origin of a return, reversed row.

Checked once a statement over the transition table instead of by four foreign keys a row. Nobody
but the owner can delete what is named here, so looking once is enough. Returns and reversals are
held to the same company and item, a reversal mirrors its original and is never reversed itself.
"""

from alembic import op

revision = "0026_movement_references"
down_revision = "0025_period_gate"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.check_movement_references() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE stray record;
        BEGIN
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
            END IF;
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
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.check_movement_references() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER stock_movements_references AFTER INSERT ON books.stock_movements
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.check_movement_references()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER stock_movements_references ON books.stock_movements")
    op.execute("DROP FUNCTION books.check_movement_references()")

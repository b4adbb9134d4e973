"""A movement's quantity and value are what its document says, or the statement is refused.

qty_base = qty_doc · num/den · 10^qty_scale without a remainder: a quantity that does not fit is an
error of the document, never rounded. value = R(fc_amount · fc_rate · 10^minor_digits), a half going
up; the rate is what one unit of the foreign currency costs on the document's day. The company's
own currency needs none. Looked at once a statement, like the references.
"""

from alembic import op

revision = "0113_document_facts"
down_revision = "0112_movement_documents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.check_movement_documents() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            stray record;
            in_units boolean;
            in_currencies boolean;
            tens CONSTANT numeric[] := '{1, 10, 100, 1000, 10000, 100000, 1000000}';
        BEGIN
            SELECT bool_or(uom IS NOT NULL), bool_or(currency IS NOT NULL)
              INTO in_units, in_currencies FROM fresh;
            IF in_units THEN
                SELECT f.* INTO stray FROM (
                    SELECT d.id, d.item, d.uom, d.qty_doc, d.qty_base, tens[i.qty_scale + 1] AS one,
                           CASE WHEN d.uom = i.base_uom THEN 1 ELSE u.num END AS num,
                           CASE WHEN d.uom = i.base_uom THEN 1 ELSE u.den END AS den
                      FROM fresh d
                      JOIN books.items i ON i.company = d.company AND i.code = d.item
                      LEFT JOIN books.item_units u
                             ON u.company = d.company AND u.item = d.item AND u.unit = d.uom
                     WHERE d.uom IS NOT NULL) f
                 WHERE f.num IS NULL OR CAST(f.qty_base AS numeric) * f.den
                                        <> f.qty_doc * f.num * f.one
                 ORDER BY f.num IS NOT NULL, f.id LIMIT 1;
                IF FOUND AND stray.num IS NULL THEN
                    RAISE EXCEPTION 'UOM_UNKNOWN: movement %: item % has no unit %', stray.id,
                        quote_literal(stray.item), quote_literal(stray.uom)
                        USING ERRCODE = 'CH103', DETAIL = 'uom';
                ELSIF FOUND THEN
                    RAISE EXCEPTION 'UOM_NOT_EXACT: movement %: % % of item % are not exactly % '
                        'of its base units', stray.id, stray.qty_doc, stray.uom,
                        quote_literal(stray.item), stray.qty_base
                        USING ERRCODE = 'CH107', DETAIL = 'qty_base';
                END IF;
            END IF;
            IF in_currencies THEN
                SELECT f.* INTO stray FROM (
                    SELECT d.id, d.currency, d.fc_amount, d.value,
                           tens[c.minor_digits + 1] AS one,
                           CASE WHEN d.fc_rate IS NULL AND d.currency = c.currency THEN 1
                                ELSE d.fc_rate END AS rate
                      FROM fresh d JOIN books.companies c ON c.code = d.company
                     WHERE d.currency IS NOT NULL) f
                 WHERE f.rate IS NULL
                    OR f.value IS DISTINCT FROM floor(f.fc_amount * f.rate * f.one + 0.5)
                 ORDER BY f.rate IS NOT NULL, f.id LIMIT 1;
                IF FOUND AND stray.rate IS NULL THEN
                    RAISE EXCEPTION 'RATE_MISSING: movement % is in % and names no rate', stray.id,
                        stray.currency USING ERRCODE = 'CH107', DETAIL = 'fc_rate';
                ELSIF FOUND THEN
                    RAISE EXCEPTION 'RATE_MISMATCH: movement %: % % at % are not %', stray.id,
                        stray.fc_amount, stray.currency, stray.rate,
                        coalesce(CAST(stray.value AS text), 'without value')
                        USING ERRCODE = 'CH107', DETAIL = 'value';
                END IF;
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.check_movement_documents() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER stock_movements_documents AFTER INSERT ON books.stock_movements
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.check_movement_documents()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER stock_movements_documents ON books.stock_movements")
    op.execute("DROP FUNCTION books.check_movement_documents()")

"""UOM_NOT_EXACT says in plain numbers what the smallest part is: 0.001 kg, 1 cái, not 10^-3 kg.

The function is long and stays as it is but for these words: they are replaced in its own text, so
that nothing else of it can change. Old code works with either.
"""

from alembic import op

revision = "0199_uom_words"
down_revision = "0198_lost_leases"
branch_labels = None
depends_on = None

LINES = "books.read_document_lines(text, books.asked_document[], text[])"
BEFORE = (
    "are no whole number of 10^-%s %s'",
    "s.item, s.qty_scale, s.base_uom)",
)
AFTER = (
    "is no multiple of %s %s, the smallest part that it is counted in'",
    "s.item, round(power(10::numeric, -s.qty_scale), s.qty_scale), s.base_uom)",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(BEFORE, AFTER)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(AFTER, BEFORE)


def _replace(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Put each of the new words in the place of the old ones, which must be there exactly once."""
    op.execute(f"""
        DO $do$
        DECLARE
            body text := pg_get_functiondef('{LINES}'::regprocedure);
            old text[] := ARRAY[{", ".join(map(_quoted, old))}];
            new text[] := ARRAY[{", ".join(map(_quoted, new))}];
        BEGIN
            FOR n IN 1 .. cardinality(old) LOOP
                IF length(body) - length(replace(body, old[n], '')) <> length(old[n]) THEN
                    RAISE EXCEPTION 'books.read_document_lines is not as expected: %', old[n];
                END IF;
                body := replace(body, old[n], new[n]);
            END LOOP;
            EXECUTE body;
        END $do$""")


def _quoted(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"

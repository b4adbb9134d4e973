"""A root without a name is refused at submit, as a null is: there is no lock of nothing."""

from alembic import op

revision = "0104_named_roots"
down_revision = "0103_archive_members"
branch_labels = None
depends_on = None

RESOLVE = "chot.locks_of(text, text, jsonb, jsonb)"
BEFORE = """                IF root.value IS NULL AND root.fault IS NULL THEN
                    root.fault := root.field || ' is null: it names what the job locks';"""
NOW = """                IF coalesce(root.value, '') = '' AND root.fault IS NULL THEN
                    root.fault := root.field || CASE WHEN root.value IS NULL THEN ' is null'
                        ELSE ' is empty' END || ': it names what the job locks';"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(BEFORE, NOW)


def _replace(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{RESOLVE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.locks_of is not the one that is known here';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(NOW, BEFORE)

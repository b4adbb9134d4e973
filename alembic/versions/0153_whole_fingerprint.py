"""Fingerprint of the whole payload: kinds whose every member says which work it is.

`fingerprint_fields = {*}`: all members as sent, but those that are null, which are the same as
absent. Lists are compared as sets, as in the fields that are named one by one.
"""

from alembic import op

revision = "0153_whole_fingerprint"
down_revision = "0152_put_documents"
branch_labels = None
depends_on = None

BEFORE = """            FOREACH name IN ARRAY fields LOOP"""
NOW = """            IF fields = ARRAY['*'] THEN
                SELECT parts || jsonb_build_array(coalesce(jsonb_object_agg(m.key, CASE
                           WHEN jsonb_typeof(m.value) = 'array' THEN
                               (SELECT coalesce(jsonb_agg(DISTINCT e ORDER BY e), '[]')
                                  FROM jsonb_array_elements(m.value) AS e)
                           ELSE m.value END), '{}'))
                  INTO parts
                  FROM jsonb_each(payload) AS m WHERE jsonb_typeof(m.value) <> 'null';
                work.print := sha256(convert_to(parts::text, 'UTF8'));
                RETURN work;
            END IF;
            FOREACH name IN ARRAY fields LOOP"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(BEFORE, NOW)


def _replace(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef(
            'chot.work_of(text, text, text, jsonb, text[])'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.work_of is not the one that is known here';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(NOW, BEFORE)

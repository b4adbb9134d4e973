"""Lists that together are more than a payload holds are as wide as can be: all.

A caller whose own list was not too long was refused by the CHECK on the size of what it was merged
into, in words about a table it has never heard of.
"""

from alembic import op

revision = "0137_widest_at_last"
down_revision = "0133_files"
branch_labels = None
depends_on = None

MERGE = """
    CREATE OR REPLACE FUNCTION chot.merge_payload(old jsonb, new jsonb, widest text[])
    RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
        {body} $$"""
JOINED = """SELECT chot.merge_payload(old, new) - ARRAY(
                SELECT name FROM unnest(widest) AS name
                 WHERE coalesce(old -> name, 'null') = 'null'
                    OR coalesce(new -> name, 'null') = 'null')"""
BOUNDED = f"""SELECT CASE WHEN octet_length(m.merged::text) > 262144 THEN m.merged - widest
                    ELSE m.merged END
          FROM ({JOINED} AS merged) AS m"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(MERGE.format(body=BOUNDED))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(MERGE.format(body=JOINED))

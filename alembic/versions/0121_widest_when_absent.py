"""A merge that widens: members of which "absent" means "all" absorb every list they meet.

A follow-up that is not there yet is not one that asks for all: the first is taken as it is.
"""

from alembic import op

revision = "0121_widest_when_absent"
down_revision = "0120_cost_differences"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
MERGE = "chot.merge_payload(jsonb, jsonb, text[])"
# (what it said, what it says)
PARTS = (
    (
        "chot.merge_payload(p.payload, enqueue.payload)",
        "chot.merge_payload(p.payload, enqueue.payload, k.widest_when_absent)",
    ),
    (
        """chot.merge_payload(
                           coalesce(j.followup_payload, '{}'), enqueue.payload)""",
        """chot.merge_payload(coalesce(j.followup_payload, enqueue.payload),
                                                             enqueue.payload, k.widest_when_absent)""",
    ),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.kinds ADD COLUMN widest_when_absent text[] NOT NULL DEFAULT '{}'")
    op.execute("""
        CREATE FUNCTION chot.merge_payload(old jsonb, new jsonb, widest text[]) RETURNS jsonb
        LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT chot.merge_payload(old, new) - ARRAY(
                SELECT name FROM unnest(widest) AS name
                 WHERE coalesce(old -> name, 'null') = 'null'
                    OR coalesce(new -> name, 'null') = 'null') $$""")
    op.execute(f"REVOKE ALL ON FUNCTION {MERGE} FROM PUBLIC")
    for old, new in PARTS:
        _replace(old, new)


def _replace(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{ENQUEUE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.enqueue is not the one that is known here: %',
                    $part${old}$part$;
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for old, new in reversed(PARTS):
        _replace(new, old)
    op.execute(f"DROP FUNCTION {MERGE}")
    op.execute("ALTER TABLE chot.kinds DROP COLUMN widest_when_absent")

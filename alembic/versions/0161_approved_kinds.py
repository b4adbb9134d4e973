"""Kinds that are acts: each submit of one is an act of that name, which may ask for an approval.

It is asked for where the rights of the account are known, over HTTP; the wish of any login but the
platform's is refused as that for a kind that is not there (CH001), by whichever function it asks.
"""

from alembic import op

revision = "0161_approved_kinds"
down_revision = "0158_cost_dependants"
branch_labels = None
depends_on = None

REFUSAL = """chot.refusal(chot.kinds, text, text, boolean, text, boolean, jsonb, timestamptz, integer,
                        integer, integer)"""
BEFORE = """                WHEN NOT isfinite(due)"""
NOW = """                WHEN k.approval IS NOT NULL
                     AND NOT pg_has_role(session_user, 'chot_app', 'MEMBER') THEN
                    ARRAY['CH001', 'kind', 'kind ' || quote_literal(k.name)
                          || ' may ask for an approval: it is submitted by POST /v1/jobs']
                WHEN NOT isfinite(due)"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.kinds ADD COLUMN approval text")
    op.execute("""
        ALTER TABLE chot.kinds ADD CONSTRAINT kinds_approval_check
            CHECK (approval IS NULL OR NOT internal)""")
    _replace(BEFORE, NOW)


def _replace(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{REFUSAL}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.refusal is not the one that is known here';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(NOW, BEFORE)
    op.execute("ALTER TABLE chot.kinds DROP COLUMN approval")

"""Kinds whose jobs ask more of an account than to submit: what, is known where its rights are.

That is over HTTP. In SQL nobody knows who asks, so the wish of any login but the platform's is refused
as that for a kind that is not there (CH001), by whichever function it asks.
"""

from alembic import op

revision = "0182_kinds_by_account"
down_revision = "0181_staged_texts"
branch_labels = None
depends_on = None

REFUSAL = """chot.refusal(chot.kinds, text, text, boolean, text, boolean, jsonb, timestamptz, integer,
                        integer, integer)"""
BEFORE = """                WHEN NOT isfinite(due)"""
NOW = """                WHEN k.by_account
                     AND NOT pg_has_role(session_user, 'chot_app', 'MEMBER') THEN
                    ARRAY['CH001', 'kind', 'kind ' || quote_literal(k.name)
                          || ' asks for rights of the account: it is submitted by POST /v1/jobs']
                WHEN NOT isfinite(due)"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.kinds ADD COLUMN by_account boolean NOT NULL DEFAULT false")
    # Until the first new process says so itself.
    op.execute("UPDATE chot.kinds SET by_account = true WHERE name = 'migration.run'")
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
    op.execute("ALTER TABLE chot.kinds DROP COLUMN by_account")

"""Internal kinds: made by the platform and its handlers; nobody submits a job of one from outside.

Routes and spawning handlers come as chot_app. The wish of any other login is refused as that for a
kind that is not there (CH001), by whichever function it asks.
"""

from alembic import op

revision = "0126_internal_kinds"
down_revision = "0125_self_join"
branch_labels = None
depends_on = None

REFUSAL = """chot.refusal(chot.kinds, text, text, boolean, text, boolean, jsonb, timestamptz, integer,
                        integer, integer)"""
BEFORE = """' is unknown']
                WHEN NOT isfinite(due)"""
NOW = """' is unknown']
                WHEN k.internal AND NOT pg_has_role(session_user, 'chot_app', 'MEMBER') THEN
                    ARRAY['CH001', 'kind', 'kind ' || quote_literal(k.name)
                          || ' is not submitted: its jobs are made by '
                          || coalesce(k.made_by, 'the platform')]
                WHEN NOT isfinite(due)"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.kinds ADD COLUMN internal boolean NOT NULL DEFAULT false,
                               ADD COLUMN made_by text""")
    op.execute("""
        ALTER TABLE chot.kinds ADD CONSTRAINT kinds_made_by_check
            CHECK (internal OR made_by IS NULL)""")
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
    op.execute("ALTER TABLE chot.kinds DROP COLUMN made_by, DROP COLUMN internal")

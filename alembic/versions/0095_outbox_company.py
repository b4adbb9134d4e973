"""A message says of which company it is, so that brands of one code in two companies are two lanes.

Rows of code that is older say nothing; they are a lane of their own until they have gone out.
"""

from alembic import op

revision = "0095_outbox_company"
down_revision = "0094_no_jit"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
INSERT_RUN = "chot.insert_run(chot.asked_job[], integer, integer)"
COLUMNS = ("(job_id, queue, kind, brand, trace", "(job_id, queue, kind, company, brand, trace")
# (function, what it said, what it says)
PARTS = (
    (ENQUEUE, *COLUMNS),
    (
        ENQUEUE,
        "fresh, k.queue, enqueue.kind, enqueue.brand,",
        "fresh, k.queue, enqueue.kind, enqueue.company, enqueue.brand,",
    ),
    (
        ENQUEUE,
        "twin.id, twin.queue, twin.kind, twin.brand,",
        "twin.id, twin.queue, twin.kind, twin.company, twin.brand,",
    ),
    (INSERT_RUN, *COLUMNS),
    (
        INSERT_RUN,
        "SELECT r.id, r.queue, r.kind, r.brand, r.trace,",
        "SELECT r.id, r.queue, r.kind, r.company, r.brand, r.trace,",
    ),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.outbox ADD COLUMN company text")
    for function, old, new in PARTS:
        _replace(function, old, new)


def _replace(function: str, old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{function}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION '{function.partition("(")[0]} is not the one that is known here';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for function, old, new in PARTS:
        _replace(function, new, old)
    op.execute("ALTER TABLE chot.outbox DROP COLUMN company")

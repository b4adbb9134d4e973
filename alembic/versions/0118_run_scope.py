"""What a run is asked to cost and by what, and what each of its items was made from.

The digests of opening and closing tell which later results rest on numbers that have changed.
"""

from alembic import op

revision = "0118_run_scope"
down_revision = "0117_cost_numbers"
branch_labels = None
depends_on = None

STATUS = "CHECK (status IN ('building', 'active', 'superseded', 'failed'{more}))"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # scope: as asked, null for all; scope_items: what it came to when the run began.
    op.execute(f"""
        ALTER TABLE books.cost_runs
            ADD COLUMN scope jsonb,
            ADD COLUMN scope_items text[] COLLATE "C",
            ADD COLUMN negative text NOT NULL DEFAULT 'forbid'
                CONSTRAINT cost_runs_negative_check CHECK (negative IN ('forbid', 'provisional')),
            ADD COLUMN dry_run boolean NOT NULL DEFAULT false,
            DROP CONSTRAINT cost_runs_status_check,
            ADD CONSTRAINT cost_runs_status_check {STATUS.format(more=", 'previewed'")},
            ADD CONSTRAINT cost_runs_dry_run_check
                CHECK (status NOT IN ('active', 'superseded') OR NOT dry_run)""")
    # tied: costed together with other brands; refers: rests on costs of earlier periods.
    op.execute("""
        ALTER TABLE books.cost_run_items
            ADD COLUMN opening_digest bytea CHECK (octet_length(opening_digest) = 32),
            ADD COLUMN closing_digest bytea CHECK (octet_length(closing_digest) = 32),
            ADD COLUMN family text COLLATE "C",
            ADD COLUMN part integer CHECK (part >= 0),
            ADD COLUMN method text NOT NULL DEFAULT 'periodic_avg',
            ADD COLUMN tied boolean NOT NULL DEFAULT false,
            ADD COLUMN refers boolean NOT NULL DEFAULT false,
            ADD COLUMN out_of_scope boolean NOT NULL DEFAULT false""")
    op.execute("UPDATE books.cost_run_items SET family = item")
    op.execute("ALTER TABLE books.cost_run_items ALTER COLUMN family SET NOT NULL")
    op.execute("CREATE INDEX cost_run_items_family_idx ON books.cost_run_items (run_id, family)")
    op.execute("""
        ALTER TABLE books.active_results
            ADD COLUMN xid xid8,
            ADD COLUMN digest bytea CHECK (octet_length(digest) = 32),
            ADD COLUMN opening_digest bytea CHECK (octet_length(opening_digest) = 32),
            ADD COLUMN closing_digest bytea CHECK (octet_length(closing_digest) = 32),
            ADD COLUMN method text NOT NULL DEFAULT 'periodic_avg',
            ADD COLUMN tied boolean NOT NULL DEFAULT false,
            ADD COLUMN refers boolean NOT NULL DEFAULT false""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.active_results
            DROP COLUMN xid, DROP COLUMN digest, DROP COLUMN opening_digest,
            DROP COLUMN closing_digest, DROP COLUMN method, DROP COLUMN tied, DROP COLUMN refers""")
    op.execute("""
        ALTER TABLE books.cost_run_items
            DROP COLUMN opening_digest, DROP COLUMN closing_digest, DROP COLUMN family,
            DROP COLUMN part, DROP COLUMN method, DROP COLUMN tied, DROP COLUMN refers,
            DROP COLUMN out_of_scope""")
    op.execute(f"""
        ALTER TABLE books.cost_runs
            DROP CONSTRAINT cost_runs_dry_run_check,
            DROP CONSTRAINT cost_runs_status_check,
            ADD CONSTRAINT cost_runs_status_check {STATUS.format(more="")} NOT VALID,
            DROP COLUMN scope, DROP COLUMN scope_items, DROP COLUMN negative,
            DROP COLUMN dry_run""")

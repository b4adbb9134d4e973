"""Cost runs: one computation of one period, whole or a brand, that becomes visible at once.

`snapshot` says which movements the run has read; `pools` which store lay in which pool. Both are
fixed when the run starts (the snapshot moves only together with the items it changes).
"""

from alembic import op

revision = "0027_cost_runs"
down_revision = "0026_movement_references"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.cost_runs (
            id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            job_id           uuid NOT NULL,
            fence            bigint NOT NULL,
            company          text COLLATE "C" NOT NULL,
            brand            text COLLATE "C",
            period           text COLLATE "C" NOT NULL,
            starts_on        date NOT NULL,
            ends_on          date NOT NULL,
            previous_period  text COLLATE "C",
            method           text NOT NULL,
            pool_policy      text NOT NULL
                CONSTRAINT cost_runs_pool_check CHECK (pool_policy IN ('brand', 'store', 'map')),
            residue_policy   text NOT NULL CONSTRAINT cost_runs_residue_check
                CHECK (residue_policy IN ('cumulative', 'last_issue', 'separate_line')),
            pools            jsonb NOT NULL,
            snapshot         pg_snapshot NOT NULL,
            status           text NOT NULL DEFAULT 'building',
            rounds           integer NOT NULL DEFAULT 0,
            items_total      integer NOT NULL DEFAULT 0,
            items_failed     integer NOT NULL DEFAULT 0,
            movements_total  bigint NOT NULL DEFAULT 0,
            v_opening           numeric(38, 0),
            v_receipt           numeric(38, 0),
            v_gain              numeric(38, 0),
            v_sales_return      numeric(38, 0),
            v_issue             numeric(38, 0),
            v_usage             numeric(38, 0),
            v_purchase_return   numeric(38, 0),
            v_rounding          numeric(38, 0),
            v_variance          numeric(38, 0),
            v_closing           numeric(38, 0),
            checksum         bytea,
            created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            activated_at     timestamptz,
            FOREIGN KEY (company, period) REFERENCES books.periods,
            FOREIGN KEY (company, brand) REFERENCES books.brands,
            CONSTRAINT cost_runs_status_check
                CHECK (status IN ('building', 'active', 'superseded', 'failed')),
            CONSTRAINT cost_runs_activated_check
                CHECK ((status IN ('active', 'superseded')) = (activated_at IS NOT NULL)
                   AND (activated_at IS NULL OR checksum IS NOT NULL AND v_closing IS NOT NULL)),
            CONSTRAINT cost_runs_conserved_check
                CHECK (v_opening + v_receipt + v_gain + v_sales_return
                     = v_issue + v_usage + v_purchase_return + v_rounding + v_closing)
        )""")
    op.execute("""
        CREATE UNIQUE INDEX cost_runs_building_key ON books.cost_runs (job_id)
         WHERE status = 'building'""")
    op.execute("CREATE INDEX cost_runs_period_idx ON books.cost_runs (company, period)")
    op.execute("GRANT SELECT, INSERT, UPDATE ON books.cost_runs TO chot_app")
    op.execute("GRANT SELECT ON books.cost_runs TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.cost_runs")

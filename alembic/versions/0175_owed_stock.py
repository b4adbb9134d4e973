"""What a pool owes beside what it holds: goods that are told apart by lot may do both.

One lot may have gone out before it came in while another one lies there, and their sum has then any
sign: 1 unit worth 100 less 1 owed at 90 is 0 units worth 10. The check of the sum ended the whole run
for it; what is held and what is owed have one each now. Rows that tell nothing apart,
those of before and of workers of the version before, are held against the sum as they were.
"""

from alembic import op

revision = "0175_owed_stock"
down_revision = "0171_movement_documents"
branch_labels = None
depends_on = None

# A partition has a copy of its own beside the one that it inherits.
DROP = """
    DO $$
    DECLARE part regclass;
    BEGIN
        ALTER TABLE books.pool_results DROP CONSTRAINT pool_results_closing_check;
        FOR part IN
            SELECT inhrelid FROM pg_inherits WHERE inhparent = 'books.pool_results'::regclass
        LOOP
            EXECUTE format(
                'ALTER TABLE %s DROP CONSTRAINT IF EXISTS pool_results_closing_check', part);
        END LOOP;
    END $$"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(DROP)
    op.execute("""
        ALTER TABLE books.pool_results
            ADD COLUMN q_owed bigint NOT NULL DEFAULT 0,
            ADD COLUMN v_owed bigint NOT NULL DEFAULT 0""")
    op.execute("""
        ALTER TABLE books.pool_results ADD CONSTRAINT pool_results_closing_check
            CHECK (CASE WHEN q_owed > 0
                        THEN v_owed >= 0
                         AND CASE WHEN q_closing::numeric + q_owed > 0
                                  THEN v_closing::numeric + v_owed >= 0
                                  ELSE q_closing::numeric + q_owed = 0
                                   AND v_closing::numeric + v_owed = 0 END
                        ELSE q_owed = 0 AND v_owed = 0
                         AND CASE WHEN q_closing > 0 THEN v_closing >= 0
                                  WHEN q_closing = 0 THEN v_closing = 0
                                  ELSE v_closing <= 0 END END)""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(DROP)
    op.execute("""
        ALTER TABLE books.pool_results
            DROP COLUMN q_owed, DROP COLUMN v_owed,
            ADD CONSTRAINT pool_results_closing_check
                CHECK (CASE WHEN q_closing > 0 THEN v_closing >= 0
                            WHEN q_closing = 0 THEN v_closing = 0 ELSE v_closing <= 0 END)
                NOT VALID""")

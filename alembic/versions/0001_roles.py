"""Roles and schemas: four roles from the first day, nothing in public.

Roles are cluster-wide and may serve several databases, so a downgrade leaves them.
"""

from alembic import op

revision = "0001_roles"
down_revision = None
branch_labels = None
depends_on = None

ROLES = ("chot_owner", "chot_app", "chot_read", "chot_enqueue")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for role in ROLES:
        # Two databases of one cluster may be migrated at the same moment.
        op.execute(f"""
            DO $$ BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
                    CREATE ROLE {role} LOGIN;
                END IF;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END $$""")
    op.execute("""
        DO $$ BEGIN
            IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
               AND current_user <> 'chot_owner' THEN
                GRANT chot_owner TO CURRENT_USER;
            END IF;
            EXECUTE format('GRANT CONNECT, CREATE, TEMPORARY ON DATABASE %I TO chot_owner',
                           current_database());
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO chot_app, chot_read, chot_enqueue',
                           current_database());
            -- Ceilings for every statement that opens no transaction of its own; transactions
            -- set their limits by SET LOCAL, which also works behind PgBouncer.
            EXECUTE format('ALTER ROLE chot_app IN DATABASE %I SET lock_timeout = ''4s''',
                           current_database());
            EXECUTE format('ALTER ROLE chot_app IN DATABASE %I '
                           'SET idle_in_transaction_session_timeout = ''20s''', current_database());
            EXECUTE format('ALTER ROLE chot_read IN DATABASE %I '
                           'SET default_transaction_read_only = on', current_database());
            EXECUTE format('ALTER ROLE chot_enqueue IN DATABASE %I SET lock_timeout = ''4s''',
                           current_database());
        END $$""")
    op.execute("ALTER SCHEMA chot OWNER TO chot_owner")
    op.execute("CREATE SCHEMA books AUTHORIZATION chot_owner")
    op.execute("GRANT USAGE ON SCHEMA chot, books TO chot_app, chot_read")
    op.execute("GRANT USAGE ON SCHEMA chot TO chot_enqueue")
    op.execute("ALTER TABLE IF EXISTS chot.alembic_version OWNER TO chot_owner")
    op.execute("GRANT SELECT ON chot.alembic_version TO chot_app, chot_read")
    op.execute("SET ROLE chot_owner")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP SCHEMA books")
    op.execute("RESET ROLE")
    op.execute("REVOKE ALL ON SCHEMA chot FROM chot_app, chot_read, chot_enqueue")
    op.execute("ALTER TABLE chot.alembic_version OWNER TO CURRENT_USER")
    op.execute("ALTER SCHEMA chot OWNER TO CURRENT_USER")

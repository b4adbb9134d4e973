"""API keys: who asks, what for, and of a key only its hash.

Role app can read no row and write none: it calls two functions, which answer for a key whose id
it was shown. A process that was broken into neither lists keys nor makes itself one.
"""

from alembic import op

revision = "0040_api_keys"
down_revision = "0034_run_storage"
branch_labels = None
depends_on = None

PUBLIC = (
    "key_id, principal, roles, company, brands, created_at, expires_at, revoked_at, last_used_at"
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.api_keys (
            key_id       text PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{12}$'),
            key_hash     bytea NOT NULL CHECK (octet_length(key_hash) = 32),
            principal    text NOT NULL CHECK (principal ~ '^[a-z0-9][a-z0-9._@-]{0,99}$'),
            roles        text[] NOT NULL CHECK (cardinality(roles) > 0 AND array_position(roles, NULL) IS NULL
                         AND roles <@ ARRAY['submit', 'read', 'operate', 'admin']),
            company      text,
            brands       text[] CHECK (cardinality(brands) > 0 AND array_position(brands, NULL) IS NULL),
            created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at   timestamptz,
            revoked_at   timestamptz,
            last_used_at timestamptz,
            CONSTRAINT api_keys_scope_check CHECK (brands IS NULL OR company IS NOT NULL)
        )""")
    op.execute(f"GRANT SELECT ({PUBLIC}) ON chot.api_keys TO chot_read")
    _find()
    _touch()
    for signature in ("find_api_key(text)", "touch_api_key(text)"):
        op.execute(f"REVOKE ALL ON FUNCTION chot.{signature} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION chot.{signature} TO chot_app")


def _find() -> None:
    op.execute("""
        CREATE FUNCTION chot.find_api_key(asked text)
        RETURNS TABLE (key_hash bytea, principal text, roles text[], company text, brands text[],
                       seconds_left double precision, used_lately boolean)
        LANGUAGE sql STABLE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
            SELECT k.key_hash, k.principal, k.roles, k.company, k.brands,
                   extract(epoch FROM k.expires_at - clock_timestamp())::double precision,
                   coalesce(k.last_used_at > clock_timestamp() - interval '1 minute', false)
              FROM chot.api_keys k
             WHERE k.key_id = asked AND k.revoked_at IS NULL
               AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
        $$""")


def _touch() -> None:
    # Whoever finds the row locked leaves it: another process is writing the same minute.
    op.execute("""
        CREATE FUNCTION chot.touch_api_key(asked text) RETURNS void
        LANGUAGE sql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
            WITH idle AS (
                SELECT k.key_id FROM chot.api_keys k
                 WHERE k.key_id = asked
                   AND (k.last_used_at IS NULL
                        OR k.last_used_at <= clock_timestamp() - interval '1 minute')
                   FOR UPDATE SKIP LOCKED)
            UPDATE chot.api_keys k SET last_used_at = clock_timestamp()
              FROM idle WHERE k.key_id = idle.key_id
        $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.touch_api_key(text)")
    op.execute("DROP FUNCTION chot.find_api_key(text)")
    op.execute("DROP TABLE chot.api_keys")

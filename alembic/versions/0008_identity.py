"""Identity: time-ordered ids (UUIDv7, RFC 9562) and the fingerprint of the work."""

from alembic import op

revision = "0008_identity"
down_revision = "0007_dead_messages"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # 48 bits of milliseconds, version 7 and variant bits, the rest random. PostgreSQL 18 has
    # uuidv7(); 15 to 17 do not. Bit 52 and 53 turn version 4 into 7.
    op.execute("""
        CREATE FUNCTION chot.uuid7() RETURNS uuid
        LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
            SELECT encode(
                set_bit(set_bit(overlay(
                    uuid_send(gen_random_uuid())
                    PLACING substring(int8send(
                        floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
        $$""")
    # The one implementation, for HTTP, Python and SQL callers alike. jsonb's text form is
    # canonical; lists are compared as sets, since the order of shops is not part of the work.
    op.execute(r"""
        CREATE FUNCTION chot.fingerprint(
            kind text, company text, brand text, payload jsonb, fields text[])
        RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            parts jsonb := jsonb_build_array(kind, company, brand);
            field text;
            value jsonb;
        BEGIN
            FOREACH field IN ARRAY fields LOOP
                value := payload -> field;
                IF value IS NULL THEN
                    RAISE EXCEPTION 'payload.% is missing: % needs it to tell one job from another',
                        field, kind USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                END IF;
                IF jsonb_typeof(value) = 'array' THEN
                    IF EXISTS (SELECT FROM jsonb_array_elements(value) AS e
                                WHERE NOT chot.is_fingerprint_scalar(e)) THEN
                        RAISE EXCEPTION 'payload.% holds a member that is no string, integer or '
                            'boolean', field USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                    END IF;
                    SELECT coalesce(jsonb_agg(DISTINCT e ORDER BY e), '[]') INTO value
                      FROM jsonb_array_elements(value) AS e;
                ELSIF NOT chot.is_fingerprint_scalar(value) THEN
                    RAISE EXCEPTION 'payload.% is %: a fingerprint field is a string, an integer, '
                        'a boolean, or a list of them', field, left(value::text, 100)
                        USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                END IF;
                parts := parts || jsonb_build_array(value);
            END LOOP;
            RETURN sha256(convert_to(parts::text, 'UTF8'));
        END $$""")
    op.execute(r"""
        CREATE FUNCTION chot.is_fingerprint_scalar(value jsonb) RETURNS boolean
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT jsonb_typeof(value) IN ('string', 'boolean')
                OR (jsonb_typeof(value) = 'number' AND value::text ~ '^-?[0-9]+$')
        $$""")
    op.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA chot FROM PUBLIC")
    op.execute("""GRANT EXECUTE ON FUNCTION chot.uuid7(), chot.is_fingerprint_scalar(jsonb),
        chot.fingerprint(text, text, text, jsonb, text[]) TO chot_app, chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.fingerprint(text, text, text, jsonb, text[])")
    op.execute("DROP FUNCTION chot.is_fingerprint_scalar(jsonb)")
    op.execute("DROP FUNCTION chot.uuid7()")

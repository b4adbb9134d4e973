"""A submit over HTTP is one statement, one round trip and one commit: chot.submit().

What the api did in seven (limits, look up the key, lock it, look again, enqueue, store the answer,
commit) stands in one function, each step still a statement of its own with a snapshot of its own.
The api of the version before goes on with its seven.
"""

from alembic import op

revision = "0204_submit"
down_revision = "0200_half_full_jobs"
branch_labels = None
depends_on = None

REVOKE = """
    REVOKE ALL ON FUNCTION chot.submit(
        text, text, text, text, text, text, jsonb, timestamptz, integer, integer, text, text,
        integer, text, text, bigint, bytea, integer, integer), chot.shown_instant(timestamptz)
      FROM PUBLIC"""
GRANT = """
    GRANT EXECUTE ON FUNCTION chot.submit(
        text, text, text, text, text, text, jsonb, timestamptz, integer, integer, text, text,
        integer, text, text, bigint, bytea, integer, integer), chot.shown_instant(timestamptz)
      TO chot_app"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION chot.shown_instant(instant timestamptz) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT replace(to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'),
                           '.000000', '') || 'Z'
        $$""")
    # The lock first: under it one look is enough, and a statement of its own it must be, or it
    # would not see what was committed before the lock was ours. Who does not get the lock looks,
    # too: an answer that is there is replayed, whoever is looking at it.
    op.execute("""
        CREATE FUNCTION chot.submit(
            lock_wait text, idle_wait text, actor text, kind text, company text, brand text,
            payload jsonb, run_at timestamptz, priority integer, max_attempts integer,
            principal text, trace text, payload_version integer, named text,
            key text, key_lock bigint, digest bytea, digest_version integer, hours integer)
        RETURNS TABLE (met text, status smallint, headers text, body bytea, job_id uuid,
                       created boolean, request_digest bytea, version smallint)
        LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
        #variable_conflict use_column
        DECLARE
            is_ours boolean;
            made record;
            url text;
        BEGIN
            PERFORM set_config('lock_timeout', lock_wait, true),
                    set_config('idle_in_transaction_session_timeout', idle_wait, true),
                    set_config('chot.actor', actor, true), set_config('jit', 'off', true);
            IF key IS NOT NULL THEN
                is_ours := pg_try_advisory_xact_lock(key_lock);
                RETURN QUERY
                SELECT 'stored', k.status, k.headers::text, k.body, k.job_id, false,
                       k.request_digest, k.digest_version
                  FROM chot.idempotency_keys AS k
                 WHERE k.principal = submit.principal AND k.key = submit.key
                   AND k.expires_at > clock_timestamp();
                IF FOUND THEN
                    RETURN;
                END IF;
                IF NOT is_ours THEN
                    met := 'in progress';
                    RETURN NEXT;
                    RETURN;
                END IF;
            END IF;
            SELECT * INTO STRICT made
              FROM chot.enqueue(submit.kind, submit.company, submit.brand, submit.payload,
                                submit.run_at, submit.priority, submit.max_attempts,
                                submit.principal, submit.trace, submit.payload_version) AS e;
            url := '/v1/jobs/' || made.job_id;
            met := 'accepted';
            status := CASE WHEN made.created THEN 202 ELSE 200 END;
            headers := '{"Location":"' || url || '","Retry-After":"1"}';
            body := convert_to(concat(
                '{"id":"', made.job_id, '",', named, ',"state":"', made.state, '","created":',
                made.created::text, ',"duplicate":',
                coalesce('"' || made.duplicate || '"', 'null'), ',"input_as_of":',
                coalesce('"' || chot.shown_instant(made.input_as_of) || '"', 'null'),
                ',"status_url":"', url, '","links":{"self":"', url, '","cancel":"', url,
                '/cancel"}}'), 'UTF8');
            job_id := made.job_id;
            created := made.created;
            IF key IS NOT NULL THEN
                -- An expired key that no reaper has met is taken over in the same statement.
                INSERT INTO chot.idempotency_keys AS k (
                       principal, key, request_digest, digest_version, status, headers, body,
                       job_id, expires_at)
                VALUES (submit.principal, submit.key, digest, digest_version, submit.status,
                        submit.headers::jsonb, submit.body, submit.job_id,
                        clock_timestamp() + make_interval(hours => hours))
                ON CONFLICT (principal, key) DO UPDATE
                   SET request_digest = excluded.request_digest,
                       digest_version = excluded.digest_version, status = excluded.status,
                       headers = excluded.headers, body = excluded.body,
                       job_id = excluded.job_id, created_at = clock_timestamp(),
                       expires_at = excluded.expires_at
                 WHERE k.expires_at <= clock_timestamp();
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'a live key appeared under its own lock'
                        USING ERRCODE = 'assert_failure';
                END IF;
            END IF;
            RETURN NEXT;
        END $$""")
    op.execute(REVOKE)
    op.execute(GRANT)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.submit")  # there is one of the name
    op.execute("DROP FUNCTION chot.shown_instant(timestamptz)")

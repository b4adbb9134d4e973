"""The audit: who submitted, cancelled, redrove, paused, made a key, and from where.

Append-only: app inserts and reads, and a trigger refuses every change to everybody, its owner and a
superuser included. Whoever must remove a row has to take the trigger away first, which is an act of
its own in the server's log.

A row is written in the transaction of its act. `chot.actor()` tells on whose behalf that transaction
runs: the platform's processes say so by `chot.actor`, set for the transaction; for everybody else
it is the login role. chot.enqueue() writes the submits of all its callers. A set-based insert is
`INSERT INTO chot.audit (…) SELECT … FROM rows CROSS JOIN chot.actor() AS a`.
"""

from alembic import op

revision = "0075_audit"
down_revision = "0063_brand_index"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
NOTE = """INSERT INTO chot.audit (action, principal, key_id, source, request_id, job_id, company,
                                        brand, facts)
                SELECT 'job.submit', who, a.key_id, a.source, a.request_id, {job}, enqueue.company,
                       enqueue.brand, jsonb_build_object('kind', enqueue.kind, 'created', {created},
                                                         'duplicate', {duplicate})
                  FROM chot.actor() AS a;
                """
# Where enqueue() answers: a new job, and the three ways to meet one that is active.
ANSWERS = {
    "RETURN QUERY SELECT fresh, true,": ("fresh", "true", "NULL::text"),
    "RETURN QUERY SELECT twin.id, false, 'joined'": ("twin.id", "false", "'joined'"),
    "RETURN QUERY SELECT twin.id, false, 'merged'": ("twin.id", "false", "'merged'"),
    "RETURN QUERY SELECT twin.id, false, 'follow_up'": ("twin.id", "false", "'follow_up'"),
}


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.audit (
            id          bigint GENERATED ALWAYS AS IDENTITY,
            at          timestamptz NOT NULL DEFAULT clock_timestamp(),
            action      text NOT NULL CHECK (action ~ '^[a-z_]+[.][a-z_]+$'),
            principal   text NOT NULL,
            key_id      text,
            source      inet,
            request_id  uuid,
            job_id      uuid,
            target      text CHECK (octet_length(target) <= 400),
            company     text,
            brand       text,
            approver    text,
            approval_id uuid,
            facts       jsonb NOT NULL DEFAULT '{}' CHECK (octet_length(facts::text) <= 4096),
            CONSTRAINT audit_pkey PRIMARY KEY (at, id),
            CONSTRAINT audit_approver_check
                CHECK (approver IS NULL OR (approval_id IS NOT NULL AND approver <> principal))
        )""")
    # Newest first: for all by the primary key, which serves a large company too; of a small one
    # all rows are read. Acts that are no submit are few among very many.
    op.execute("CREATE INDEX audit_brand_idx ON chot.audit (company, brand, at, id)")
    op.execute("CREATE INDEX audit_principal_idx ON chot.audit (principal, at, id)")
    op.execute("CREATE INDEX audit_job_idx ON chot.audit (job_id) WHERE job_id IS NOT NULL")
    op.execute("""
        CREATE INDEX audit_action_idx ON chot.audit (action, at, id)
         WHERE action <> 'job.submit'""")
    _append_only()
    _actor()
    op.execute("GRANT SELECT, INSERT ON chot.audit TO chot_app")
    op.execute("GRANT SELECT ON chot.audit TO chot_read")
    for answer, (job, created, duplicate) in ANSWERS.items():
        note = NOTE.format(job=job, created=created, duplicate=duplicate)
        _replace_in_enqueue(answer, note + answer)


def _append_only() -> None:
    op.execute("""
        CREATE FUNCTION chot.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            RAISE EXCEPTION 'chot.audit is append-only: % is refused to everybody', TG_OP
                USING ERRCODE = 'CH007', DETAIL = 'audit',
                      HINT = 'What is wrong in it is put right by a further row.';
        END $$""")
    op.execute("""
        CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chot.audit
        FOR EACH STATEMENT EXECUTE FUNCTION chot.refuse_audit_change()""")
    # Also where session_replication_role says that triggers do not fire.
    op.execute("ALTER TABLE chot.audit ENABLE ALWAYS TRIGGER audit_append_only")
    op.execute("REVOKE ALL ON FUNCTION chot.refuse_audit_change() FROM PUBLIC")


def _actor() -> None:
    # Only the platform itself may say on whose behalf it asks, as in enqueue(). Inlined where it
    # is used: no SECURITY DEFINER, no SET.
    op.execute("""
        CREATE FUNCTION chot.actor()
        RETURNS TABLE (principal text, key_id text, source inet, request_id uuid)
        LANGUAGE sql STABLE AS $$
            SELECT coalesce(s.said ->> 'principal', 'sql:' || session_user), s.said ->> 'key_id',
                   CASE WHEN s.said IS NULL THEN inet_client_addr()
                        ELSE (s.said ->> 'source')::inet END,
                   (s.said ->> 'request_id')::uuid
              FROM (SELECT CASE WHEN pg_has_role(session_user, 'chot_app', 'MEMBER')
                                THEN nullif(current_setting('chot.actor', true), '')::jsonb
                           END AS said) AS s
        $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.actor() FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION chot.actor() TO chot_app")


def _replace_in_enqueue(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{ENQUEUE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.enqueue is not the one that 0009 made';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Locked first: somebody may be submitting at this very moment.
    op.execute("LOCK TABLE chot.audit IN ACCESS EXCLUSIVE MODE")
    op.execute("""
        DO $$ BEGIN
            IF EXISTS (SELECT FROM chot.audit) THEN
                RAISE EXCEPTION 'chot.audit has rows that are kept nowhere else'
                    USING HINT = 'Copy what is to be kept, disable its trigger and empty it as '
                                 'its owner, then downgrade again.';
            END IF;
        END $$""")
    for answer, (job, created, duplicate) in ANSWERS.items():
        note = NOTE.format(job=job, created=created, duplicate=duplicate)
        _replace_in_enqueue(note + answer, answer)
    op.execute("DROP FUNCTION chot.actor()")
    op.execute("DROP TABLE chot.audit")
    op.execute("DROP FUNCTION chot.refuse_audit_change()")

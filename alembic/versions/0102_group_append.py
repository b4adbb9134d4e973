"""chot.append_each(): many jobs into one group, set-based, each work once.

Under the group's row lock. A work that the group has already, in whatever state, is that member and
is counted once, so that a call that is repeated changes nothing. A work that is active outside is
refused by the id of its job: CH010. CH011: the member was made of another payload, and its kind
does not join.
"""

from alembic import op

revision = "0102_group_append"
down_revision = "0101_group_index"
branch_labels = None
depends_on = None

APPEND = "chot.append_each(uuid, jsonb)"
JUDGE = "chot.judge(jsonb)"
INSERT_RUN = "chot.insert_run(chot.asked_job[], integer, integer)"
# (function, what it said, what it says)
PARTS = (
    (JUDGE, "\n              FROM printed AS p;", ", NULL::uuid\n              FROM printed AS p;"),
    (INSERT_RUN, "INSERT INTO chot.jobs (id, kind,", "INSERT INTO chot.jobs (group_id, id, kind,"),
    (
        INSERT_RUN,
        "SELECT r.id, r.kind, r.company, r.brand, r.queue, coalesce(r.priority, 5),\n",
        "SELECT r.group_id, r.id, r.kind, r.company, r.brand, r.queue, coalesce(r.priority, 5),\n",
    ),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TYPE chot.asked_job ADD ATTRIBUTE group_id uuid")
    for function, old, new in PARTS:
        _replace(function, old, new)
    _append()
    op.execute(f"REVOKE ALL ON FUNCTION {APPEND} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {APPEND} TO chot_app")


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


def _append() -> None:
    op.execute("""
        CREATE FUNCTION chot.append_each(into_group uuid, jobs jsonb)
        RETURNS TABLE (ordinal integer, job_id uuid, created boolean, state text, code text,
                       field text, message text, twin uuid)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            asked chot.asked_job[];
            fresh chot.asked_job[];
            place integer;
            looks integer := 0;
        BEGIN
            PERFORM chot.refuse_isolation();
            -- Nobody else adds a member, or takes one away, until the caller has committed.
            PERFORM FROM chot.groups g WHERE g.id = append_each.into_group FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'group % is unknown', append_each.into_group
                    USING ERRCODE = 'CH003', DETAIL = 'group';
            END IF;
            SELECT array_agg(a ORDER BY a.work, a.n) INTO asked
              FROM chot.judge(append_each.jobs) AS a;
            LOOP
                looks := looks + 1;
                IF looks > 200 THEN
                    RAISE EXCEPTION 'jobs of this batch changed under every one of 200 looks'
                        USING ERRCODE = 'CH006', DETAIL = 'fingerprint';
                END IF;
                -- A new statement: it sees the jobs that an INSERT has waited for. OFFSET 0: each
                -- work is looked up by its index, whatever the planner believes of how many.
                SELECT array_agg(a ORDER BY a.work) INTO fresh
                  FROM unnest(asked) AS a
                  LEFT JOIN LATERAL (
                      SELECT m.id FROM chot.jobs AS m
                       WHERE m.group_id = append_each.into_group AND m.fingerprint = a.print
                      OFFSET 0) AS own ON true
                  LEFT JOIN LATERAL (
                      SELECT o.id FROM chot.jobs AS o
                       WHERE o.fingerprint = a.print AND o.state IN ('pending', 'running')
                      OFFSET 0) AS other ON true
                 WHERE a.is_first AND a.refused IS NULL AND own.id IS NULL AND other.id IS NULL;
                EXIT WHEN fresh IS NULL;
                FOR place IN 1..cardinality(fresh) LOOP
                    fresh[place].work := place;
                    fresh[place].group_id := append_each.into_group;
                END LOOP;
                BEGIN
                    PERFORM chot.insert_run(fresh, 0, cardinality(fresh) + 1);
                    EXIT;
                EXCEPTION WHEN SQLSTATE 'CH009' THEN
                    NULL;  -- somebody made one of them meanwhile: look again
                END;
            END LOOP;
            UPDATE chot.groups AS g
               SET total = g.total + cardinality(fresh), remaining = g.remaining + cardinality(fresh)
             WHERE g.id = append_each.into_group AND fresh IS NOT NULL;
            RETURN QUERY
            SELECT a.n, CASE WHEN differs THEN NULL ELSE own.id END,
                   CASE WHEN own.id IS NOT NULL AND NOT differs THEN own.id = a.id END,
                   CASE WHEN differs THEN NULL ELSE own.state END,
                   CASE WHEN a.refused IS NOT NULL THEN a.refused[1]
                        WHEN differs THEN 'CH011'
                        WHEN own.id IS NULL AND other.id IS NOT NULL THEN 'CH010'
                        WHEN own.id IS NULL THEN 'CH006' END,
                   CASE WHEN a.refused IS NOT NULL THEN a.refused[2]
                        WHEN differs THEN 'payload' WHEN own.id IS NULL THEN 'payload' END,
                   CASE WHEN a.refused IS NOT NULL THEN a.refused[3]
                        WHEN differs THEN 'job ' || own.id
                             || ' of this group does the same work with another payload'
                        WHEN own.id IS NULL AND other.id IS NOT NULL THEN 'job ' || other.id
                             || ' does this work already, and is no member of this group'
                        WHEN own.id IS NULL THEN 'the job that did this work has just ended' END,
                   CASE WHEN differs THEN own.id
                        WHEN a.refused IS NULL AND own.id IS NULL THEN other.id END
              FROM unnest(asked) AS a
              LEFT JOIN LATERAL (
                  SELECT m.id, m.state, p.payload FROM chot.jobs AS m
                    LEFT JOIN chot.job_payloads AS p
                      ON p.job_id = m.id AND a.on_duplicate <> 'join'
                   WHERE m.group_id = append_each.into_group AND m.fingerprint = a.print
                     AND a.refused IS NULL
                  OFFSET 0) AS own ON true
              LEFT JOIN LATERAL (
                  SELECT o.id FROM chot.jobs AS o
                   WHERE o.fingerprint = a.print AND o.state IN ('pending', 'running')
                     AND a.refused IS NULL
                  OFFSET 0) AS other ON true
             CROSS JOIN LATERAL (
                  SELECT own.id IS NOT NULL AND a.on_duplicate <> 'join'
                         AND own.payload IS DISTINCT FROM a.payload) AS d (differs)
             ORDER BY a.n;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"DROP FUNCTION {APPEND}")
    for function, old, new in PARTS:
        _replace(function, new, old)
    op.execute("ALTER TYPE chot.asked_job DROP ATTRIBUTE group_id")

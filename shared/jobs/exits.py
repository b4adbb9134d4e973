"""Exits: leaving `running` (or `pending`) by ONE statement, fed from its UPDATE's rows."""

from sqlalchemy import TextClause, text

from shared.groups.counter import JOIN_MAY_RUN, counted, join_staged
from shared.jobs.locks import WAKE_AT_EXIT

# Over `gone`. Its row in the audit is of the account that submitted it: whoever ends the job before
# it has not asked for it.
_FOLLOW_UP = """successor AS MATERIALIZED (
        SELECT gone.*, chot.locks_of_followup(gone.id, gone.kind, gone.company, gone.brand,
                                              gone.followup_payload) AS held
          FROM gone
         WHERE state IN ('succeeded', 'cancelled', 'dead') AND followup_payload IS NOT NULL),
    follow AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, trace,
               deployment_id, lock_roots)
        SELECT chot.uuid7(), kind, company, brand, queue, priority, max_attempts,
               clock_timestamp(), fingerprint, on_duplicate, followup_version,
               followup_principal, trace, deployment_id, (held).roots
          FROM successor
        RETURNING *),
    follow_locked AS (
        INSERT INTO chot.job_locks
        SELECT l.* FROM follow JOIN successor USING (fingerprint)
         CROSS JOIN LATERAL chot.lock_rows(follow.id, follow.priority, successor.held) AS l
         WHERE follow.lock_roots IS NOT NULL),
    follow_payload AS (
        INSERT INTO chot.job_payloads (job_id, payload)
        SELECT follow.id, gone.followup_payload FROM follow JOIN gone USING (fingerprint)),
    follow_noted AS (
        INSERT INTO chot.audit (action, principal, job_id, company, brand, facts)
        SELECT 'job.submit', follow.principal, follow.id, follow.company, follow.brand,
               jsonb_build_object('kind', follow.kind, 'created', true, 'duplicate', NULL,
                                  'follows', gone.id)
          FROM follow JOIN gone USING (fingerprint))"""

_COUNTED = counted(
    """SELECT group_id, count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
                      count(*) FILTER (WHERE state = 'dead') AS dead,
                      count(*) FILTER (WHERE state = 'cancelled') AS cancelled
                 FROM gone
                WHERE group_id IS NOT NULL AND state IN ('succeeded', 'cancelled', 'dead')
                GROUP BY group_id"""
)
# Over `gone`: nobody has to end first. What waits for a group is staged by its end.
_JOINED = f"""(joins IS NULL OR EXISTS (
               SELECT FROM chot.groups g WHERE g.id = joins AND {JOIN_MAY_RUN}))"""


def exit_statement(
    update: str,
    *,
    outcome: str,
    error: str = ":error",
    kept_error: str | None = None,
    also: str = "",
    wakes: bool = False,
) -> TextClause:
    """Compose an exit from `running` (or `pending`): ONE statement, fed from the UPDATE's rows.

    `update` is a conditional `UPDATE chot.jobs j … WHERE …` without RETURNING. Whatever depends
    on having won hangs on its RETURNING: the attempt is closed, result and error are stored (a
    success without a result still forgets the error of an earlier attempt), a follow-up becomes a
    job once its predecessor's fingerprint is free, the group (locked by a statement before) counts
    a member less, messages are staged: the last member that ends stages the group's join. A
    follow-up inserted earlier would violate the unique index, an attempt closed earlier would
    deadlock with a claim.
    The job keeps `kept_error` (the attempt's error unless given). `also` is a further CTE over
    `gone`. `wakes` is for jobs with business locks: who may run now is given a message. Binds
    besides those of `update`: `:error`, `:result` (JSON text). Answers a row for each job that
    left: id, state, kind, queue, fence, attempt, wait_seconds.

    Model: action exit_missed.
    """
    kept_error = kept_error or f"CAST({error} AS jsonb)"
    also = also and f"{also},"
    if wakes:
        also += f"{WAKE_AT_EXIT},"
    return text(f"""
    WITH {"RECURSIVE" if wakes else ""} gone AS ({update}
        RETURNING j.*),
    {also}
    closed AS (
        UPDATE chot.attempts a
           SET outcome = {outcome}, ended_at = clock_timestamp(),
               error = CAST({error} AS jsonb), checkpoint_no = gone.checkpoint_no
          FROM gone
         WHERE a.job_id = gone.id AND a.fence = gone.fence AND a.outcome IS NULL),
    told AS (
        INSERT INTO chot.job_outputs AS o (job_id, result, error)
        SELECT id, CAST(:result AS jsonb), {kept_error} FROM gone
         WHERE CAST(:result AS jsonb) IS NOT NULL OR {kept_error} IS NOT NULL
        ON CONFLICT (job_id) DO UPDATE SET result = excluded.result, error = excluded.error),
    forgotten AS (
        UPDATE chot.job_outputs o SET error = NULL FROM gone
         WHERE o.job_id = gone.id AND gone.state = 'succeeded' AND o.error IS NOT NULL
           AND CAST(:result AS jsonb) IS NULL),
    {_FOLLOW_UP},
    counted AS ({_COUNTED}),
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        SELECT id, queue, kind, company, brand, trace, priority, available_at FROM gone
         WHERE state = 'pending' AND {_JOINED}
        UNION ALL
        SELECT id, queue, kind, company, brand, trace, priority, available_at FROM follow
        UNION ALL {join_staged("counted")})
    SELECT id, state, kind, queue, fence, attempt,
           extract(epoch FROM available_at - clock_timestamp())::double precision AS wait_seconds
      FROM gone""")

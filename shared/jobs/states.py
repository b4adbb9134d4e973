"""The state machine, and the SQL fragments that every transition is composed of.

pending ──claim──► running ──complete──► succeeded
   ▲  │               │ ├──fail, attempts left──► pending (backoff)
   │  └──cancel──►    │ ├──fail, none left──────► dead ──redrive──► pending
   │      cancelled ◄─┘ └──lease expired────────► pending, or dead when no attempt is left
   └──release (drain, yield): pending again, not charged

Every transition is one conditional UPDATE that names the state (and fence) it leaves; its row
count is the only truth about who won.
"""

from sqlalchemy import TextClause, text

from shared.types import JobState

TRANSITIONS = frozenset(
    {
        (JobState.PENDING, JobState.RUNNING),
        (JobState.PENDING, JobState.CANCELLED),
        (JobState.RUNNING, JobState.SUCCEEDED),
        (JobState.RUNNING, JobState.PENDING),
        (JobState.RUNNING, JobState.DEAD),
        (JobState.RUNNING, JobState.CANCELLED),
        (JobState.DEAD, JobState.PENDING),
    }
)

# Claimable is ONE predicate over `j`: relay, reconciler and claim all use it, and /why tells which
# of its parts does not hold.
CLAIMABLE_PARTS = {
    "due": "j.available_at <= clock_timestamp()",
    "unpaused": """NOT EXISTS (
            SELECT FROM chot.queues cq WHERE cq.name = j.queue AND cq.paused)""",
}
CLAIMABLE = f"({' AND '.join(CLAIMABLE_PARTS.values())})"

# The last part of it: somebody alive could run the job. A worker that claims is its own proof.
# Over `wq` and `w`, a worker's row of the job's queue; and over `w` and `j`.
LIVE_WORKERS = """chot.worker_queues wq JOIN chot.workers w USING (worker_id)
         WHERE wq.queue = j.queue AND w.live_until > clock_timestamp()"""
KNOWS_KIND = "(w.kinds ->> j.kind)::integer >= j.payload_version"
KNOWN_TO_A_LIVE_WORKER = f"""EXISTS (
        SELECT FROM {LIVE_WORKERS}
           AND {KNOWS_KIND})"""

# Lost leases count once this claim or reaping has counted the one that just ran out.
LOST_LEASES = "(j.lost_leases + (j.state = 'running')::integer)"

# Without the lost leases and the uncharged releases, the attempts that were charged.
CHARGED = "(j.attempt - j.lost_leases - j.interruptions)"

ATTEMPTS_LEFT_AFTER_LOSS = f"""(j.attempt - {LOST_LEASES} - j.interruptions < j.max_attempts
        AND {LOST_LEASES} < 2 * j.max_attempts)"""

# After its second lost lease a job runs alone, so that the one that kills its process is proven.
RUNS_ALONE_AFTER = 2

# A reservation that stands for a place of its job's kind, over `aq`: from when it is made, so that
# nobody takes the place while its worker's other jobs end, until the job itself runs in it.
HOLDS_A_PLACE = """(aq.alone_until > clock_timestamp() AND NOT EXISTS (
        SELECT FROM chot.jobs ar WHERE ar.state = 'running' AND ar.kind = aq.alone_kind
           AND ar.worker_id = aq.alone_worker))"""


def places_taken(reservation: str = "true") -> str:
    """SQL over `j` and its kind `k`: how many of the kind run, or hold a place, beside the job.

    `reservation` is a predicate over `aq`, on the reservations that count.
    """
    return f"""((SELECT count(*) FROM chot.jobs r
                  WHERE r.state = 'running' AND r.kind = j.kind AND r.id <> j.id)
              + (SELECT count(*) FROM chot.queues aq
                  WHERE aq.alone_kind = k.name AND {HOLDS_A_PLACE} AND {reservation}))"""


# Over `gone`. Its row in the audit is of the account that submitted it: whoever ends the job before
# it has not asked for it.
_FOLLOW_UP = """follow AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, trace,
               deployment_id)
        SELECT chot.uuid7(), kind, company, brand, queue, priority, max_attempts,
               clock_timestamp(), fingerprint, on_duplicate, followup_version,
               followup_principal, trace, deployment_id
          FROM gone
         WHERE state IN ('succeeded', 'cancelled', 'dead') AND followup_payload IS NOT NULL
        RETURNING *),
    follow_payload AS (
        INSERT INTO chot.job_payloads (job_id, payload)
        SELECT follow.id, gone.followup_payload FROM follow JOIN gone USING (fingerprint)),
    follow_noted AS (
        INSERT INTO chot.audit (action, principal, job_id, company, brand, facts)
        SELECT 'job.submit', follow.principal, follow.id, follow.company, follow.brand,
               jsonb_build_object('kind', follow.kind, 'created', true, 'duplicate', NULL,
                                  'follows', gone.id)
          FROM follow JOIN gone USING (fingerprint))"""


def exit_statement(
    update: str,
    *,
    outcome: str,
    error: str = ":error",
    kept_error: str | None = None,
    also: str = "",
) -> TextClause:
    """Compose an exit from `running` (or `pending`): ONE statement, fed from the UPDATE's rows.

    `update` is a conditional `UPDATE chot.jobs j … WHERE …` without RETURNING. Whatever depends
    on having won hangs on its RETURNING: the attempt is closed, result and error are stored (a
    success without a result still forgets the error of an earlier attempt), a follow-up becomes a
    job once its predecessor's fingerprint is free, messages are staged. A follow-up inserted
    earlier would violate the unique index, an attempt closed earlier would deadlock with a claim.
    The job keeps `kept_error` (the attempt's error unless given). `also` is a further CTE over
    `gone`. Binds besides those of `update`:
    `:error`, `:result` (JSON text). Answers a row for each job that left: id, state, kind,
    queue, fence, attempt, wait_seconds.
    """
    kept_error = kept_error or f"CAST({error} AS jsonb)"
    also = also and f"{also},"
    return text(f"""
    WITH gone AS ({update}
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
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, brand, trace, priority, next_send_at)
        SELECT id, queue, kind, brand, trace, priority, available_at FROM gone
         WHERE state = 'pending'
        UNION ALL
        SELECT id, queue, kind, brand, trace, priority, available_at FROM follow)
    SELECT id, state, kind, queue, fence, attempt,
           extract(epoch FROM available_at - clock_timestamp())::double precision AS wait_seconds
      FROM gone""")

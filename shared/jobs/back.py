"""Back: dead → pending by ONE statement, fed from its UPDATE's rows."""

from sqlalchemy import TextClause, text

from shared.audit import Action, noted_job
from shared.groups.counter import REOPENED

# Over `j`: the job that does the same work and is active, or NULL.
ACTIVE_TWIN = """(SELECT t.id FROM chot.jobs t
             WHERE t.fingerprint = j.fingerprint AND t.state IN ('pending', 'running'))"""


def redrive_statement(which: str, *, staged: str = "true") -> TextClause:
    """From dead to pending, for the jobs `j` of which `which` holds; their group counts them again.

    Counters only grow, so the budget rises above what has been used of it. A follow-up has become
    a job of its own when this one died and must not be born twice. A group that had ended is
    sealed again, in a new generation. Messages are written where `staged` holds over `back`.
    Binds besides those of `which`: `:approver`, `:approval_id`. Answers the jobs' ids.
    """
    return text(f"""
    WITH back AS (
        UPDATE chot.jobs j
           SET state = 'pending', finished_at = NULL, available_at = clock_timestamp(),
               followup_payload = NULL, followup_version = NULL, followup_principal = NULL,
               progress_done = NULL, progress_message = NULL, started_at = NULL,
               redriven_at = clock_timestamp(),
               redriven_by = (SELECT a.principal FROM chot.actor() AS a),
               redriven_approver = CAST(:approver AS text),
               max_attempts = greatest(j.attempt - j.lost_leases - j.interruptions,
                                       (j.lost_leases + 1) / 2)
                            + coalesce((SELECT k.max_attempts FROM chot.kinds k
                                         WHERE k.name = j.kind), 1)
         WHERE {which} AND j.state = 'dead' AND NOT j.cleanup_due
        RETURNING j.*),
    counted AS (
        UPDATE chot.groups g
           SET remaining = g.remaining + b.n, dead = g.dead - b.n, {REOPENED}
          FROM (SELECT group_id, count(*) AS n FROM back
                 WHERE group_id IS NOT NULL GROUP BY group_id) AS b
         WHERE g.id = b.group_id),
    {
        noted_job(
            Action.JOB_REDRIVE,
            "back",
            approver="CAST(:approver AS text)",
            approval_id="CAST(:approval_id AS uuid)",
        )
    },
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        SELECT id, queue, kind, company, brand, trace, priority, available_at FROM back
         WHERE {staged})
    SELECT id FROM back""")

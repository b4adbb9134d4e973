"""Staging: whether a job's message waits in the outbox, and one for whoever is due without it."""

# Over `j`. A row that a relay has taken is no proof: its message may be out already, received and
# deleted, and the row about to go. One message more than is needed is a claim miss and no harm.
NO_MESSAGE_WAITS = """NOT EXISTS (SELECT FROM chot.outbox o
                        WHERE o.job_id = j.id AND o.quarantined_at IS NULL
                          AND o.take_token IS NULL)"""


def staged_due(jobs: str) -> str:
    """A CTE, named `staged`, with a row for each message written for a due job without one.

    `jobs` is a FROM clause that has the jobs as `j`.
    """
    return f"""staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        SELECT j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority, j.available_at
          FROM {jobs}
         WHERE j.state = 'pending' AND j.available_at <= clock_timestamp()
           AND {NO_MESSAGE_WAITS}
        RETURNING 1)"""

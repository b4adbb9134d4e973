"""The counter of a group: SQL over `g`, a row of chot.groups that a statement before has locked.

open ──seal──► sealed ──last member ends──► ended
  └──────┴──fail fast, cancel──► cancelling ──last member ends──► ended

A group that is cancelling takes no member more, so that its end is the end of its last member; one
that is empty ends at once. What became of it (`outcome`) is fixed by what makes it `cancelling`, or
by its end.
"""

# The group has ended so that its join may run.
JOIN_MAY_RUN = "(g.state = 'ended' AND g.outcome = 'succeeded')"


def moved(
    *,
    succeeded: str = "0",
    dead: str = "0",
    cancelled: str = "0",
    sealed: str = "false",
    stopped: str = "false",
) -> str:
    """The SET list of an UPDATE of `g`: so many members have ended, and what follows of it.

    `sealed` and `stopped` are predicates: the group is closed, or cancelled by somebody. The counts
    are SQL expressions, too. Everything is said of the row as it is when it is updated.
    """
    counts = f"""SELECT g.remaining - ({succeeded}) - ({dead}) - ({cancelled}) AS remaining,
                        CAST({succeeded} AS integer) AS succeeded,
                        g.dead + ({dead}) AS dead, g.cancelled + ({cancelled}) AS cancelled"""
    return f"""(remaining, succeeded, dead, cancelled, state, outcome, sealed_at, ended_at,
                join_due) = (
               SELECT n.remaining, g.succeeded + n.succeeded, n.dead, n.cancelled,
                      CASE WHEN n.ends THEN 'ended'
                           WHEN {stopped} OR n.fails_fast THEN 'cancelling'
                           WHEN {sealed} AND g.state = 'open' THEN 'sealed'
                           ELSE g.state END,
                      n.outcome,
                      CASE WHEN n.closed THEN coalesce(g.sealed_at, clock_timestamp()) END,
                      CASE WHEN n.ends THEN clock_timestamp() END,
                      n.ends AND g.join_job_id IS NOT NULL AND n.outcome <> 'succeeded'
                 FROM (SELECT e.*, coalesce(g.outcome, CASE
                                  WHEN {stopped} THEN 'cancelled'
                                  WHEN e.fails_fast THEN 'failed'
                                  WHEN e.ends AND e.failed AND g.policy <> 'join' THEN 'failed'
                                  WHEN e.ends THEN 'succeeded' END) AS outcome
                         FROM (SELECT c.*, c.closed AND c.remaining = 0 AS ends
                                 FROM (SELECT f.*, g.state <> 'open' OR {sealed} OR {stopped}
                                                   OR f.fails_fast AS closed
                                         FROM (SELECT d.*, d.dead + d.cancelled > 0 AS failed,
                                                      g.policy = 'fail_fast'
                                                      AND d.dead + d.cancelled > 0 AS fails_fast
                                                 FROM ({counts}) AS d) AS f) AS c) AS e) AS n)"""


def counted(ended: str) -> str:
    """The UPDATE of the groups whose members have ended; `ended` is a query of how many, by group.

    It answers group_id, succeeded, dead and cancelled; the UPDATE the groups as they are now.
    """
    changes = moved(succeeded="e.succeeded", dead="e.dead", cancelled="e.cancelled")
    return f"""
        UPDATE chot.groups g
           SET {changes}
          FROM ({ended}) AS e
         WHERE g.id = e.group_id
        RETURNING g.*"""


def join_staged(groups: str) -> str:
    """A SELECT of the outbox row of the join of each of `groups` that has ended so that it may run.

    Columns: job_id, queue, kind, company, brand, trace, priority, next_send_at.
    """
    return f"""
        SELECT j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority, j.available_at
          FROM {groups} g JOIN chot.jobs j ON j.id = g.join_job_id AND j.joins = g.id
         WHERE {JOIN_MAY_RUN} AND j.state = 'pending'"""


# Something of an ended group is to be done again. It is closed, however it was before.
REOPENED = """state = CASE g.state WHEN 'ended' THEN 'sealed' ELSE g.state END,
               outcome = CASE g.state WHEN 'ended' THEN NULL ELSE g.outcome END,
               generation = g.generation + (g.state = 'ended')::integer,
               ended_at = NULL, join_due = false"""

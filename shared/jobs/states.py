"""The state machine, and the SQL fragments that every transition is composed of.

pending ──claim──► running ──complete──► succeeded
   ▲  │               │ ├──fail, attempts left──► pending (backoff)
   │  └──cancel──►    │ ├──fail, none left──────► dead ──redrive──► pending
   │      cancelled ◄─┘ └──lease expired────────► pending, or dead when no attempt is left
   └──release (drain, yield): pending again, not charged

Every transition is one conditional UPDATE that names the state (and fence) it leaves; its row
count is the only truth about who won.
"""

from shared.groups.counter import JOIN_MAY_RUN
from shared.jobs.stops import books_frozen, kind_paused
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
    "kind_unpaused": f"NOT {kind_paused('j')}",
    "unfrozen": f"NOT {books_frozen('j')}",
    "resumed": "j.paused_at IS NULL",
    "goes_on": """NOT EXISTS (
            SELECT FROM chot.groups cg WHERE cg.id = j.group_id AND cg.state = 'cancelling')""",
    "joined": f"""(j.joins IS NULL OR EXISTS (
            SELECT FROM chot.groups g WHERE g.id = j.joins AND {JOIN_MAY_RUN}))""",
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

"""The protections: what the code does so that nothing breaks. Each can be taken away."""

from dataclasses import dataclass

from shared.model.state import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """`implements` names the code that protects; without it the property `breaks` falls."""

    implements: str
    promise: str
    breaks: str


def _protects(implements: str, breaks: str, promise: str) -> Protection:
    return Protection(implements=implements, promise=promise, breaks=breaks)


PROTECTIONS: dict[str, Protection] = {
    "fence_compares_fence": _protects(
        "worker.lease.HOLD_FENCE", "only_the_owner_writes", "the fence names fence and token"
    ),
    "fence_compares_state": _protects(
        "worker.lease.HOLD_FENCE", "terminal_is_final", "the fence wants the job to be running"
    ),
    "fence_compares_checkpoint": _protects(
        "worker.lease.HOLD_FENCE",
        "the_owner_knows",
        "the fence names the checkpoint_no that its worker knows",
    ),
    "fence_locks_row": _protects(
        "worker.lease.hold_fence",
        "only_the_owner_writes",
        "the fence is an UPDATE: nobody moves the row before the COMMIT",
    ),
    "effects_behind_fence": _protects(
        "worker.fence.fenced_transaction",
        "effect_once",
        "effects are written inside the transaction that the fence rolls back",
    ),
    "effects_and_completion_one_commit": _protects(
        "worker.fence.fenced_transaction",
        "succeeded_is_complete",
        "the last effects and the completion are one commit",
    ),
    "settle_doubt": _protects(
        "worker.lease.settle_doubt",
        "the_owner_knows",
        "after a lost answer the database is asked, nothing is guessed",
    ),
    "read_input_after_claim": _protects(
        "worker.claim.read_input",
        "effect_once",
        "the checkpoint is read by a new statement after the claim has committed",
    ),
    "claim_checks_state": _protects(
        "worker.claim.MAY_BE_CLAIMED",
        "terminal_is_final",
        "only pending, or running and expired, is claimed",
    ),
    "claim_checks_expiry": _protects(
        "worker.claim.MAY_BE_CLAIMED",
        "a_live_lease_is_kept",
        "a running job is taken over only when its lease ran out",
    ),
    "claim_checks_attempts_left": _protects(
        "shared.jobs.states.ATTEMPTS_LEFT_AFTER_LOSS",
        "counters_within_budget",
        "a take-over, too, needs attempts left",
    ),
    "claim_closes_attempt": _protects(
        "worker.claim.CLAIM_JOBS",
        "attempts_are_closed",
        "a take-over closes its predecessor's attempt",
    ),
    "lost_lease_counted": _protects(
        "shared.jobs.states.LOST_LEASES",
        "counters_are_true",
        "a lease that ran out is counted as lost, not charged",
    ),
    "free_releases_capped": _protects(
        "worker.outcome.FREE_RELEASES",
        "counters_within_budget",
        "releases without progress are free only so often",
    ),
    "exit_compares_fence": _protects(
        "worker.outcome.OURS", "a_live_lease_is_kept", "fail and release name fence and token"
    ),
    "exit_compares_state": _protects(
        "worker.outcome.OURS", "terminal_is_final", "fail and release leave running only"
    ),
    "exit_closes_attempt": _protects(
        "shared.jobs.exits.exit_statement",
        "attempts_are_closed",
        "whoever ends a run closes its attempt in the same statement",
    ),
    "exit_stages_message": _protects(
        "shared.jobs.exits.exit_statement",
        "pending_is_announced",
        "whoever makes a job pending stages its message in the same statement",
    ),
    "submit_stages_message": _protects(
        "shared.jobs.enqueue.enqueue",
        "pending_is_announced",
        "job and outbox row are one transaction",
    ),
    "outbox_after_commit": _protects(
        "shared.outbox.Relay", "messages_of_committed_jobs", "only committed rows are published"
    ),
    "relay_deletes_only_sent": _protects(
        "shared.outbox.DELETE_SENT",
        "pending_is_announced",
        "a row goes only when SQS took its message",
    ),
    "delete_after_outcome": _protects(
        "worker.deliveries.Deliveries",
        "pending_is_announced",
        "a message is deleted after the outcome is stored, not at its receipt",
    ),
    "reaper": _protects("worker.reaper.reap_expired", "every_run_ends", "expired jobs are reaped"),
    "reaper_checks_expiry": _protects(
        "worker.reaper.REAP_EXPIRED",
        "a_live_lease_is_kept",
        "the reaper's UPDATE says the expiry again",
    ),
    "reconciler": _protects(
        "worker.reconciler.restage_lost", "every_run_ends", "lost messages are published again"
    ),
    "idle_in_transaction_timeout": _protects(
        "shared.database.set_limits",
        "every_run_ends",
        "a stopped worker's open transaction is ended by the server",
    ),
    "renew_compares_owner": _protects(
        "worker.lease.RENEW_LEASES",
        "only_the_owner_renews",
        "a heartbeat renews under its own fence and token only",
    ),
    "cancel_checks_state": _protects(
        "shared.jobs.cancel.CANCEL_JOB", "terminal_is_final", "only an active job is cancelled"
    ),
    "redrive_waits_for_cleanup": _protects(
        "shared.jobs.redrive.REDRIVE_JOB",
        "cleanup_is_of_the_ended",
        "a redrive waits until the clean-up is done",
    ),
    "unique_active_fingerprint": _protects(
        "shared.jobs.enqueue.enqueue",
        "one_active_job_per_work",
        "the unique index covers pending and running",
    ),
}

# What the design says nothing depends on. Without any of these, safety and end still hold.
COURTESIES: dict[str, str] = {
    "heartbeat": "worker.heartbeat.Heart",
    "miss_keeps_running": "worker.settle.settle",
    "lost_keeps_message": "worker.service.Worker",
}

ALL = frozenset(PROTECTIONS) | frozenset(COURTESIES)

# The reduction of zombies (see explore) is sound while these are in force.
REDUCTION_NEEDS = frozenset(
    {
        "fence_compares_fence",
        "fence_compares_state",
        "fence_locks_row",
        "effects_behind_fence",
        "effects_and_completion_one_commit",
        "exit_compares_fence",
        "exit_compares_state",
        "renew_compares_owner",
        "read_input_after_claim",
        "settle_doubt",
        "claim_checks_state",
        "cancel_checks_state",
    }
)


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds and the protections in force; `"reaper" in rules` asks for one."""

    bounds: Bounds
    protections: frozenset[str] = ALL

    def __post_init__(self) -> None:
        """A misspelt protection must not pass for one that was removed."""
        unknown = self.protections - ALL
        if unknown:
            raise ValueError(f"no such protection: {', '.join(sorted(unknown))}")

    def __contains__(self, name: str) -> bool:
        assert name in ALL, f"no such protection: {name}"
        return name in self.protections


def without(*names: str) -> frozenset[str]:
    """Every protection but these."""
    unknown = set(names) - ALL
    if unknown:
        raise ValueError(f"no such protection: {', '.join(sorted(unknown))}")
    return ALL - set(names)

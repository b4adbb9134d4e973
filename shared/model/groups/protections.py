"""The protections of the world of groups. Each can be taken away."""

from shared.model.protections import Protection


def _protects(implements: str, breaks: str, promise: str) -> Protection:
    return Protection(implements=implements, promise=promise, breaks=breaks)


PROTECTIONS: dict[str, Protection] = {
    "group_locked_first": _protects(
        "shared.jobs.guards.lock_guards",
        "every_run_ends",
        "the group's row is locked by a statement before the one that counts and decides",
    ),
    "counter_in_fence": _protects(
        "shared.jobs.exits.exit_statement",
        "every_run_ends",
        "the counter falls in the statement that ends the child",
    ),
    "join_started_in_fence": _protects(
        "shared.groups.counter.join_staged",
        "join_starts_once",
        "the last ending itself ends the group and stages the join, in its one statement",
    ),
    "zero_by_counter": _protects(
        "shared.groups.counter.moved",
        "every_run_ends",
        "who is last is read off the counter row, not off the siblings in a snapshot",
    ),
    "counter_fed_from_returning": _protects(
        "shared.groups.counter.counted",
        "counter_is_true",
        "the counter falls by the rows that the conditional UPDATE has returned",
    ),
    "reaper_counts": _protects(
        "worker.reaper.reap_expired", "counter_is_true", "a burial counts as any other ending"
    ),
    "cancel_counts": _protects(
        "shared.jobs.cancel.cancel_job", "counter_is_true", "a cancel counts as any other ending"
    ),
    "only_sealed_ends": _protects(
        "shared.groups.counter.moved",
        "join_after_all",
        "an open group may stand at zero: more children may come",
    ),
    "seal_ends_the_empty": _protects(
        "shared.groups.fill.SEAL",
        "every_run_ends",
        "the seal of a group whose children have all ended ends it",
    ),
    "append_under_lock": _protects(
        "shared.groups.fill.append_jobs",
        "nothing_in_an_ended_group",
        "an append looks at the group's state under its lock",
    ),
    "spawn_behind_fence": _protects(
        "worker.spawn.carry_out",
        "nothing_in_an_ended_group",
        "children that a job spawns commit with its fence or not at all",
    ),
    "claim_asks_the_group": _protects(
        "shared.jobs.states.CLAIMABLE_PARTS",
        "nothing_starts_when_cancelled",
        "that the group is not being cancelled is part of Claimable",
    ),
    "cancelling_is_finished": _protects(
        "shared.groups.stop.stop_groups",
        "every_run_ends",
        "maintenance cancels the children of a group that is marked, whoever marked it",
    ),
    "join_waits_for_the_end": _protects(
        "shared.groups.counter.JOIN_MAY_RUN",
        "join_after_all",
        "that the group has ended favourably is part of Claimable",
    ),
    "join_claim_locks_group": _protects(
        "worker.claim.LOCK_JOINED",
        "join_after_all",
        "the claim of a join locks its group's row first: a redrive would open the group again",
    ),
    "join_is_ended": _protects(
        "shared.groups.stop.END_JOIN",
        "every_run_ends",
        "maintenance ends the join of a group that has ended ill",
    ),
    "group_before_jobs": _protects(
        "shared.jobs.guards.lock_guards", "no_deadlock", "the group's row before any job's"
    ),
    "redrive_waits_for_join": _protects(
        "shared.jobs.redrive.JoinRuns",
        "join_after_all",
        "no member is redriven while the join runs",
    ),
    "redrive_counts": _protects(
        "shared.jobs.back.redrive_statement",
        "counter_is_true",
        "the redrive of a child counts it again, in its statement",
    ),
    "redrive_under_lock": _protects(
        "shared.groups.group.lock_group",
        "nothing_in_an_ended_group",
        "the redrive of a child looks at the group's state under its lock",
    ),
    "reconciler": _protects(
        "worker.reconciler.restage_lost", "every_run_ends", "a join's lost message is staged again"
    ),
}
KNOWN = frozenset(PROTECTIONS)

"""The actions of the world of groups, and the code that each stands for."""

from shared.model.actions import ActionSpec


def _fair(implements: str | None, words: str) -> ActionSpec:
    return ActionSpec(kind="fair", implements=implements, words=words)


def _choice(implements: str | None, words: str) -> ActionSpec:
    return ActionSpec(kind="choice", implements=implements, words=words)


def _fault(words: str) -> ActionSpec:
    return ActionSpec(kind="fault", implements=None, words=words)


def _mutant(implements: str, words: str) -> ActionSpec:
    return ActionSpec(kind="mutant", implements=implements, words=words)


ACTIONS: dict[str, ActionSpec] = {
    "receive": _fair("worker.receiver.Receiver", "{who} receives a message of {job}"),
    "claim": _fair("worker.claim.claim_jobs", "{who} claims {job}"),
    "miss_delete": _fair("worker.settle.settle", "{who} misses {job}, deletes the message"),
    "group_row": _fair(
        "shared.jobs.guards.lock_guards", "{who} locks the group's row, to {purpose} {job}"
    ),
    "ask": _choice(None, "{who} is about to {purpose} {job}"),
    "complete": _fair("worker.outcome.complete_job", "{who} completes {job}; {group}"),
    "fail": _fair("worker.outcome.fail_job", "{who} fails {job}, no attempt is left; {group}"),
    "reap": _fair("worker.reaper.reap_expired", "{who} reaps {job}: pending again"),
    "bury": _fair("worker.reaper.reap_expired", "{who} reaps {job}: dead; {group}"),
    "cancel": _fair("shared.jobs.cancel.cancel_job", "{who} cancels {job}; {group}"),
    "stop_member": _fair(
        "shared.groups.stop.stop_members", "{who} cancels {job} of the cancelled group; {group}"
    ),
    "spawn": _fair("worker.spawn.carry_out", "{who} spawns {job}; {group}"),
    "append": _fair("shared.groups.fill.append_jobs", "{who} appends {job}; {group}"),
    "seal": _fair("shared.groups.fill.seal_group", "{who} seals the group; {group}"),
    "cancel_group": _fair(
        "shared.groups.stop.cancel_group",
        "{who} cancels the group: no child starts any more; {group}",
    ),
    "end_join": _fair("shared.groups.stop._end_join", "{who} ends {job}, which must not run"),
    "redrive_child": _fair("shared.jobs.redrive.redrive_job", "{who} redrives {job}; {group}"),
    "redrive_group": _fair(
        "shared.groups.redrive.redrive_group", "{who} redrives the group: a new generation; {group}"
    ),
    "refused": _fair(None, "{who} is refused: {group}"),
    "lose_lease": _fair("worker.lease.hold_fence", "{who} finds its claim of {job} over"),
    "reconcile": _fair("worker.reconciler.restage_lost", "reconciler stages {job} again"),
    "idle_timeout": _fair(
        "shared.database.set_limits", "the server ends {who}'s idle transaction on {job}"
    ),
    "expire": _fault("{job}'s lease runs out although its owner lives"),
    "expire_unheld": _fair(None, "{job}'s lease runs out: nobody renews it"),
    "pause": _fault("{who} is stopped (SIGSTOP)"),
    "resume": _fault("{who} goes on (SIGCONT)"),
    "crash": _fault("{who} is killed"),
    "lose": _fault("SQS loses {job}'s message"),
    "look": _mutant("shared.jobs.guards.lock_guards", "{who} reads the group, to {purpose} {job}"),
    "count_later": _mutant("shared.jobs.guards.lock_guards", "{who} counts {job}'s end; {group}"),
    "lock_row": _mutant("shared.jobs.guards.lock_guards", "{who} locks {job}'s row first"),
}

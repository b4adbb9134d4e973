"""The actions of the world of locks, and the code that each stands for."""

from shared.model.actions import ActionSpec


def _fair(implements: str | None, words: str) -> ActionSpec:
    return ActionSpec(kind="fair", implements=implements, words=words)


def _choice(implements: str | None, words: str) -> ActionSpec:
    return ActionSpec(kind="choice", implements=implements, words=words)


def _fault(words: str) -> ActionSpec:
    return ActionSpec(kind="fault", implements=None, words=words)


ACTIONS: dict[str, ActionSpec] = {
    "submit": _choice("shared.jobs.enqueue.enqueue", "{job} is submitted, with its message"),
    "receive": _fair("worker.receiver.Receiver", "{worker} receives a message of {job}"),
    "claim_root": _fair(
        "worker.claim._claim_locked", "{worker} locks a root of {job}, to claim it"
    ),
    "claim_check": _fair(
        "worker.claim._claim_locked", "{worker} looks whether {job} may be claimed: {verdict}"
    ),
    "claim": _fair("worker.claim.claim_jobs", "{worker} has claimed {job}: COMMIT"),
    "register": _fair(
        "worker.claim._claim_locked", "{worker} has registered {job} as a waiter: COMMIT"
    ),
    "miss_delete": _fair("worker.settle.settle", "{worker} misses {job}, deletes the message"),
    "exit_root": _fair(
        "shared.jobs.guards.lock_guards", "{worker} locks a root of {job}, to {purpose}"
    ),
    "exit_check": _fair(
        "shared.jobs.locks.wake", "{worker} looks whom the end of {job} frees: {wakes}"
    ),
    "complete": _fair("worker.outcome.complete_job", "{worker} completes {job}: COMMIT"),
    "ask_release": _choice(None, "{worker}'s handler of {job} asks to be run again later"),
    "release": _fair("worker.outcome.release_job", "{worker} hands {job} back: COMMIT"),
    "reap": _fair("worker.reaper.reap_expired", "{worker} reaps {job}, its lease ran out: COMMIT"),
    "ask_cancel": _choice(None, "a client cancels {job}"),
    "cancel": _fair("shared.jobs.cancel.cancel_job", "{worker} cancels {job}: COMMIT"),
    "lose_lease": _fair("worker.lease.hold_fence", "{worker} finds its claim of {job} over"),
    "exit_missed": _fair(
        "shared.jobs.exits.exit_statement", "{worker} finds that {job} has changed, and rolls back"
    ),
    "renew": _choice("worker.lease.renew_leases", "{worker}'s heartbeat renews {job}'s lease"),
    "wake_net": _fair(
        "shared.jobs.locks.wake_waiters",
        "maintenance wakes {job}, for whom nobody stands in the way",
    ),
    "reconcile": _fair("worker.reconciler.restage_lost", "reconciler stages {job} again"),
    "pause_queue": _choice("shared.jobs.pause.pause_queue", "an operator pauses the queue"),
    "resume_queue": _choice("shared.jobs.pause.resume_queue", "an operator resumes the queue"),
    "idle_timeout": _fair(
        "shared.database.set_limits", "the server ends {worker}'s idle transaction on {job}"
    ),
    "expire": _fault("{job}'s lease runs out although its owner lives"),
    "expire_unheld": _fair(None, "{job}'s lease runs out: nobody renews it"),
    "pause": _fault("{worker} is stopped (SIGSTOP)"),
    "resume": _fault("{worker} goes on (SIGCONT)"),
    "crash": _fault("{worker} is killed; {job}'s message becomes visible again"),
    "duplicate": _fault("SQS repeats {job}'s message"),
    "lose": _fault("SQS loses {job}'s message"),
}

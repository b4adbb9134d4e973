"""The protections of the world of locks. Each can be taken away."""

from shared.model.protections import Protection


def _protects(implements: str, breaks: str, promise: str) -> Protection:
    return Protection(implements=implements, promise=promise, breaks=breaks)


PROTECTIONS: dict[str, Protection] = {
    "roots_before_check": _protects(
        "worker.claim._claim_locked",
        "no_two_holders",
        "a claim locks its roots by a statement of its own before it looks who holds",
    ),
    "expired_holder_counts": _protects(
        "shared.jobs.locks.holders",
        "no_two_holders",
        "who is running holds, whatever the lease says",
    ),
    "exits_lock_roots": _protects(
        "shared.jobs.guards.lock_guards",
        "runnable_is_announced",
        "who leaves running locks the roots before it looks who waits",
    ),
    "exit_wakes": _protects(
        "shared.jobs.locks.WAKE_AT_EXIT",
        "runnable_is_announced",
        "the exit's statement stages messages of those it frees",
    ),
    "waiter_registered_in_claim": _protects(
        "shared.jobs.locks.REGISTER",
        "runnable_is_announced",
        "a claim that must wait registers in its own transaction, the roots still locked",
    ),
    "blocked_again_is_unwoken": _protects(
        "shared.jobs.locks.REGISTER",
        "runnable_is_announced",
        "a waiter that was woken in vain may be woken again",
    ),
    "cancel_of_waiter_wakes": _protects(
        "shared.jobs.cancel.cancel_job",
        "runnable_is_announced",
        "the cancel of a waiter wakes those that it had reserved against",
    ),
    "wake_judges_own_roots": _protects(
        "shared.jobs.locks.wake",
        "runnable_is_announced",
        "an exit asks who is free at the roots it has locked, not at those of others",
    ),
    "reservation": _protects(
        "shared.jobs.locks.waiters_before",
        "rank_order_is_kept",
        "a waiter reserves against later ranks",
    ),
    "woken_still_reserves": _protects(
        "shared.jobs.locks.waiters_before",
        "rank_order_is_kept",
        "a waiter reserves until it is claimed or ends, also once it is woken",
    ),
    "reservation_in_one_order": _protects(
        "shared.jobs.locks.waiters_before",
        "waiters_do_not_wait_in_a_circle",
        "one total order of ranks, not of arrival at each root",
    ),
    "reservers_are_claimable": _protects(
        "shared.jobs.locks.could_run",
        "every_run_ends",
        "who may not be claimed anyhow (paused, not due) reserves nothing",
    ),
    "roots_in_key_order": _protects(
        "shared.jobs.guards.LOCK_ROOTS",
        "no_deadlock",
        "roots are locked in the order of their keys",
    ),
    "wake_net": _protects(
        "shared.jobs.locks.wake_waiters",
        "every_run_ends",
        "maintenance wakes whom a pause, a kind or a lost message has freed",
    ),
}
KNOWN = frozenset(PROTECTIONS)

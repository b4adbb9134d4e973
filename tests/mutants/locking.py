"""Bugs in business locks: who holds, who waits before whom, and who is woken."""

from tests.mutants.mutant import mutant

LOCKS = "shared/jobs/locks.py"
RULES = "protocol/test_locks.py"
RACES = "protocol/test_lock_races.py"

MUTANTS = (
    mutant(
        "a claim looks for conflicts under no root's row",
        (
            "worker/claim.py",
            'held = (await conn.execute(LOCK_ROOTS, {"roots": roots.roots})).all()',
            "held = roots.roots",
        ),
        f"{RACES}::test_of_two_claims_at_once_one_wins",
        also={
            f"{RULES}::test_a_registration_waits_for_the_holders_exit": "nobody waits for anybody",
        },
    ),
    mutant(
        "an exit locks no root's row",
        (
            "shared/jobs/guards.py",
            "        await _lock_roots(conn, guards.roots)\n",
            "        pass\n",
        ),
        f"{RULES}::test_a_registration_waits_for_the_holders_exit",
    ),
    mutant(
        "a holder whose lease ran out holds no more",
        (
            LOCKS,
            "WHERE r.state = 'running' AND r.lock_roots IS",
            "WHERE r.state = 'running' AND r.lease_expires_at > now() AND r.lock_roots IS",
        ),
        f"{RULES}::test_an_expired_holder_holds_until_it_is_moved_out_of_running",
    ),
    mutant(
        "a waiter reserves nothing",
        (LOCKS, "AND wj.id <> ALL({gone}) AND {at}", "AND false"),
        f"{RULES}::test_a_stream_of_readers_does_not_starve_a_writer",
    ),
    mutant(
        "a job that ends wakes nobody",
        (
            "worker/outcome.py",
            "COMPLETE_LOCKED if held.guards.roots else COMPLETE_JOB",
            "COMPLETE_JOB",
        ),
        f"{RULES}::test_readers_run_together_and_a_writer_waits_for_all",
    ),
    mutant(
        "an exit asks for the roots of others, too",
        (LOCKS, '_AT_FREED = "m.root IN (SELECT f.root FROM freed f)"', '_AT_FREED = "true"'),
        "protocol/test_wake_two_roots.py::test_two_exits_on_two_roots_wake_the_waiter_of_both",
    ),
    mutant(
        "a batch claims what has locks",
        ("worker/claim.py", 'HAS_NO_LOCKS = "j.lock_roots IS NULL"', 'HAS_NO_LOCKS = "true"'),
        f"{RULES}::test_a_batch_passes_over_a_job_that_locks",
    ),
)

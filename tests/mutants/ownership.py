"""Bugs in who owns a job: claim, lease, fence, a COMMIT in doubt."""

from tests.mutants.mutant import mutant

CLAIM, LEASE, FENCE = "worker/claim.py", "worker/lease.py", "worker/fence.py"
HEART, OUTCOME, REAPER = "worker/heartbeat.py", "worker/outcome.py", "worker/reaper.py"

WAITED_FOR = "protocol/test_doubt.py::test_a_commit_still_on_its_way_is_waited_for[False]"
UNASKED = "whoever does not ask the database waits for no answer either"

MUTANTS = (
    # Claim and takeover
    mutant(
        "the claim judges the lease by now()",
        (CLAIM, "j.lease_expires_at <= clock_timestamp()))", "j.lease_expires_at <= now()))"),
        "protocol/test_claim.py"
        "::test_the_lease_is_judged_by_the_clock_not_by_the_transactions_start",
    ),
    mutant(
        "the claim ignores the expiry",
        (CLAIM, "j.lease_expires_at <= clock_timestamp()))", "j.lease_expires_at IS NOT NULL))"),
        "protocol/test_claim.py::test_a_live_lease_is_not_taken",
    ),
    mutant(
        "the second arm of the claim asks for no attempts left",
        (
            CLAIM,
            "   AND {ATTEMPTS_LEFT_AFTER_LOSS}\n",
            "   AND (j.state = 'running' OR {ATTEMPTS_LEFT_AFTER_LOSS})\n",
        ),
        "protocol/test_claim.py::test_no_attempts_left_means_no_takeover",
    ),
    mutant(
        "a lease lost to a takeover is not counted",
        (
            CLAIM,
            "lost_leases = {LOST_LEASES}, lease_token",
            "lost_leases = j.lost_leases, lease_token",
        ),
        "protocol/test_claim.py::test_an_expired_lease_is_taken_over_once_and_counted",
    ),
    mutant(
        "a batch of claims waits for a frozen row",
        (
            CLAIM,
            'CLAIM_JOBS = _claim_statement(\n    "SKIP LOCKED", ',
            'CLAIM_JOBS = _claim_statement(\n    "", ',
        ),
        "protocol/test_claim.py::test_one_frozen_row_does_not_hold_nine_others",
    ),
    mutant(
        "the claim locks FOR UPDATE",
        (CLAIM, "FOR NO KEY UPDATE OF j {lock}", "FOR UPDATE OF j {lock}"),
        "protocol/test_claim.py::test_a_foreign_key_to_the_job_does_not_blind_claim_or_reaper",
    ),
    mutant(
        "the checkpoint is read in the claim's own statement",
        (
            CLAIM,
            '           j.taken_over FROM claimed j""")',
            (
                "           j.taken_over, (SELECT o.checkpoint::text FROM chot.job_outputs o\n"
                '             WHERE o.job_id = j.id) AS early FROM claimed j""")'
            ),
        ),
        "protocol/test_claim.py::test_the_checkpoint_read_after_a_claim_is_the_zombies_last_one",
        (CLAIM, "job_of(row, payload=None)", 'job_of(row, payload=getattr(row, "early", None))'),
        (
            CLAIM,
            "    return row.payload, row.checkpoint\n",
            "    return row.payload, held.job.payload\n",
        ),
    ),
    # Lease
    mutant(
        "the reaper locks FOR UPDATE",
        (REAPER, "LIMIT {BATCH} FOR NO KEY UPDATE SKIP", "LIMIT {BATCH} FOR UPDATE SKIP"),
        "protocol/test_reaper.py::test_a_foreign_key_to_the_job_does_not_blind_the_reaper",
    ),
    mutant(
        "the reaper believes what it once saw",
        (
            REAPER,
            (
                "     WHERE j.id = expired.id AND j.state = 'running'"
                " AND j.lease_token = expired.lease_token\n"
                '       AND j.lease_expires_at <= clock_timestamp()"'
            ),
            '     WHERE j.id = expired.id"',
        ),
        "protocol/test_reaper.py::test_a_stale_sight_of_the_rows_changes_none",
    ),
    mutant(
        "a lease lost to the reaper is not counted",
        (REAPER, "lost_leases = {LOST_LEASES},", "lost_leases = j.lost_leases,"),
        "protocol/test_reaper.py::test_a_job_that_keeps_losing_its_worker_is_buried",
    ),
    mutant(
        "the heartbeat waits for locked rows",
        (
            LEASE,
            "ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED)",
            "ORDER BY j.id FOR NO KEY UPDATE OF j)",
        ),
        "protocol/test_lease.py::test_an_open_row_lock_costs_only_its_own_renewal",
    ),
    mutant(
        "the heartbeat uses the jobs' pool",
        (
            HEART,
            (
                "async with asyncio.timeout(self._timing.heartbeat), engine.connect() as conn:\n"
                "                    await self._beat(conn)\n"
            ),
            (
                "await asyncio.wrap_future(\n"
                "                    asyncio.run_coroutine_threadsafe(self._beat_shared(), self._jobs)\n"
                "                )\n"
            ),
        ),
        "protocol/test_heart.py::test_jobs_that_hold_every_connection_starve_no_renewal",
        (
            HEART,
            "    async def _beat(self, conn: AsyncConnection) -> None:\n",
            (
                "    async def _beat_shared(self) -> None:\n"
                "        from shared.database import OPENED, driver_url\n\n"
                "        engine = OPENED[driver_url(self._database_url)]\n"
                '        shared = engine.execution_options(isolation_level="AUTOCOMMIT")\n'
                "        async with asyncio.timeout(self._timing.heartbeat), shared.connect() as conn:\n"
                "            await self._beat(conn)\n\n"
                "    async def _beat(self, conn: AsyncConnection) -> None:\n"
            ),
        ),
        (
            HEART,
            "        self._ping = loop.call_soon_threadsafe\n",
            "        self._ping, self._jobs = loop.call_soon_threadsafe, loop\n",
        ),
        (
            "shared/database.py",
            "    RestingConnections().watch(engine.sync_engine)\n    return engine\n",
            (
                "    RestingConnections().watch(engine.sync_engine)\n"
                '    if "heartbeat" not in application_name:\n'
                "        OPENED[driver_url(url)] = engine\n"
                "    return engine\n\n\n"
                "OPENED: dict[str, AsyncEngine] = {}\n"
            ),
        ),
    ),
    mutant(
        "a renewal compares no token",
        (
            LEASE,
            "         WHERE j.fence = m.fence AND j.lease_token = m.token AND j.state",
            "         WHERE j.fence = m.fence AND j.state",
        ),
        "protocol/test_lease.py::test_a_renewal_compares_fence_and_token[token]",
        (
            LEASE,
            "     WHERE j.id = l.id AND j.fence = m.fence AND j.lease_token = m.token AND j.state",
            "     WHERE j.id = l.id AND j.fence = m.fence AND j.state",
        ),
    ),
    mutant(
        "a worker goes on past its own deadline",
        (
            LEASE,
            "if self.stopped is None and monotonic() >= self.deadline:",
            "if self.stopped is None and monotonic() < 0:",
        ),
        "unit/worker/test_lease.py::test_past_its_deadline_a_lease_stops_its_job",
    ),
    # Fence
    mutant(
        "the fence is a plain SELECT",
        (
            LEASE,
            (
                "         WHERE j.id = :job_id AND j.fence = :fence AND j.lease_token = :token\n"
                "           AND j.state = 'running' AND j.checkpoint_no = :checkpoint_no\n"
            ),
            (
                "         WHERE j.id = (SELECT c.id FROM chot.jobs c\n"
                "                        WHERE c.id = :job_id AND c.fence = :fence\n"
                "                          AND c.lease_token = :token AND c.state = 'running'\n"
                "                          AND c.checkpoint_no = :checkpoint_no)\n"
            ),
        ),
        "protocol/test_fence.py::test_a_fence_behind_a_takeover_judges_the_row_anew[False]",
    ),
    mutant(
        "the fence compares no checkpoint_no",
        (
            LEASE,
            "AND j.state = 'running' AND j.checkpoint_no = :checkpoint_no",
            "AND j.state = 'running' AND :checkpoint_no >= 0",
        ),
        "protocol/test_fence.py::test_a_second_commit_of_one_checkpoint_is_refused[False]",
    ),
    mutant(
        "the completion has no fence",
        (
            OUTCOME,
            "     WHERE {OURS} AND j.checkpoint_no = :checkpoint_no",
            (
                "     WHERE j.id = :job_id AND j.state = 'running' AND :fence > 0\n"
                "       AND CAST(:token AS uuid) IS NOT NULL AND j.checkpoint_no = :checkpoint_no"
            ),
        ),
        "protocol/test_fence.py::test_a_zombie_whose_lease_was_taken_commits_nothing[True]",
        also={
            "protocol/test_outcome.py::test_an_exit_of_the_old_owner_changes_nothing[token]": (
                "it tries every exit, and the completion is one"
            ),
        },
    ),
    mutant(
        "a raw COPY runs before the transaction is open",
        (
            FENCE,
            (
                "            async with answered_within(timing.statement):\n"
                "                pid = await set_limits(\n"
                "                    conn, lock_timeout=timing.lock_timeout,"
                " idle_timeout=timing.idle_in_transaction\n"
                "                )\n"
                "            driver = await driver_connection(conn)\n"
                "            held.session = Session(driver=driver, pid=pid, began=monotonic())\n"
            ),
            "",
        ),
        "protocol/test_fence.py::test_a_copy_as_first_act_is_inside_the_transaction",
    ),
    # In doubt
    mutant(
        "a commit in doubt is taken for lost",
        (
            FENCE,
            "        if not await _was_committed(engine, held, timing):\n            raise\n",
            "        raise\n",
        ),
        "protocol/test_doubt.py::test_a_commit_whose_answer_is_lost_counts_once[False]",
        also={WAITED_FOR: UNASKED},
    ),
    mutant(
        "a commit in doubt is taken for done",
        (
            FENCE,
            "        if not await _was_committed(engine, held, timing):\n            raise\n",
            "",
        ),
        "protocol/test_doubt.py::test_a_commit_that_never_arrived_is_not_assumed[False]",
        also={WAITED_FOR: UNASKED},
    ),
    mutant(
        "the question after a doubt does not lock the job",
        (LEASE, '    await conn.execute(LOCK_JOB, {"job_id": lease.job_id})\n', ""),
        WAITED_FOR,
    ),
)

"""Bugs in what becomes of the work: exits, submits, messages, maintenance."""

from tests.mutants.mutant import mutant

EXITS, OUTCOME, OUTBOX = "shared/jobs/exits.py", "worker/outcome.py", "shared/outbox.py"
COMPLETIONS = "worker/completions.py"
JOBS, ENQUEUE = "alembic/versions/0003_jobs.py", "alembic/versions/0009_enqueue.py"
BULK = "alembic/versions/0086_enqueue_each.py"

MUTANTS = (
    # Exits
    mutant(
        "the attempts row is closed before the fence",
        (
            OUTCOME,
            'OURS = """j.id = :job_id AND',
            (
                'OURS = """(SELECT count(*) FROM (SELECT FROM chot.attempts b\n'
                "               WHERE b.job_id = :job_id AND b.fence = :fence AND b.outcome IS NULL\n"
                "                 FOR NO KEY UPDATE) AS touched) >= 0\n"
                "           AND j.id = :job_id AND"
            ),
        ),
        "protocol/test_outcome.py::test_an_exit_behind_a_takeover_is_refused_at_once",
    ),
    mutant(
        "an exit compares no token",
        (
            OUTCOME,
            "AND j.fence = :fence AND j.lease_token = :token",
            "AND j.fence = :fence AND CAST(:token AS uuid) IS NOT NULL",
        ),
        "protocol/test_outcome.py::test_an_exit_of_the_old_owner_changes_nothing[token]",
    ),
    mutant(
        "a cancel believes what it once saw",
        (
            "shared/jobs/cancel.py",
            "WHERE j.id = :job_id AND j.state IN ('pending', 'running')",
            (
                "WHERE j.id = (SELECT c.id FROM chot.jobs c\n"
                "                    WHERE c.id = :job_id AND c.state IN ('pending', 'running'))"
            ),
        ),
        "protocol/test_outcome.py::test_a_cancel_waits_for_a_commit_and_is_too_late",
    ),
    mutant(
        "a cancel sees no attempt of a claim on its way",
        (
            "shared/jobs/cancel.py",
            '    await conn.execute(LOCK_JOB, {"job_id": job_id})\n',
            "",
        ),
        (
            "protocol/test_cancel_meets_claim.py::"
            "test_a_cancel_closes_the_attempt_of_a_claim_that_commits_meanwhile"
        ),
    ),
    mutant(
        "an interruption is charged",
        (
            OUTCOME,
            "interruptions = j.interruptions + {_FREE}::integer",
            "interruptions = j.interruptions",
        ),
        "protocol/test_outcome.py::test_the_twenty_first_release_in_place_is_charged",
    ),
    mutant(
        "a follow-up is born at success alone",
        (
            EXITS,
            "WHERE state IN ('succeeded', 'cancelled', 'dead') AND",
            "WHERE state = 'succeeded' AND",
        ),
        "protocol/test_outcome.py::test_any_end_turns_the_follow_up_into_a_job[cancel]",
    ),
    mutant(
        "a retry stages no message",
        (EXITS, "WHERE state = 'pending' AND {_JOINED}", "WHERE state = 'none' AND {_JOINED}"),
        "protocol/test_outcome.py::test_an_exit_closes_its_attempt_and_stages_what_is_due[retry]",
    ),
    # Submits
    mutant(
        "running work is not unique",
        (
            JOBS,
            (
                "jobs_active_fingerprint_key ON chot.jobs (fingerprint)\n"
                "         WHERE state IN ('pending', 'running')"
            ),
            (
                "jobs_active_fingerprint_key ON chot.jobs (fingerprint)\n"
                "         WHERE state IN ('pending')"
            ),
        ),
        "protocol/test_duplicates.py::test_the_index_alone_would_refuse_a_second_active_job",
        # Else no submit would find its index any more, and every test would fail.
        (
            ENQUEUE,
            "ON CONFLICT (fingerprint) WHERE state IN ('pending', 'running') DO NOTHING",
            "ON CONFLICT (fingerprint) WHERE state IN ('pending') DO NOTHING",
        ),
        also={
            "protocol/test_outcome.py::test_any_end_turns_the_follow_up_into_a_job[cancel]": (
                "what should become a follow-up of running work becomes a second job at once"
            ),
        },
    ),
    mutant(
        "a submit looks once for its twin",
        (ENQUEUE, "FOR race IN 1..20 LOOP", "FOR race IN 1..1 LOOP"),
        "protocol/test_duplicates.py::test_a_twin_that_ends_between_insert_and_look_is_replaced[probe.write]",
    ),
    mutant(
        "a batch of submits keeps its caller's order",
        (
            BULK,
            "ORDER BY r.work\n                ON CONFLICT",
            "ORDER BY r.n\n                ON CONFLICT",
        ),
        "protocol/test_bulk.py::test_a_batch_holds_no_work_above_the_one_it_waits_for",
    ),
    mutant(
        "a key is not looked up again once its lock is ours",
        (
            "api/idempotency.py",
            "    return await _find(conn, asked) or Fresh()\n",
            "    return Fresh()\n",
        ),
        "protocol/api/test_idempotency.py::test_the_answer_stored_while_we_tried_the_lock_is_seen",
    ),
    mutant(
        "a batch of completions waits for a frozen row",
        (
            COMPLETIONS,
            "ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED)",
            "ORDER BY j.id FOR NO KEY UPDATE OF j)",
        ),
        "protocol/test_completions.py::test_a_frozen_row_keeps_no_other_job",
    ),
    mutant(
        "a batch of completions compares no token",
        (
            COMPLETIONS,
            "           AND j.lease_token = m.token AND j.state = 'running'\n           AND j.followup",
            "           AND j.state = 'running'\n           AND j.followup",
        ),
        "protocol/test_completions.py::test_a_member_is_compared_as_a_whole[token]",
        (
            COMPLETIONS,
            "         WHERE j.id = l.id AND j.fence = m.fence AND j.lease_token = m.token\n",
            "         WHERE j.id = l.id AND j.fence = m.fence\n",
        ),
    ),
    mutant(
        "a batch of completions compares no checkpoint_no",
        (
            COMPLETIONS,
            "AND j.state = 'running' AND j.checkpoint_no = m.checkpoint_no",
            "AND j.state = 'running' AND m.checkpoint_no >= 0",
        ),
        "protocol/test_completions.py::test_a_member_is_compared_as_a_whole[checkpoint]",
    ),
    mutant(
        "a batch of completions forgets the work that is to follow",
        (
            COMPLETIONS,
            "           AND j.followup_payload IS NULL AND j.group_id IS NULL",
            "           AND j.group_id IS NULL",
        ),
        "protocol/test_completions.py"
        "::test_work_that_is_to_follow_is_left_to_the_exit_that_knows_it",
        (
            COMPLETIONS,
            "           AND j.followup_payload IS NULL\n        RETURNING",
            "        RETURNING",
        ),
    ),
    mutant(
        "a batch whose answer is lost counts as stored",
        (
            COMPLETIONS,
            "            each.stored.set_exception(found)\n",
            "            each.stored.set_result(True)\n",
        ),
        "protocol/test_completions.py::test_a_batch_whose_answer_is_lost_is_asked_after[False]",
    ),
    # Messages
    mutant(
        "a message is published before its job is committed",
        (
            "api/submission.py",
            "        answer = await _enqueue(conn, resources, request, admission)\n",
            (
                "        answer = await _enqueue(conn, resources, request, admission)\n"
                "        await resources.relay.publish_at_once(conn, answer.job_id)\n"
            ),
        ),
        "scenarios/test_publishing.py::test_no_message_leaves_before_its_commit_has_ended",
        # It really goes out, through the transaction's own sight of its rows.
        (
            OUTBOX,
            "    async def _round(self) -> tuple[int, bool]:\n",
            (
                "    async def publish_at_once(self, conn: AsyncConnection, job: JobId) -> None:\n"
                '        staged = text("SELECT o.*, d.deployment_id"\n'
                '                      " FROM chot.outbox o, chot.deployment d"\n'
                '                      " WHERE o.job_id = :job")\n'
                '        rows = (await conn.execute(staged, {"job": job})).all()\n'
                "        for queue, listed in _batches(rows):\n"
                "            messages = [_outgoing(row) for row in listed]\n"
                "            await self._sqs.send(queue, messages)\n"
                "\n"
                "    async def _round(self) -> tuple[int, bool]:\n"
            ),
        ),
    ),
    mutant(
        "a submit commits inside its caller's transaction",
        (
            "shared/jobs/enqueue.py",
            "        row = (await session.execute(ENQUEUE, binds)).one()\n",
            (
                "        row = (await session.execute(ENQUEUE, binds)).one()\n"
                "        raw = await session.get_raw_connection()\n"
                '        await raw.driver_connection.execute("COMMIT")\n'
            ),
        ),
        "protocol/test_outbox.py::test_nothing_is_published_before_the_commit",
        also={
            "protocol/test_outbox.py::test_a_lower_id_committed_later_is_still_published": (
                "the submit that it holds open is committed at once"
            ),
            "protocol/test_bulk.py::test_a_batch_holds_no_work_above_the_one_it_waits_for": (
                "the submit that its batch waits for is committed at once"
            ),
        },
    ),
    mutant(
        "the outbox is read by a cursor, id > last",
        (
            OUTBOX,
            "            rows = taken.rows\n",
            (
                '            last = getattr(self, "_last", 0)\n'
                "            rows = [row for row in taken.rows if row.id > last]\n"
                "            self._last = max((row.id for row in rows), default=last)\n"
            ),
        ),
        "protocol/test_outbox.py::test_a_lower_id_committed_later_is_still_published",
    ),
    mutant(
        "a batch that was answered counts as sent whole",
        (
            OUTBOX,
            "sent += [row.id for row in rows if str(row.id) in result.sent]",
            "sent += [row.id for row in rows]",
        ),
        "protocol/test_outbox.py::test_only_ids_that_sqs_took_are_deleted",
    ),
    mutant(
        "a late answer ends a newer take",
        (
            OUTBOX,
            "WHERE id = ANY(:ids) AND take_token = :token RETURNING job_id",
            "WHERE id = ANY(:ids) AND CAST(:token AS uuid) IS NOT NULL RETURNING job_id",
        ),
        "protocol/test_outbox.py::test_a_late_answer_of_an_older_take_deletes_nothing",
    ),
    mutant(
        "the deployment of a message is ignored",
        (
            "worker/receiver.py",
            "if message.deployment_id != self._deployment_id:",
            "if message.deployment_id is None:",
        ),
        "protocol/test_receiver.py::test_a_message_of_another_deployment_is_left_alone",
    ),
    mutant(
        "a message under a live lease is deleted",
        (
            "worker/settle.py",
            'return _later(delivery, row.lease_left, "the job runs under a live lease", "running")',
            'return Delete(why="the job runs")',
        ),
        "protocol/test_settle.py::test_a_job_under_a_live_lease_is_put_off_then_left",
    ),
    mutant(
        "the reconciler asks nobody for free slots",
        (
            "worker/reconciler.py",
            "AND w.live_until > clock_timestamp() AND q.free_slots > 0",
            "AND w.live_until > clock_timestamp()",
        ),
        "protocol/test_reconciler.py::test_what_only_waits_is_not_staged_again",
        (
            "worker/reconciler.py",
            "WHERE w.live_until > clock_timestamp() AND q.free_slots > 0 GROUP BY",
            "WHERE w.live_until > clock_timestamp() GROUP BY",
        ),
    ),
)

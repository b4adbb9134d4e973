"""A migration: every row once, whatever its key, its size and its failures are."""

import math
from typing import Any

import pytest
from sqlalchemy import text

from shared.access import EVERYTHING
from shared.jobs.redrive import Redriven, redrive_job
from shared.migrations.pausing import pause_run, resume_run
from shared.types import JobId
from tests.factories import execute, fetch, job_row, scalar
from tests.migrating import Migrating
from worker.migrations import retrying
from worker.outcome import Released
from worker.records.migration_runs import drop_reject


async def test_every_row_is_done_once_and_the_run_tells_how(migrating: Migrating) -> None:
    """Counts, batches, progress, and the check before and after."""
    await migrating.rows(2500)
    result = await migrating.succeed(batch_size=1000)
    assert result["outcome"] == "succeeded"
    assert (result["rows_done"], result["rows_failed"]) == (2500, 0)
    assert result["counts"] == {"raised": 2500}
    assert result["check_before"]["facts"] == {"rows": 2500, "sum": 0}
    assert result["check_after"]["facts"] == {"rows": 2500, "sum": 2500}
    assert await migrating.counts() == {1: 2500}
    (job,) = await fetch(migrating.app, "SELECT * FROM chot.jobs")
    assert (job.progress_done, job.progress_total, job.progress_unit) == (2500, 2500, "rows")
    run = await migrating.run_row(job.id)
    assert (run.phase, run.cursor_key, run.upper_bound) == ("done", ["2500"], ["2500"])


async def test_a_task_without_rows_succeeds(migrating: Migrating) -> None:
    """There is nothing to do, and that is done."""
    assert (await migrating.succeed())["rows_done"] == 0


@pytest.mark.parametrize(
    ("task", "code", "says"),
    [
        ("probe.by_time", "KEY_NOT_UNIQUE", "(at) of probe.rows is not unique"),
        ("probe.nullable", "KEY_NULLABLE", "name may be NULL"),
        ("probe.doubled", "KEY_NOT_UNIQUE", "its joins multiply rows"),
    ],
)
async def test_a_key_that_is_no_total_order_is_refused(
    migrating: Migrating, task: str, code: str, says: str
) -> None:
    """Before a row is touched: a cursor on it would loop for ever or leave rows out."""
    await migrating.rows(10_000)
    job_id = await migrating.submit(task)
    row = await migrating.finish(job_id)
    error = await migrating.error(job_id)
    assert (row.state, error["code"]) == ("dead", code)
    assert says in error["message"]
    assert await migrating.counts() == {0: 10_000}


async def test_ten_thousand_rows_of_one_instant_are_done_by_a_key_of_two(
    migrating: Migrating,
) -> None:
    """Langfuse #4842: the tie is broken by the id."""
    await migrating.rows(10_000)
    assert await scalar(migrating.app, "SELECT count(DISTINCT at) FROM probe.rows") == 1
    result = await migrating.succeed("probe.by_both", batch_size=3000)
    assert result["rows_done"] == 10_000
    assert await migrating.counts() == {1: 10_000}


async def test_a_boundary_that_times_out_finishes_with_smaller_batches(
    migrating: Migrating,
) -> None:
    """GitLab #503217 looped for ever on it. 100 rows at 20 ms each do not fit into 250 ms."""
    await migrating.rows(30)
    job_id = await migrating.submit("probe.slow_boundary", batch_size=100, target_ms=50)
    row = await migrating.finish(job_id)
    assert row.state == "succeeded", await migrating.error(job_id)
    tries = await migrating.tries(job_id)
    assert tries[0] == (0, "timeout")
    assert sum(rows for rows, outcome in tries if outcome == "ok") == 30
    assert await migrating.counts() == {1: 30}


async def test_a_row_that_fails_is_found_by_halving_and_set_aside(migrating: Migrating) -> None:
    """One reject, about log2(n) tries more; all other rows are done once."""
    await migrating.rows(4096, bad=1717)
    job_id = await migrating.submit(batch_size=1024)
    row = await migrating.finish(job_id)
    result = await migrating.result(job_id)
    assert (row.state, result["outcome"]) == ("succeeded", "completed_with_errors")
    assert (result["rows_done"], result["rows_failed"]) == (4096, 1)
    (reject,) = await migrating.rejects(job_id)
    assert (reject.key, reject.code) == (["1717"], "22012")
    assert "division by zero" in reject.rule
    assert result["first_rejects"][0]["key"] == ["1717"]
    tries = await migrating.tries(job_id)
    plain = math.ceil(4096 / 1024)
    assert len(tries) <= plain + math.log2(1024) + 3, tries
    assert await migrating.counts() == {0: 1, 1: 4095}


async def test_too_many_failing_rows_bury_the_run_and_are_kept(migrating: Migrating) -> None:
    """Above 5 % it is no accident; what was done stays, and each row is told."""
    await migrating.rows(200)
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'bad' WHERE id % 10 = 0")
    job_id = await migrating.submit(batch_size=50)
    row = await migrating.finish(job_id)
    error = await migrating.error(job_id)
    assert (row.state, error["code"]) == ("dead", "TOO_MANY_REJECTS")
    assert error["details"]["rows_failed"] == 11
    rejects = await migrating.rejects(job_id)
    assert [each.key for each in rejects] == [[str(n)] for n in range(10, 111, 10)]
    assert await migrating.clean_up()
    assert len(await migrating.rejects(job_id)) == 11
    assert (await migrating.counts())[1] >= 99


async def test_five_percent_are_still_an_accident(migrating: Migrating) -> None:
    """And a limit of their own in rows is kept, too."""
    await migrating.rows(200)
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'bad' WHERE id % 20 = 0")
    job_id = await migrating.submit(max_rejects=9)
    assert (await migrating.finish(job_id)).state == "dead"
    job_id = await migrating.submit(max_rejects=10, params={"by": 2})
    assert (await migrating.finish(job_id)).state == "succeeded"


async def test_rows_born_after_the_upper_bound_are_left_alone(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes new rows writes them in the new way; the run has an end."""
    monkeypatch.setenv("CHOT_MIGRATION_INTERRUPT_SECONDS", "0.000001")
    await migrating.rows(100)
    job_id = await migrating.submit(batch_size=50)
    await migrating.attempt(job_id)
    await execute(migrating.owner, "INSERT INTO probe.rows (id) SELECT generate_series(101, 200)")
    await migrating.finish(job_id)
    assert await migrating.counts() == {0: 100, 1: 100}


async def test_a_task_prepares_its_rows_refuses_some_and_cleans_up(migrating: Migrating) -> None:
    """Rejects of both are told with line and field; nothing of it is left."""
    job_id = await migrating.submit(
        "probe.prepared", max_reject_percent=20, batch_size=20, dry_run=True
    )
    row = await migrating.finish(job_id)
    result = await migrating.result(job_id)
    assert (row.state, result["outcome"]) == ("succeeded", "completed_with_errors")
    assert (result["rows_done"], result["rows_failed"]) == (50, 10)
    assert result["counts"] == {"created": 40}
    rejects = await migrating.rejects(job_id)
    assert [(r.line, r.field, r.code) for r in rejects[:1]] == [(10, "qty", "NOT_A_NUMBER")]
    assert [r.line for r in rejects if r.code == "ENDS_IN_5"] == [5, 15, 25, 35, 45]
    assert await scalar(migrating.app, "SELECT count(*) FROM probe.staged") == 0


async def test_a_dead_run_that_had_prepared_its_rows_begins_anew(migrating: Migrating) -> None:
    """Its cleanup has removed them, and a redrive must not go on behind them."""
    job_id = await migrating.submit("probe.prepared", max_rejects=4)
    assert (await migrating.finish(job_id)).state == "dead"
    assert await migrating.clean_up()
    assert await scalar(migrating.app, "SELECT count(*) FROM probe.staged") == 0
    async with migrating.app.begin() as conn:
        assert isinstance(await redrive_job(conn, job_id), Redriven)
    assert (await migrating.finish(job_id)).state == "dead"
    run = await migrating.run_row(job_id)
    assert run.rows_failed == len(await migrating.rejects(job_id)) == 5


async def redriven(migrating: Migrating, job_id: JobId) -> None:
    """Cleaned up and pending again, as an operator's redrive leaves it."""
    assert await migrating.clean_up()
    async with migrating.app.begin() as conn:
        assert isinstance(await redrive_job(conn, job_id), Redriven)


async def test_a_redriven_run_tries_again_what_it_had_set_aside(migrating: Migrating) -> None:
    """The cause is gone for most of them; what was done before is not done again."""
    await migrating.rows(200)
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'bad' WHERE id % 10 = 0")
    job_id = await migrating.submit(batch_size=50)
    assert (await migrating.finish(job_id)).state == "dead"
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'ok' WHERE id NOT IN (20, 30)")
    await execute(migrating.owner, "DELETE FROM probe.rows WHERE id = 30")
    await redriven(migrating, job_id)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert [each.key for each in await migrating.rejects(job_id)] == [["20"]]
    result = await migrating.result(job_id)
    assert (result["rows_done"], result["rows_failed"]) == (200, 1)
    assert result["counts"] == {"raised": 198, "gone": 1}
    assert await migrating.counts() == {0: 1, 1: 198}


async def test_a_redriven_run_whose_rows_fail_again_dies_again(migrating: Migrating) -> None:
    """Each of them was tried once more, and is told."""
    await migrating.rows(200)
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'bad' WHERE id % 10 = 0")
    job_id = await migrating.submit(batch_size=50)
    await migrating.finish(job_id)
    done = await migrating.counts()
    await redriven(migrating, job_id)
    assert (await migrating.finish(job_id)).state == "dead"
    assert (await migrating.error(job_id))["code"] == "TOO_MANY_REJECTS"
    rejects = await migrating.rejects(job_id)
    assert (len(rejects), {each.retried for each in rejects}) == (11, {True})
    assert await migrating.counts() == done


async def ten_bad_rows_mended(migrating: Migrating) -> JobId:
    """A run that died of eleven rows, redriven once nothing is wrong with them any more."""
    await migrating.rows(200)
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'bad' WHERE id % 10 = 0")
    job_id = await migrating.submit(batch_size=50)
    assert (await migrating.finish(job_id)).state == "dead"
    await execute(migrating.owner, "UPDATE probe.rows SET name = 'ok'")
    await redriven(migrating, job_id)
    return job_id


async def test_a_row_is_not_set_aside_again_for_a_lock_that_somebody_holds(
    migrating: Migrating,
) -> None:
    """The attempt makes room, as with any batch, and comes back for it."""
    job_id = await ten_bad_rows_mended(migrating)
    async with migrating.app.connect() as other:
        await other.execute(text("SELECT FROM probe.rows WHERE id = 20 FOR UPDATE"))
        assert isinstance(await migrating.attempt(job_id), Released)
        await other.rollback()
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.rejects(job_id) == []
    assert await migrating.counts() == {1: 200}


async def test_a_pause_takes_hold_while_rows_are_tried_again(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the row that it comes in; each of them is done once."""
    job_id = await ten_bad_rows_mended(migrating)

    async def paused_meanwhile(*args: Any) -> int:
        failed = await drop_reject(*args)
        async with migrating.app.begin() as conn:
            assert await pause_run(conn, job_id, EVERYTHING) is not None
        return failed

    monkeypatch.setattr(retrying, "drop_reject", paused_meanwhile)
    for left in (10, 9, 8):
        assert await migrating.attempt(job_id) == Released(reason="paused")
        assert (await migrating.run_row(job_id)).rows_failed == left
        assert await migrating.claim(job_id) is None
        async with migrating.app.begin() as conn:
            await resume_run(conn, job_id, EVERYTHING)
    monkeypatch.setattr(retrying, "drop_reject", drop_reject)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: 200}


async def test_an_unknown_task_is_refused_by_name(migrating: Migrating) -> None:
    """SQL callers are checked at the claim, as with every payload."""
    job_id = await migrating.submit("probe.nobody")
    row = await migrating.finish(job_id)
    error = await migrating.error(job_id)
    assert (row.state, error["code"]) == ("dead", "PAYLOAD_INVALID")
    assert "probe.raise" in str(error)
    assert (await job_row(migrating.app, job_id)).attempt == 1

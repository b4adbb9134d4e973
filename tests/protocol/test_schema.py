"""Schema: what a row may never look like, whoever writes it."""

from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from shared.jobs.states import TRANSITIONS
from shared.types import TERMINAL, AttemptOutcome, JobState
from tests.factories import claimed_job, execute, fetch, job_row, make_job, scalar

PENDING: list[tuple[str, str]] = [
    ("state = 'odd'", "jobs_state_check"),
    ("state = 'running'", "jobs_lease_check"),
    ("lease_token = gen_random_uuid()", "jobs_lease_check"),
    ("lease_expires_at = clock_timestamp()", "jobs_lease_check"),
    ("worker_id = 'w'", "jobs_lease_check"),
    ("state = 'succeeded'", "jobs_finished_check"),
    ("state = 'cancelled'", "jobs_finished_check"),
    ("finished_at = clock_timestamp()", "jobs_finished_check"),
    ("attempt = 1", "jobs_counters_check"),
    ("lost_leases = 1", "jobs_counters_check"),
    ("interruptions = 1", "jobs_counters_check"),
    ("lost_leases = -1", "lost_leases"),
    ("interruptions = -1", "interruptions"),
    ("cleanup_due = true", "jobs_cleanup_check"),
    ("followup_payload = '{}'", "jobs_followup_check"),
    ("followup_version = 1", "jobs_followup_check"),
    ("priority = 10", "priority"),
    ("max_attempts = 0", "max_attempts"),
    ("checkpoint_no = -1", "checkpoint_no"),
    ("payload_version = 0", "payload_version"),
    ("progress_done = -1", "progress_done"),
    ("progress_total = -1", "progress_total"),
    ("fingerprint = '\\x00'", "fingerprint"),
    ("blocked_by = repeat('x', 1025)", "blocked_by"),
    ("progress_unit = repeat('x', 65)", "progress_unit"),
    ("progress_message = repeat('x', 961)", "progress_message"),
    ("trace = repeat('x', 513)", "trace"),
]


RUNNING = (
    "state = 'pending'",
    "lease_token = NULL",
    "lease_expires_at = NULL",
    "worker_id = NULL",
    "state = 'succeeded', finished_at = clock_timestamp()",
    "fence = 0",
)


async def refusal(engine: AsyncEngine, statement: str, **binds: Any) -> str:
    """What the database says to that statement; nothing when it takes it."""
    try:
        await execute(engine, statement, **binds)
    except DBAPIError as error:
        return str(error.orig) if sqlstate_of(error) == "23514" else repr(error)
    return "was taken"


async def test_a_pending_row_keeps_to_its_shape(probes: AsyncEngine) -> None:
    """State and columns are tied: no lease without running, no end without its time."""
    job_id = await make_job(probes)
    for change, constraint in PENDING:
        said = await refusal(probes, f"UPDATE chot.jobs SET {change} WHERE id = :i", i=job_id)
        assert constraint in said, change


async def test_a_running_row_keeps_to_its_shape(probes: AsyncEngine) -> None:
    """Whoever leaves running takes the lease with it, in the same statement."""
    job_id = (await claimed_job(probes)).lease.job_id
    for change in RUNNING:
        said = await refusal(probes, f"UPDATE chot.jobs SET {change} WHERE id = :i", i=job_id)
        assert "jobs_lease_check" in said or "jobs_counters_check" in said, change


SIZES: list[tuple[str, str, int]] = [
    ("job_payloads", "payload", 262_144),
    ("job_outputs", "checkpoint", 65_536),
    ("job_outputs", "result", 1_048_576),
    ("job_outputs", "error", 16_384),
    ("jobs", "followup_payload", 262_144),
    ("attempts", "error", 16_384),
]


async def test_json_is_kept_up_to_its_size_and_no_further(
    owner_engine: AsyncEngine, probes: AsyncEngine
) -> None:
    """To the byte, as jsonb writes it."""
    job_id = (await claimed_job(probes)).lease.job_id
    await execute(probes, "INSERT INTO chot.job_outputs (job_id) VALUES (:i)", i=job_id)
    for table, column, most in SIZES:
        key = "id" if table == "jobs" else "job_id"
        more = ", followup_version = 1, followup_principal = 'x'" if table == "jobs" else ""
        statement = f"""UPDATE chot.{table} SET {column} = to_jsonb(repeat('x', :bytes - 2)){more}
                         WHERE {key} = :i"""
        await execute(owner_engine, statement, bytes=most, i=job_id)
        said = await refusal(owner_engine, statement, bytes=most + 1, i=job_id)
        assert f"{table}_{column}_check" in said


@pytest.mark.scenario("F36")
async def test_lease_and_progress_stand_in_no_index(probes: AsyncEngine) -> None:
    """Predicates included: one of them and no renewal would be HOT any more."""
    indexes = await fetch(
        probes, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'chot' AND tablename = 'jobs'"
    )
    for (definition,) in indexes:
        for column in ("lease_", "progress_", "checkpoint_no", "fence", "published_at"):
            assert column not in definition, definition


@pytest.mark.scenario("F36")
async def test_hot_rows_have_room_and_nothing_points_at_them(probes: AsyncEngine) -> None:
    """A fill factor below 100, and no foreign key that would lock the row claims fight for."""
    options = await scalar(
        probes, "SELECT reloptions::text FROM pg_class WHERE oid = 'chot.jobs'::regclass"
    )
    assert "fillfactor=50" in options
    pointing = "SELECT conname FROM pg_constraint WHERE confrelid = 'chot.jobs'::regclass"
    assert await fetch(probes, pointing) == []


async def test_words_of_the_code_are_those_of_the_schema(probes: AsyncEngine) -> None:
    """States and outcomes: an enum with a member more would fail at its first write."""
    rows = await fetch(
        probes,
        """SELECT conname, pg_get_constraintdef(oid) AS rule FROM pg_constraint
            WHERE conname IN ('jobs_state_check', 'attempts_outcome_check')""",
    )
    rules = {row.conname: set(row.rule.split("'")[1::2]) for row in rows}
    assert rules["jobs_state_check"] == {str(each) for each in JobState}
    assert rules["attempts_outcome_check"] == {str(each) for each in AttemptOutcome}


def test_final_states_are_left_by_a_redrive_alone() -> None:
    """The diagram: nothing leaves succeeded or cancelled, dead only goes back to pending."""
    assert {end for start, end in TRANSITIONS if start in TERMINAL} == {JobState.PENDING}
    assert {start for start, _ in TRANSITIONS} & TERMINAL == {JobState.DEAD}
    reached = {end for _, end in TRANSITIONS}
    assert reached == set(JobState)


PROMISED = """id kind company brand state attempt max_attempts fence lease_token lease_expires_at
    available_at checkpoint_no"""
EARLY = """principal payload_version code_version trace deployment_id interruptions lost_leases
    group_id followup_payload"""


async def test_columns_that_others_read_or_will_need_are_there(probes: AsyncEngine) -> None:
    """The names outside readers were promised, and those a later day would make expensive."""
    row: Any = await job_row(probes, await make_job(probes))
    assert set(PROMISED.split()) | set(EARLY.split()) <= set(row._fields)

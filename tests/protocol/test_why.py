"""Why a job waits: every reason by a real set-up, in the order in which reasons count."""

import re
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.why import why_view
from shared.access import Scope
from shared.jobs.cancel import cancel_job
from shared.jobs.pause import pause_queue, resume_queue
from shared.jobs.reasons import RULES, Reason, explain
from shared.jobs.states import CLAIMABLE, CLAIMABLE_PARTS
from shared.jobs.why import EXPLAIN_JOB
from shared.types import JobId, JobState, WorkerId
from tests.factories import autocommit, claimant, execute, fetch, make_job, scalar
from tests.protocol import locking
from tests.protocol.reasons import (
    SETUPS,
    crew,
    delivery,
    know_locks,
    lease_expired,
    message_refused,
    publish_all,
    runs_alone,
    why,
    window_full,
)
from worker.alone import reserve_alone
from worker.claim import claim_jobs

ENDED = {Reason.SUCCEEDED: "succeeded", Reason.CANCELLED: "cancelled", Reason.DEAD: "dead"}
STARTED = {Reason.RUNNING, Reason.LEASE_EXPIRED, Reason.WORKER_SILENT}
REASON_OF_PART = {
    "due": Reason.SCHEDULED,
    "unpaused": Reason.QUEUE_PAUSED,
    "kind_unpaused": Reason.KIND_PAUSED,
    "unfrozen": Reason.BOOKS_FROZEN,
    "resumed": Reason.JOB_PAUSED,
    "goes_on": Reason.GROUP_CANCELLING,
    "joined": Reason.GROUP_OPEN,
}
# What each sentence must tell: its numbers, names and next step.
TOLD = {
    Reason.SCHEDULED: r"before 20\d\d-.*Z, in 60 min",
    Reason.BACKOFF: r"Attempt 1 of 5 failed \(OPEN: period is open\).* again in (90|89) s",
    Reason.SNOOZED: r"again at 20\d\d-.*Z, in (90|89) s \(the bank opens later\)",
    Reason.HANDED_BACK: r"uncharged, to go on in (90|89) s",
    Reason.QUEUE_PAUSED: r"POST /v1/queues/default/resume",
    Reason.KIND_PAUSED: r"POST /v1/kinds/probe.write/resume",
    Reason.BOOKS_FROZEN: r"books of brand RED of company ACME have been .*Z \(an audit\), so that",
    Reason.JOB_PAUSED: r"paused since 20\d\d-.*POST /v1/migrations/.*/resume",
    Reason.GROUP_CANCELLING: r"group [0-9a-f-]{36} is being cancelled.*maintenance",
    Reason.GROUP_OPEN: r"has ended \(1 of 3 members ended\).*POST /v1/groups/.*/seal",
    Reason.OUT_OF_ATTEMPTS: r"1 of 1 were charged, 0 workers lost.*cancel",
    Reason.NO_WORKER: r"No live worker serves queue default.*CHOT_QUEUES",
    Reason.KIND_UNKNOWN: r"1 live worker of queue default knows kind probe.write",
    Reason.VERSION_UNKNOWN: r"version 2 of kind probe.write.*up to version 1",
    Reason.WORKERS_STOPPING: r"only live worker of queue default.*draining",
    Reason.LOCK_HELD: r"^Job \S+ \(locked\.write\) holds books for itself; this one starts",
    Reason.LOCK_RESERVED: r"^Job \S+ \(locked\.write\) waits for books, too, and goes first",
    Reason.RUNS_ALONE: r"lost its worker 2 times.*waits for a worker",
    Reason.WORKERS_ALONE: r"kept for a job that runs alone",
    Reason.KIND_MAXIMUM: r"probe.misbehave is at its maximum \(2 run, 2 may\)",
    Reason.LIMIT_REACHED: r"limit of brand RED of company ACME is reached \(2 run, 2 may\)",
    Reason.MESSAGE_REFUSED: r"Throttled: slow.*pause and resume",
    Reason.WINDOW_FULL: r"3 of 3 messages out for 1 slot\).*behind 2 of its kind",
    Reason.PUBLISHING_FAILED: r"Throttled: slow\), tried 1 times.*again in (4|5) s",
    Reason.PUBLISHING: r"due for .*on its way to SQS.*readyz",
    Reason.SLOTS_BUSY: r"all 4 slots of 1 live worker",
    Reason.DELIVERY: r"3 of 4 slots were free",
    Reason.RUNNING: r"Worker w has been running attempt 1",
    Reason.LEASE_EXPIRED: r"worker w.* ran out 1 s ago.*taken over",
    Reason.WORKER_SILENT: r"^Worker w, which runs attempt 1.* for 31 s; .* ends in (30|29) s and an",
    Reason.SUCCEEDED: r"succeeded at 20.*Z in attempt 1",
    Reason.CANCELLED: r"cancelled at 20.*still being removed",
    Reason.DEAD: r"1 attempt of 5 and 0 lost workers \(NEVER: never\).*leftovers are removed",
}


def redrive_of(row: Any) -> str | None:
    """What stands against a redrive, of this row alone."""
    return "cleanup-pending" if row["cleanup_due"] else None


@pytest.mark.parametrize("reason", Reason)
async def test_every_reason_is_told_of_what_it_is(probes: AsyncEngine, reason: Reason) -> None:
    """By the functions that bring a job there in earnest; the state fits, the numbers are told."""
    job_id = await SETUPS[reason](probes)
    row = await why(probes, job_id)
    said = explain(row, redrive_refused=redrive_of(row))
    assert said.reason == reason, (said, dict(row))
    expected = "running" if reason in STARTED else ENDED.get(reason, "pending")
    assert row["state"] == expected
    assert re.search(TOLD[reason], said.sentence), said.sentence
    assert said.sentence[0].isupper()
    assert said.sentence.endswith(".")
    assert not re.search(r"[.!?] [A-Z]|\n|None", said.sentence), said.sentence


def test_every_reason_has_a_setup_and_a_rule() -> None:
    """A new reason without a test fails here; each state has a rule that always holds."""
    assert set(SETUPS) == set(TOLD) == set(Reason)
    ruled = {rule.reason for rules in RULES.values() for rule in rules}
    assert ruled | {Reason.DEAD} == set(Reason)
    assert set(RULES) | {JobState.DEAD} == set(JobState)
    assert all(rules[-1].holds({}) for rules in RULES.values())


def test_every_part_of_claimable_has_a_reason() -> None:
    """Who adds a part to the predicate says here what it is called; /why reads them by name."""
    assert all(part in CLAIMABLE for part in CLAIMABLE_PARTS.values())
    assert set(CLAIMABLE_PARTS) == set(REASON_OF_PART)
    nothing: dict[str, Any] = dict.fromkeys(CLAIMABLE_PARTS, True) | {
        "attempts_left": False,
        "snoozed": False,
    }
    for part, reason in REASON_OF_PART.items():
        row = nothing | {part: False, "last_outcome": None}
        first = next(rule for rule in RULES[JobState.PENDING] if rule.holds(row))
        assert first.reason == reason


async def test_a_reason_that_is_gone_gives_way_to_the_next(probes: AsyncEngine) -> None:
    """One after the other, as an operator takes them away, down to the claim."""
    job_id = await make_job(probes)
    async with probes.begin() as conn:
        await pause_queue(conn, "default")

    async def reason() -> Reason:
        return explain(await why(probes, job_id)).reason

    assert await reason() == Reason.QUEUE_PAUSED
    async with probes.begin() as conn:
        await resume_queue(conn, "default")
    assert await reason() == Reason.NO_WORKER
    await crew(probes, kinds={})
    assert await reason() == Reason.KIND_UNKNOWN
    await crew(probes, name="v", state="draining")
    assert await reason() == Reason.WORKERS_STOPPING
    await crew(probes, name="v", free=0)
    # A worker's kinds are what it came with: this one is another.
    assert await reason() == Reason.PUBLISHING
    assert await publish_all(probes) == 1
    assert await reason() == Reason.SLOTS_BUSY
    await crew(probes, name="v")
    assert await reason() == Reason.DELIVERY
    assert len(await claim_jobs(autocommit(probes), claimant("v"), [job_id])) == 1
    assert await reason() == Reason.RUNNING


async def test_a_claim_takes_exactly_what_why_says_nothing_against(probes: AsyncEngine) -> None:
    """Of all set-ups: what waits for a free slot, its message or its turn could be claimed now.

    And nothing else could: the predicate is one.
    """
    free = {
        Reason.MESSAGE_REFUSED,
        Reason.WINDOW_FULL,
        Reason.PUBLISHING_FAILED,
        Reason.PUBLISHING,
        Reason.SLOTS_BUSY,
        Reason.DELIVERY,
        Reason.LEASE_EXPIRED,
        # A worker that claims is its own proof that somebody lives and knows the kind.
        Reason.NO_WORKER,
        Reason.KIND_UNKNOWN,
        Reason.WORKERS_STOPPING,
        Reason.WORKERS_ALONE,
    }
    for reason, setup in SETUPS.items():
        job_id = await setup(probes)
        said = explain(row := await why(probes, job_id), redrive_refused=redrive_of(row)).reason
        claimed = await claim_jobs(autocommit(probes), claimant("z"), [job_id], wait=True)
        assert bool(claimed) == (said in free), (reason, said)
        await clear(probes)


async def clear(engine: AsyncEngine) -> None:
    """Back to a database with no jobs in it that count: whoever holds a lock, or waits, ends."""
    held = await fetch(
        engine,
        """SELECT id FROM chot.jobs
            WHERE state IN ('pending', 'running') AND lock_roots IS NOT NULL""",
    )
    for row in held:
        async with engine.begin() as conn:
            assert await cancel_job(conn, JobId(row.id))
    for statement in (
        "UPDATE chot.queues SET paused = false, alone_worker = NULL, alone_until = NULL",
        "UPDATE chot.kinds SET max_running = NULL, paused = false",
        "DELETE FROM chot.freezes",
        "UPDATE chot.groups SET state = 'open', outcome = NULL WHERE state = 'cancelling'",
        "DELETE FROM chot.running_limits",
        "DELETE FROM chot.workers",
        "DELETE FROM chot.outbox",
        "DELETE FROM chot.published",
    ):
        await execute(engine, statement)


async def test_a_lease_that_ran_out_for_the_last_time_is_told_as_such(probes: AsyncEngine) -> None:
    """No attempt is left: it will be buried, not taken over."""
    job_id = await lease_expired(probes)
    await execute(
        probes,
        """UPDATE chot.jobs SET max_attempts = 1, attempt = 2, lost_leases = 1, fence = 2
            WHERE id = :job_id""",
        job_id=job_id,
    )
    assert "about to be buried" in explain(await why(probes, job_id)).sentence


async def test_a_reservation_is_told_by_the_worker_that_holds_it(probes: AsyncEngine) -> None:
    job_id = await runs_alone(probes)
    async with autocommit(probes).connect() as conn:
        assert await reserve_alone(conn, "default", WorkerId("w"), job_id, 30)
    said = explain(await why(probes, job_id))
    assert said.reason == Reason.RUNS_ALONE
    assert "worker w has reserved queue default" in said.sentence


async def test_a_message_that_was_refused_is_published_anew_as_the_sentence_says(
    probes: AsyncEngine,
) -> None:
    job_id = await message_refused(probes)
    async with probes.begin() as conn:
        await pause_queue(conn, "default")
        await resume_queue(conn, "default")
    assert explain(await why(probes, job_id)).reason == Reason.PUBLISHING
    assert await publish_all(probes) == 1


async def test_counts_of_what_lies_ahead_stay_inside_the_scope(probes: AsyncEngine) -> None:
    """The own lane is counted; what other brands have before it only for who sees everything."""
    job_id = await window_full(probes)
    urgent = await make_job(probes)
    await execute(
        probes, "UPDATE chot.outbox SET priority = 8 WHERE job_id = :job_id", job_id=urgent
    )
    whole, red = await why(probes, job_id), await why(probes, job_id, Scope(company="ACME"))
    assert (whole["ahead"], whole["higher"]) == (2, 1)
    assert (red["ahead"], red["higher"]) == (2, None)
    assert "and 1 of higher priority" in explain(whole).sentence
    assert "higher priority" in explain(red).sentence  # the advice, not the count
    assert "of higher priority" not in explain(red).sentence


async def test_a_job_outside_the_scope_is_none(probes: AsyncEngine) -> None:
    job_id = await delivery(probes)
    with pytest.raises(AssertionError):
        await why(probes, job_id, Scope(company="ACME", brands=("BLUE",)))
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1


def test_all_facts_are_of_one_moment() -> None:
    """⚑ Two looks at the clock may disagree by a microsecond, and then so do two facts."""
    assert len(re.findall(r"(clock|statement)_timestamp\(", EXPLAIN_JOB.text)) == 1
    assert "now()" not in EXPLAIN_JOB.text


@pytest.mark.parametrize("reason", [Reason.LOCK_HELD, Reason.LOCK_RESERVED])
async def test_who_is_in_the_way_is_told_within_the_scope(
    probes: AsyncEngine, reason: Reason
) -> None:
    """Of somebody else's job a caller learns that it is there, not which one it is."""
    job_id = await SETUPS[reason](probes)
    column = {Reason.LOCK_HELD: "holder", Reason.LOCK_RESERVED: "waiter"}[reason]
    assert (await why(probes, job_id))[f"{column}_kind"] == "locked.write"
    await execute(
        probes,
        "UPDATE chot.jobs SET brand = 'BLUE' WHERE id <> :job_id",
        job_id=job_id,
    )
    row = await why(probes, job_id, Scope(company="ACME", brands=("RED",)))
    assert (row[f"{column}_id"], row[f"{column}_kind"]) == (None, None)
    said = explain(row)
    assert said.reason == reason
    assert said.sentence.startswith("A job of somebody else's")


@pytest.mark.parametrize("reason", [Reason.LOCK_HELD, Reason.LOCK_RESERVED])
async def test_the_periods_of_what_is_in_the_way_are_told(
    probes: AsyncEngine, reason: Reason
) -> None:
    """Those of the other job's lock: it is why a job of a later month waits."""
    await know_locks(probes)
    if reason == Reason.LOCK_HELD:
        await locking.running(probes, start="2026-08", number=1)
    else:
        await locking.running(probes, "locked.read", start="2026-10", number=1)
        await locking.waiting(probes, start="2026-08", number=2)
    kind = "locked.write" if reason == Reason.LOCK_HELD else "locked.read"
    job_id = await locking.locked_job(probes, kind, start="2026-10", number=3)
    row = await why(probes, job_id)
    said = explain(row)
    assert said.reason == reason
    assert "books from 2026-08 on" in said.sentence
    shown = why_view(row, None, row)["lock"]
    assert (shown["period_from"], shown["period_to"]) == ("2026-08", None)
    assert (shown["root"], shown["part"], shown["mode"]) == ("books", None, "exclusive")

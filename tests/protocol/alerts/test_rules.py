"""Each rule: what breaks it, that it fires after its time and once, and that it is over."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shared.alerts import load_rules
from tests.factories import claimed_again, execute, expire_lease, make_job
from tests.protocol.alerts.conftest import Watched
from worker.outcome import Failed, fail_job
from worker.reaper import reap_expired

RULES = {rule.name: rule for rule in load_rules()}
Deed = Callable[[Watched], Awaitable[None]]


async def _one_dead_job(watched: Watched) -> None:
    job_id = await make_job(watched.engine)
    held = await claimed_again(watched.engine, job_id, worker="w")
    async with watched.engine.begin() as conn:
        failed = Failed(error="told", code="TOLD", permanent=True)
        assert await fail_job(conn, held, failed) is not None


async def _no_dead_job(watched: Watched) -> None:
    await execute(
        watched.owner,
        """UPDATE chot.jobs SET state = 'cancelled', cleanup_due = false WHERE state = 'dead'""",
    )


async def _a_dead_message(watched: Watched) -> None:
    await execute(
        watched.engine,
        """INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason,
                                           receive_count)
           VALUES ('default', 'm1', 'x', '{}', 'not ours', 1)""",
    )


async def _no_dead_message(watched: Watched) -> None:
    await execute(watched.owner, "DELETE FROM chot.dead_messages")


async def _a_quarantined_message(watched: Watched) -> None:
    await make_job(watched.engine)
    await execute(watched.owner, "UPDATE chot.outbox SET quarantined_at = clock_timestamp()")


async def _no_message(watched: Watched) -> None:
    await execute(watched.owner, "DELETE FROM chot.outbox")


async def _sqs_away(watched: Watched) -> None:
    await make_job(watched.engine)
    await execute(
        watched.owner,
        """UPDATE chot.outbox SET sends = 3, created_at = clock_timestamp() - interval '200 s',
                                  next_send_at = clock_timestamp() + interval '60 s'""",
    )


async def _nobody_takes_it(watched: Watched) -> None:
    await make_job(watched.engine)
    await execute(
        watched.owner,
        "UPDATE chot.jobs SET available_at = clock_timestamp() - interval '1000 s'",
    )


async def _all_taken(watched: Watched) -> None:
    await execute(
        watched.owner,
        "UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 hour'",
    )


async def _three_leases_lost(watched: Watched) -> None:
    for number in range(3):
        job_id = await make_job(watched.engine)
        await claimed_again(watched.engine, job_id, worker=f"w{number}")
        await expire_lease(watched.engine, job_id)
    async with watched.engine.connect() as conn:
        auto = await conn.execution_options(isolation_level="AUTOCOMMIT")
        assert await reap_expired(auto) == 3


async def _long_ago(watched: Watched) -> None:
    await execute(
        watched.owner, "UPDATE chot.lease_losses SET at = clock_timestamp() - interval '1 hour'"
    )


async def _a_worker(watched: Watched, *, seen: str, live: str) -> None:
    await execute(
        watched.owner,
        f"""INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, seen_at,
                                      live_until)
            VALUES ('w', 'h', 1, 'test', '{{}}', 'working', clock_timestamp() + interval '{seen}',
                    clock_timestamp() + interval '{live}')
            ON CONFLICT (worker_id) DO UPDATE
               SET seen_at = excluded.seen_at, live_until = excluded.live_until""",
    )


async def _a_worker_gone(watched: Watched) -> None:
    await _a_worker(watched, seen="-70 s", live="-40 s")


async def _a_worker_late(watched: Watched) -> None:
    await _a_worker(watched, seen="-25 s", live="5 s")


async def _a_worker_well(watched: Watched) -> None:
    await _a_worker(watched, seen="0 s", live="30 s")


async def _leave(watched: Watched) -> None:
    await execute(watched.owner, "DELETE FROM chot.workers")


async def _an_undelivered_notice(watched: Watched) -> None:
    await execute(
        watched.owner,
        """WITH other AS (INSERT INTO chot.alert_channels (channel) VALUES ('sns') RETURNING 1)
           SELECT FROM other""",
    )
    await execute(
        watched.owner,
        """INSERT INTO chot.alert_notices (channel, rule, subject, body, made_at, next_try_at)
           VALUES ('sns', 'x', '', '{}', clock_timestamp() - interval '700 s',
                   clock_timestamp() + interval '1 hour')""",
    )


async def _all_delivered(watched: Watched) -> None:
    await execute(watched.owner, "DELETE FROM chot.alert_channels WHERE channel = 'sns'")


CASES: dict[str, tuple[Deed, Deed, str]] = {
    "dead_jobs": (_one_dead_job, _no_dead_job, "kind=probe.write"),
    "dead_messages": (_a_dead_message, _no_dead_message, ""),
    "quarantined": (_a_quarantined_message, _no_message, ""),
    "outbox_lag": (_sqs_away, _no_message, ""),
    "oldest_due": (_nobody_takes_it, _all_taken, "queue=default"),
    "no_worker_for_kind": (_nobody_takes_it, _all_taken, "kind=probe.write"),
    "lease_losses": (_three_leases_lost, _long_ago, ""),
    "workers_lost": (_a_worker_gone, _leave, ""),
    "heartbeat_late": (_a_worker_late, _a_worker_well, ""),
    "notices_late": (_an_undelivered_notice, _all_delivered, ""),
}
# Shown elsewhere: the first below, the second in test_numbers, the third where nobody counts.
ELSEWHERE = {"long_transaction", "backlog", "no_counts"}


def test_every_rule_has_a_case() -> None:
    assert set(CASES) | ELSEWHERE == set(RULES)


@pytest.mark.parametrize("name", sorted(CASES))
async def test_a_rule_fires_after_its_time_once_and_is_over(watched: Watched, name: str) -> None:
    broken, mended, subject = CASES[name]
    rule = RULES[name]
    assert await watched.step() == []
    await broken(watched)
    first = await watched.step()
    if rule.for_seconds:
        assert (name, "firing") not in first, "it has not been broken for long enough"
        await broken(watched) if name == "heartbeat_late" else None
        first = await watched.step(rule.for_seconds + 1)
    assert (name, "firing") in first
    assert (name, subject) in await watched.open_ones()
    assert (name, "firing") not in await watched.step(), "told once"
    await mended(watched)
    await watched.step()
    assert (name, subject) in await watched.open_ones(), "not over at the first look"
    assert (name, "resolved") in await watched.step(rule.resolve_seconds + 1)
    assert (name, subject) not in await watched.open_ones()


async def test_a_transaction_that_stays_open_fires(watched: Watched, tmp_path: Path) -> None:
    """A snapshot that is kept: dead rows pile up behind it."""
    changes = tmp_path / "rules.toml"
    changes.write_text('[[rule]]\nname = "long_transaction"\nthreshold = 0.05\n')
    watched.alerting = await watched.open(alert_rules=str(changes))
    async with watched.owner.connect() as conn:
        await conn.exec_driver_sql("SELECT pg_current_xact_id()")
        await conn.exec_driver_sql("SELECT pg_sleep(0.06)")
        assert ("long_transaction", "firing") in await watched.step()


async def test_only_a_worker_that_knows_the_version_serves_a_kind(watched: Watched) -> None:
    """An old worker beside a newer payload is none; a current one of another queue is none."""
    await make_job(watched.engine)
    for name, version, queue in (("old", 0, "default"), ("elsewhere", 1, "costing")):
        await execute(
            watched.owner,
            """WITH me AS (
                   INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state,
                                             live_until)
                   VALUES (:name, 'h', 1, 't', jsonb_build_object('probe.write',
                           CAST(:version AS int)), 'working', clock_timestamp() + interval '1 h')
                   RETURNING worker_id)
               INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots)
               SELECT worker_id, :queue, 1, 1 FROM me""",
            name=name,
            version=version,
            queue=queue,
        )
    await watched.step()
    assert ("no_worker_for_kind", "firing") in await watched.step(400)
    await execute(
        watched.owner,
        "UPDATE chot.workers SET kinds = '{\"probe.write\": 1}' WHERE worker_id = 'old'",
    )
    await watched.step()
    assert ("no_worker_for_kind", "resolved") in await watched.step(130)


async def test_what_an_operator_has_stopped_calls_nobody(watched: Watched) -> None:
    """A paused kind's jobs wait by his will: neither starved nor without a worker."""
    await _nobody_takes_it(watched)
    await execute(watched.owner, "UPDATE chot.kinds SET paused = true WHERE name = 'probe.write'")
    await watched.step()
    assert await watched.step(1000) == []


async def test_a_backlog_that_waits_its_turn_is_no_lag(watched: Watched) -> None:
    """The window is full: what waits in the outbox waits for workers, not for SQS."""
    job_id = await make_job(watched.engine)
    await execute(
        watched.owner,
        """INSERT INTO chot.published (queue, job_id, kind, fence, turn, take_token)
           SELECT queue, id, kind, fence, 1, gen_random_uuid() FROM chot.jobs WHERE id = :id""",
        id=job_id,
    )
    await make_job(watched.engine)
    await execute(
        watched.owner, "UPDATE chot.outbox SET next_send_at = clock_timestamp() - interval '1 hour'"
    )
    await watched.step()
    assert ("outbox_lag", "firing") not in await watched.step(100)

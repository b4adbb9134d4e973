"""Audit: every act leaves its row with it, and no role changes one."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role, Scope
from shared.api_keys import KeyGrant, key_hash_of, key_id_of, new_key, revoke_key, store_key
from shared.audit import Action, Actor, list_audit
from shared.database import open_engine, sqlstate_of, transaction
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Accepted, Submit, enqueue, enqueue_each, enqueue_many, listed_jobs
from shared.jobs.pause import pause_queue, resume_queue
from shared.jobs.redrive import Redriven, redrive_job
from shared.restored import mark_restored
from tests.factories import NUMBERS, execute, fetch, make_job, scalar, submitted
from tests.protocol.exits import TERMINAL_EXITS, claimed_for, leave
from tests.services import Database

ROWS = """SELECT action, principal, key_id, host(source) AS source, request_id::text, job_id, target,
                 company, brand, approver, approval_id, facts FROM chot.audit ORDER BY id"""
BY_SQL = """
    SELECT job_id FROM chot.enqueue(kind => 'probe.write', company => 'ACME', brand => 'RED',
           payload => jsonb_build_object('number', CAST(:number AS integer)),
           principal => 'somebody else')"""
SOMEBODY = Actor(
    principal="shop",
    key_id="0123456789ab",
    source="192.0.2.7",
    request_id="b1f0c9f4-6a58-4d0c-8f6a-4f0b7f2f7a11",
)


def a_job(**changed: Any) -> Submit:
    """A probe of ACME's brand RED with a number of its own."""
    given = {"kind": "probe.write", "company": "ACME", "brand": "RED"}
    return Submit(**(given | {"payload": {"number": next(NUMBERS)}} | changed))


async def bury(owner_engine: AsyncEngine, job_id: object) -> None:
    """Make a pending job a dead one."""
    await execute(
        owner_engine,
        """UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp()
            WHERE id = :i AND state = 'pending'""",
        i=job_id,
    )


async def acts(engine: AsyncEngine) -> list[tuple[str, str]]:
    """Action and principal of every row, in the order they were written."""
    return [(row.action, row.principal) for row in await fetch(engine, ROWS)]


async def run(engine: AsyncEngine, statement: str, *, replica: bool) -> None:
    """Run it, as a replica would that fires no ordinary trigger."""
    async with engine.begin() as conn:
        if replica:
            await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(text(statement))


@pytest.mark.parametrize("role", ["chot_app", "chot_owner", "superuser"])
async def test_no_role_changes_or_removes_a_row(
    probes: AsyncEngine, database: Database, role: str
) -> None:
    """Neither who writes it, nor who owns it, nor a superuser with triggers of replicas only."""
    await make_job(probes)
    before = await fetch(probes, ROWS)
    url = database.superuser_url if role == "superuser" else database.url_as(role)
    engine = open_engine(url, pool_size=1)
    for change in (
        "UPDATE chot.audit SET principal = 'nobody'",
        "UPDATE chot.audit SET principal = 'nobody' WHERE false",
        "DELETE FROM chot.audit",
        "TRUNCATE chot.audit",
        "TRUNCATE chot.audit RESTART IDENTITY CASCADE",
    ):
        for replica in (False, True) if role == "superuser" else (False,):
            with pytest.raises(DBAPIError) as caught:
                await run(engine, change, replica=replica)
            expected = "42501" if role == "chot_app" else "CH007"
            assert sqlstate_of(caught.value) == expected, change
            assert role == "chot_app" or "append-only" in str(caught.value)
    await engine.dispose()
    assert await fetch(probes, ROWS) == before
    assert len(before) == 1


async def test_a_submit_in_sql_is_the_login_roles_own(
    probes: AsyncEngine, database: Database
) -> None:
    """Role enqueue cannot say that it is somebody else, by an argument or by the setting."""
    engine = open_engine(database.enqueue_url, pool_size=1)
    async with engine.begin() as conn:
        await conn.execute(
            text("SELECT set_config('chot.actor', :said, true)"), {"said": SOMEBODY.said}
        )
        job_id = await conn.scalar(text(BY_SQL), {"number": next(NUMBERS)})
    await engine.dispose()
    (row,) = await fetch(probes, ROWS)
    assert (row.action, row.principal, row.job_id) == ("job.submit", "sql:chot_enqueue", job_id)
    assert (row.key_id, row.request_id, row.source) == (None, None, "127.0.0.1")
    assert (row.company, row.brand) == ("ACME", "RED")
    assert row.facts == {"kind": "probe.write", "created": True, "duplicate": None}


async def test_a_transaction_may_be_on_somebodys_behalf_and_only_it(probes: AsyncEngine) -> None:
    """What the platform said of one transaction is gone with it, on the same connection."""
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        await enqueue(conn, a_job(principal="shop"))
    async with transaction(probes) as conn:
        await enqueue(conn, a_job())
    async with probes.begin() as conn:
        await enqueue(conn, a_job())
    first, second, third = await fetch(probes, ROWS)
    assert (first.principal, first.key_id, first.source) == ("shop", "0123456789ab", "192.0.2.7")
    assert first.request_id == SOMEBODY.request_id
    for row in (second, third):
        assert (row.principal, row.key_id, row.request_id) == ("sql:chot_app", None, None)


async def test_an_act_that_is_rolled_back_leaves_no_row(probes: AsyncEngine) -> None:
    """Submit, cancel, pause: the row lives or dies with the act."""
    job_id = await make_job(probes)
    async with probes.connect() as conn:
        await enqueue(conn, a_job())
        assert await cancel_job(conn, job_id)
        assert await pause_queue(conn, "default")
        await conn.rollback()
    assert await acts(probes) == [("job.submit", "sql:chot_app")]


@pytest.mark.parametrize(
    ("kind", "ran", "duplicate"),
    [
        ("probe.write", False, "joined"),
        ("probe.merge", False, "merged"),
        ("probe.follow", True, "follow_up"),
    ],
)
async def test_both_submitters_of_one_job_are_known(
    probes: AsyncEngine, *, kind: str, ran: bool, duplicate: str
) -> None:
    """Whoever joins, merges into or follows up somebody else's job has a row of his own."""
    number = next(NUMBERS)
    job_id = (await submitted(probes, kind, number=number)).job_id
    if ran:
        await execute(
            probes,
            """UPDATE chot.jobs SET state = 'running', attempt = 1, fence = 1, worker_id = 'w',
                      lease_token = gen_random_uuid(), started_at = clock_timestamp(),
                      lease_expires_at = clock_timestamp() + interval '1 hour'
                WHERE id = :i AND state = 'pending'""",
            i=job_id,
        )
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        again = await enqueue(conn, a_job(kind=kind, payload={"number": number}, principal="shop"))
    assert (again.job_id, again.duplicate) == (job_id, duplicate)
    first, second = await fetch(probes, ROWS)
    assert (first.principal, second.principal) == ("sql:chot_app", "shop")
    assert {first.job_id, second.job_id} == {job_id}
    assert second.facts == {"kind": kind, "created": False, "duplicate": duplicate}
    assert second.key_id == "0123456789ab"


@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_a_follow_up_that_becomes_a_job_is_in_the_audit(
    probes: AsyncEngine, how: str
) -> None:
    """By whoever submitted it and no other, whoever ends the job before it; once."""
    held = await claimed_for(probes, how, kind="probe.follow", number=7)
    asked = a_job(kind="probe.follow", payload={"number": 7}, principal="shop")
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        assert (await enqueue(conn, asked)).duplicate == "follow_up"
    before = len(await fetch(probes, ROWS))
    assert await leave(probes, held, how)
    born = await scalar(probes, "SELECT id FROM chot.jobs WHERE id <> :i", i=held.lease.job_id)
    rows = [row for row in (await fetch(probes, ROWS))[before:] if row.action == "job.submit"]
    (row,) = rows
    assert (row.job_id, row.principal) == (born, "shop")
    assert (row.key_id, row.source, row.request_id) == (None, None, None)
    assert (row.company, row.brand) == ("ACME", "RED")
    follows = str(held.lease.job_id)
    told = {"kind": "probe.follow", "created": True, "duplicate": None, "follows": follows}
    assert row.facts == told


async def test_a_batch_leaves_a_row_for_each_job(probes: AsyncEngine) -> None:
    """Set-based and one by one: the same rows, none for what was refused."""
    jobs = [a_job(), a_job(), a_job(kind="probe.none")]
    jobs.append(jobs[0])
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        answers = await enqueue_each(conn, listed_jobs(jobs))
        many = await enqueue_many(conn, [a_job(), a_job()])
    accepted = [each for each in answers if isinstance(each, Accepted)]
    assert len(accepted) == 3
    expected = {(each.job_id, each.created) for each in accepted}
    expected |= {(each.job_id, True) for each in many}
    rows = await fetch(probes, ROWS)
    assert {(row.job_id, row.facts["created"]) for row in rows} == expected
    assert len(rows) == 5
    assert {(row.source, row.company, row.brand) for row in rows} == {("192.0.2.7", "ACME", "RED")}
    assert {row.facts["kind"] for row in rows} == {"probe.write"}


async def test_cancel_and_redrive_are_acts_when_they_happen(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """One row each; what was too late, or is no job, leaves none."""
    live, dead = await make_job(probes), await make_job(probes)
    await bury(owner_engine, dead)
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        assert await cancel_job(conn, live)
        assert not await cancel_job(conn, live)
        assert not await cancel_job(conn, dead)
        assert await redrive_job(conn, dead) == Redriven()
        assert await redrive_job(conn, dead) != Redriven()
    rows = (await fetch(probes, ROWS))[2:]
    assert [(row.action, row.job_id) for row in rows] == [
        ("job.cancel", live),
        ("job.redrive", dead),
    ]
    assert {(row.principal, row.company, row.brand, row.source) for row in rows} == {
        ("shop", "ACME", "RED", "192.0.2.7")
    }
    row = (await fetch(probes, "SELECT * FROM chot.jobs WHERE id = :i", i=dead))[0]
    assert (row.redriven_by, row.redriven_approver) == ("shop", None)
    assert row.redriven_at is not None


async def test_a_pause_of_what_is_paused_is_no_act(probes: AsyncEngine) -> None:
    """Repeats answer as before and leave no row; nor does a queue that is not there."""
    async with transaction(probes, actor=SOMEBODY.said) as conn:
        for _ in range(2):
            assert await pause_queue(conn, "default")
        assert not await pause_queue(conn, "none")
        for _ in range(2):
            assert await resume_queue(conn, "default") == 0
        assert await resume_queue(conn, "none") is None
    rows = await fetch(probes, ROWS)
    assert [(row.action, row.target, row.principal) for row in rows] == [
        ("queue.pause", "default", "shop"),
        ("queue.resume", "default", "shop"),
    ]
    assert {(row.company, row.job_id) for row in rows} == {(None, None)}


async def test_a_key_is_made_and_revoked_once_and_never_told(owner_engine: AsyncEngine) -> None:
    """Its public id, account and rights; not its text, not its hash."""
    key = new_key()
    grant = KeyGrant(
        principal="shop", roles=[Role.READ], scope=Scope(company="ACME", brands=("RED",)), days=1
    )
    async with owner_engine.begin() as conn:
        assert await store_key(conn, key, grant) is not None
        assert await store_key(conn, key, grant) is None, "the id is taken"
    for _ in range(2):
        async with owner_engine.begin() as conn:
            ended = await revoke_key(conn, str(key_id_of(key)))
            assert ended is not None
            assert ended["revoked_at"] is not None
    made, revoked = await fetch(owner_engine, ROWS)
    assert [made.action, revoked.action] == ["key.create", "key.revoke"]
    for row in (made, revoked):
        assert (row.target, row.principal) == (key_id_of(key), "sql:chot_owner")
        assert (row.company, row.brand) == ("ACME", "RED")
        assert (row.facts["account"], row.facts["roles"]) == ("shop", ["read"])
    every = "SELECT string_agg(CAST(a AS text), ' ') FROM chot.audit a"
    said = await scalar(owner_engine, every)
    assert key.split("_", 2)[2] not in said
    assert key_hash_of(key).hex() not in said


async def test_a_restore_is_an_act(owner_engine: AsyncEngine, database: Database) -> None:
    """Who made this copy another deployment, and which one it became."""
    engine = open_engine(database.superuser_url, pool_size=1)
    assert [each async for each in mark_restored(engine)]
    await engine.dispose()
    (row,) = await fetch(owner_engine, ROWS)
    deployment = await scalar(owner_engine, "SELECT deployment_id::text FROM chot.deployment")
    assert (row.action, row.target) == ("database.restored", deployment)
    assert row.principal.startswith("sql:")


# A year of a busy deployment in small: nearly all are submits of one company.
MANY = """
    INSERT INTO chot.audit (at, action, principal, job_id, company, brand)
    SELECT clock_timestamp() - make_interval(secs => 20000 - n),
           CASE WHEN n % 5000 = 0 THEN 'queue.pause' ELSE 'job.submit' END, 'erp-' || n % 3,
           gen_random_uuid(), CASE WHEN n % 4000 = 1 THEN 'TINY' ELSE 'ACME' END,
           CASE WHEN n % 2000 = 1 THEN 'SMALL' ELSE 'RED' END
      FROM generate_series(1, 20000) AS n"""
READ = """SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
            FROM pg_stat_xact_user_tables WHERE schemaname = 'chot' AND relname = 'audit'"""


@pytest.mark.parametrize(
    ("filters", "scope", "found"),
    [
        ({}, Scope(), 50),
        ({"action": "queue.pause"}, Scope(), 4),
        ({"principal": "nobody"}, Scope(), 0),
        ({"company": "TINY"}, Scope(), 5),
        ({}, Scope(company="TINY"), 5),
        ({}, Scope(company="ACME", brands=("SMALL",)), 5),
        ({"principal": "erp-1"}, Scope(company="ACME"), 50),
    ],
    ids=str,
)
async def test_a_page_reads_what_it_shows(
    owner_engine: AsyncEngine, *, filters: dict[str, Any], scope: Scope, found: int
) -> None:
    """A rare act, account, company or brand among very many rows is found by an index."""
    await execute(owner_engine, MANY)
    await execute(owner_engine, "ANALYZE chot.audit")
    async with owner_engine.begin() as conn:
        before = await conn.scalar(text(READ))
        rows = await list_audit(conn, filters, limit=50, scope=scope)
        read = await conn.scalar(text(READ)) - before
    assert len(rows) == found
    assert read <= 200


def test_the_words_of_the_code_fit_the_column() -> None:
    """The CHECK of the migration is a form, and every action has it."""
    assert all(part.isidentifier() for each in Action for part in each.split("."))

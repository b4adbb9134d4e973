"""Enqueue: one way into the job table, in the caller's own transaction, by one set of rules."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import RFC_4122

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from shared.database import open_engine, sqlstate_of, transaction
from shared.errors import Busy, EnqueueRefused
from shared.jobs.enqueue import Accepted, Submit, enqueue, enqueue_many, refusal_of
from tests.factories import claimed_job, execute, fetch, job_row, scalar, submitted
from tests.protocol.sessions import driver_session
from tests.services import Database

ROWS = """SELECT (SELECT count(*) FROM chot.jobs), (SELECT count(*) FROM chot.job_payloads),
                 (SELECT count(*) FROM chot.outbox)"""


def write(**changes: Any) -> Submit:
    """A submit that is in order, with one thing changed."""
    fields: dict[str, Any] = {
        "kind": "probe.write",
        "company": "ACME",
        "brand": "RED",
        "payload": {"number": 1},
    }
    return Submit(**(fields | changes))


async def rows(engine: AsyncEngine) -> tuple[int, int, int]:
    """How many jobs, payloads and messages there are."""
    (found,) = await fetch(engine, ROWS)
    return found[0], found[1], found[2]


async def test_a_rollback_leaves_neither_job_nor_message(probes: AsyncEngine) -> None:
    """The caller's transaction is the only one; Python, a session and SQL alike."""
    async with probes.connect() as conn:
        await enqueue(conn, write())
        await conn.rollback()
    async with AsyncSession(probes) as session:
        await enqueue(session, write())
        await session.rollback()
    async with probes.connect() as conn:
        await conn.exec_driver_sql(
            """SELECT chot.enqueue('probe.write', 'ACME', 'RED', '{"number": 1}')"""
        )
        await conn.rollback()
    assert await rows(probes) == (0, 0, 0)


async def test_a_commit_leaves_job_payload_and_message(probes: AsyncEngine) -> None:
    """One of each, beside what the caller wrote itself."""
    async with AsyncSession(probes) as session, session.begin():
        await session.execute(text("INSERT INTO probe.stamps SELECT gen_random_uuid(), 0, 'mine'"))
        accepted = await enqueue(session, write())
    assert (accepted.created, accepted.duplicate, accepted.state) == (True, None, "pending")
    assert await rows(probes) == (1, 1, 1)
    assert await scalar(probes, "SELECT what FROM probe.stamps") == "mine"
    assert (await job_row(probes, accepted.job_id)).principal == "sql:chot_app"


async def test_ids_are_of_version_seven_and_in_order(probes: AsyncEngine) -> None:
    """Time first, so that new jobs lie together and a cursor never turns back."""
    before = datetime.now(UTC) - timedelta(seconds=2)
    ids = [(await submitted(probes)).job_id for _ in range(5)]
    assert {(each.version, each.variant) for each in ids} == {(7, RFC_4122)}
    moments = [each.int >> 80 for each in ids]
    assert moments == sorted(moments)
    assert moments[0] >= before.timestamp() * 1000


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"kind": "no.such"}, "kind", "CH001"),
    ({"company": "NONE"}, "company", "CH005"),
    ({"brand": "GREEN"}, "brand", "CH005"),
    ({"payload": {}}, "payload.number", "CH002"),
    ({"payload": {"number": 1.5}}, "payload.number", "CH002"),
    ({"payload": {"number": None}}, "payload.number", "CH002"),
    ({"payload": {"number": {"a": 1}}}, "payload.number", "CH002"),
    ({"payload": {"number": [1, [2]]}}, "payload.number", "CH002"),
    ({"payload": {"number": 1, "x": "y" * 262_144}}, "payload", "CH003"),
    ({"payload": {"number": 1, "x": float("nan")}}, "payload", "CH003"),
    ({"priority": 10}, "priority", "CH003"),
    ({"priority": -1}, "priority", "CH003"),
    ({"max_attempts": 0}, "max_attempts", "CH003"),
    ({"max_attempts": 26}, "max_attempts", "CH003"),
    ({"payload_version": 2}, "payload_version", "CH003"),
    ({"run_at": datetime(2026, 1, 1)}, "run_at", "CH003"),  # noqa: DTZ001 - the point
]


async def test_a_refusal_names_the_field(probes: AsyncEngine) -> None:
    """Whoever reads the error knows what to change; nothing was written, one by one or many."""
    for changes, field, code in REFUSED:
        for many in (False, True):
            with pytest.raises(EnqueueRefused) as caught:
                await _attempt(probes, write(**changes), many=many)
            assert (caught.value.field, caught.value.code) == (field, code), str(changes)[:100]
    assert await rows(probes) == (0, 0, 0)


async def _attempt(engine: AsyncEngine, job: Submit, *, many: bool) -> None:
    async with engine.begin() as conn:
        if many:
            await enqueue_many(conn, [write(payload={"number": 99}), job])
        else:
            await enqueue(conn, job)


@pytest.mark.usefixtures("probes")
async def test_missing_parts_are_refused_by_the_sql_function_too(database: Database) -> None:
    """A SQL caller has no model in front of it."""
    async with driver_session(database.enqueue_url) as connection:
        for arguments, field in (
            ("NULL, 'ACME', 'RED', '{}'", "kind"),
            ("'probe.write', NULL, 'RED', '{\"number\": 1}'", "company"),
            ("'probe.write', 'ACME', 'RED', NULL", "payload"),
            ("'probe.write', 'ACME', 'RED', '[1]'", "payload"),
            ("'probe.write', 'ACME', 'RED', '{\"number\": 1}', 'infinity'", "run_at"),
            ("'probe.write', 'ACME', 'RED', '{\"number\": 1}', '-infinity'", "run_at"),
            ("'probe.write', 'ACME', 'RED', '{\"number\": 1}', '20000-01-01'", "run_at"),
            ("'probe.write', 'ACME', 'RED', '\"x\"'", "payload"),
        ):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.execute(f"SELECT chot.enqueue({arguments})")
            assert getattr(caught.value, "detail", None) == field


async def test_role_enqueue_can_submit_and_nothing_else(
    probes: AsyncEngine, database: Database
) -> None:
    """EXECUTE on two functions: no table can be read or written, no principal claimed."""
    async with driver_session(database.enqueue_url) as connection:
        job_id = await connection.fetchval(
            """SELECT job_id FROM chot.enqueue('probe.write', 'ACME', 'RED', '{"number": 1}',
                                               principal => 'the boss')"""
        )
        assert (await job_row(probes, job_id)).principal == "sql:chot_enqueue"
        many = json.dumps([{"kind": "probe.write", "company": "ACME", "payload": {"number": 2}}])
        assert await connection.fetchval("SELECT created FROM chot.enqueue_many($1)", many)
        for statement in (
            "SELECT 1 FROM chot.jobs",
            "SELECT 1 FROM chot.outbox",
            "SELECT 1 FROM books.companies",
            "INSERT INTO chot.job_payloads VALUES (gen_random_uuid(), '{}')",
            "UPDATE chot.jobs SET priority = 9",
            "DELETE FROM chot.jobs",
            "SELECT chot.uuid7()",
            "SELECT chot.fingerprint('k', 'c', 'b', '{}', '{}')",
            "SELECT chot.merge_payload('{}', '{}')",
            "SELECT chot.bound_transaction()",
            "CREATE TABLE chot.mine ()",
            "CREATE TABLE public.mine ()",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)


async def test_a_callers_search_path_changes_nothing(
    probes: AsyncEngine, database: Database
) -> None:
    """SECURITY DEFINER with a pinned path: what stands first in the caller's is not called."""
    async with driver_session(database.superuser_url) as admin:
        for name, returned in (("sha256(bytea)", "bytea"), ("jsonb_typeof(jsonb)", "text")):
            await admin.execute(
                f"""CREATE FUNCTION public.{name} RETURNS {returned}
                    LANGUAGE sql AS 'SELECT NULL::{returned}'"""
            )
    async with driver_session(database.enqueue_url) as connection:
        await connection.execute("SET search_path = public, pg_catalog")
        assert await connection.fetchval("SELECT sha256('x') IS NULL"), "the trap is laid"
        job_id = await connection.fetchval(
            "SELECT job_id FROM chot.enqueue('probe.write', 'ACME', 'RED', '{\"number\": 1}')"
        )
    assert len((await job_row(probes, job_id)).fingerprint) == 32


async def test_the_platform_may_name_whom_it_asks_for(probes: AsyncEngine) -> None:
    """Role app speaks for the account behind a request."""
    async with probes.begin() as conn:
        accepted = await enqueue(conn, write(principal="an", trace="00-1", priority=9))
    row = await job_row(probes, accepted.job_id)
    assert (row.principal, row.trace, row.priority) == ("an", "00-1", 9)


@pytest.mark.scenario("F47")
async def test_numbers_of_a_payload_keep_every_digit(probes: AsyncEngine) -> None:
    """Money that went in as a number comes out as that number."""
    amount = Decimal("12345678901234567.8901")
    async with probes.begin() as conn:
        accepted = await enqueue(conn, write(payload={"number": 2**53 + 1, "amount": amount}))
    payload = await scalar(
        probes, "SELECT payload FROM chot.job_payloads WHERE job_id = :i", i=accepted.job_id
    )
    assert (payload["number"], payload["amount"]) == (2**53 + 1, amount)


async def test_run_at_holds_job_and_message(probes: AsyncEngine) -> None:
    """A delay is in the database, not in SQS."""
    later = datetime.now(UTC) + timedelta(days=40)
    async with probes.begin() as conn:
        accepted = await enqueue(conn, write(run_at=later))
    assert (await job_row(probes, accepted.job_id)).available_at == later
    assert await scalar(probes, "SELECT next_send_at FROM chot.outbox") == later


# Fingerprint

PRINT = "SELECT chot.fingerprint('k', 'ACME', CAST(:brand AS text), CAST(:p AS jsonb), '{a,b}')"


async def fingerprint(engine: AsyncEngine, payload: str, brand: str | None = "RED") -> bytes:
    """The fingerprint of a payload with fields a and b."""
    found: bytes = await scalar(engine, PRINT, p=payload, brand=brand)
    return found


async def test_the_fingerprint_knows_the_same_work_in_other_words(probes: AsyncEngine) -> None:
    """Order, spacing, repetition and other members do not matter; lists are sets."""
    plain = await fingerprint(probes, '{"a": "x", "b": [1, 2, 3]}')
    for same in (
        '{"b":[3,2,1],"a":"x"}',
        '{"a": "x", "b": [1, 1, 2, 3, 3], "other": 5}',
        '{"a": "\\u0078", "b": [1e0, 2, 0.3e1]}',
    ):
        assert await fingerprint(probes, same) == plain, same


async def test_the_fingerprint_tells_other_work_apart(probes: AsyncEngine) -> None:
    """A number is not its text, a member is not a list of it, NULL is not a brand."""
    prints = [
        await fingerprint(probes, payload)
        for payload in (
            '{"a": "1", "b": 1}',
            '{"a": 1, "b": 1}',
            '{"a": 1, "b": "1"}',
            '{"a": true, "b": 1}',
            '{"a": [1], "b": 1}',
            '{"a": ["1"], "b": 1}',
            '{"a": [], "b": 1}',
            '{"a": "é", "b": 1}',
            '{"a": "e\\u0301", "b": 1}',
            '{"a": " 1", "b": 1}',
        )
    ]
    prints.append(await fingerprint(probes, '{"a": "1", "b": 1}', brand=None))
    prints.append(await fingerprint(probes, '{"a": "1", "b": 1}', brand="BLUE"))
    assert len(set(prints)) == len(prints)


async def test_python_sql_and_batch_mean_the_same_work(
    probes: AsyncEngine, database: Database
) -> None:
    """One implementation: whoever comes second is told about the first, by every way in."""
    async with probes.begin() as conn:
        first = await enqueue(conn, write(payload={"number": 7}))
        again = await enqueue(conn, write(payload={"number": 7, "chunks": 3}))
        (batch,) = await enqueue_many(conn, [write(payload={"number": 7})])
    async with driver_session(database.enqueue_url) as connection:
        by_sql = await connection.fetchval(
            "SELECT job_id FROM chot.enqueue('probe.write', 'ACME', 'RED', '{ \"number\" : 0.7e1 }')"
        )
        by_text = await connection.fetchrow(
            "SELECT * FROM chot.enqueue('probe.write', 'ACME', 'RED', '{\"number\": \"7\"}')"
        )
    assert {first.job_id, again.job_id, batch.job_id, by_sql} == {first.job_id}
    assert by_text["created"]
    assert await rows(probes) == (2, 2, 2)


async def test_a_payload_may_be_json_text(probes: AsyncEngine) -> None:
    """It is stored as it is; a text that is no JSON object of its own is refused, never spliced in."""
    text = '{"x": 1.10, "number": 7}'
    async with probes.begin() as conn:
        first = await enqueue(conn, write(payload=text))
        (batch,) = await enqueue_many(conn, [write(payload=text)])
    assert (first.created, batch.created, batch.job_id) == (True, False, first.job_id)
    (kept,) = await fetch(probes, "SELECT payload::text AS said FROM chot.job_payloads")
    assert kept.said == text
    spliced = '{"number": 8}}, {"kind": "probe.write", "payload": {"number": 9}'
    for broken in (spliced, "[]", "{", '{"a":' + "[" * 100_000):
        for many in (False, True):
            with pytest.raises(EnqueueRefused) as caught:
                await _attempt(probes, write(payload=broken), many=many)
            assert caught.value.field.startswith("payload")
    assert await rows(probes) == (1, 1, 1)
    long = '{"number": 8, "x": ' + "9" * 5000 + "}"  # more digits than int() would read
    for many in (False, True):
        await _attempt(probes, write(payload=long), many=many)
    assert (await rows(probes))[0] == 3, "the second is met, and number 99 goes with it"


# What a caller's transaction may be


async def test_an_isolation_above_read_committed_is_refused(probes: AsyncEngine) -> None:
    """⚑ There the duplicate that just committed would stay invisible for ever."""
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        other = probes.execution_options(isolation_level=level)
        for many in (False, True):
            with pytest.raises(DBAPIError, match="READ COMMITTED only") as caught:
                await _attempt(other, write(), many=many)
            assert sqlstate_of(caught.value) == "CH004"
    assert await rows(probes) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["probe.merge", "probe.follow"])
async def test_whoever_wrote_on_an_active_row_may_not_idle_long(
    probes: AsyncEngine, kind: str
) -> None:
    """The owner's fence waits for that caller: its transaction is bounded, until its end."""
    if kind == "probe.follow":
        await claimed_job(probes, kind=kind, number=1)
    else:
        await submitted(probes, kind, number=1)
    idle = text("SHOW idle_in_transaction_session_timeout")
    async with probes.connect() as conn:
        await conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        answer = await enqueue(conn, write(kind=kind, payload={"number": 1, "note": "x"}))
        assert answer.duplicate in {"merged", "follow_up"}
        assert await conn.scalar(idle) == "5s"
        await conn.rollback()
        assert await conn.scalar(idle) != "5s"
        await conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = '1s'"))
        await enqueue(conn, write(kind=kind, payload={"number": 1, "note": "x"}))
        assert await conn.scalar(idle) == "1s", "a tighter bound of the caller's own stays"


async def test_a_join_leaves_the_callers_transaction_as_it_is(probes: AsyncEngine) -> None:
    """It has locked nothing that anybody waits for."""
    await submitted(probes, number=1)
    async with probes.connect() as conn:
        await conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = '17s'"))
        assert (await enqueue(conn, write())).duplicate == "joined"
        assert await conn.scalar(text("SHOW idle_in_transaction_session_timeout")) == "17s"


async def test_a_twin_that_is_written_on_too_long_is_busy(probes: AsyncEngine) -> None:
    """lock_timeout turns a long wait into an answer; the API makes a Retry-After of it."""
    twin = await submitted(probes, number=1)
    async with probes.begin() as owner:
        await owner.execute(
            text(
                "UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp() WHERE id = :i"
            ),
            {"i": twin.job_id},
        )
        with pytest.raises(Busy):
            await _submit_within(probes, 0.2)
    assert (await _submit_within(probes, 0.2)).created


async def _submit_within(engine: AsyncEngine, seconds: float) -> Accepted:
    async with transaction(engine, lock_timeout=seconds) as conn:
        return await enqueue(conn, write())


async def test_an_error_of_another_kind_comes_back_as_it_is(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A fault of the database is no refusal of the caller's values."""
    await execute(owner_engine, "ALTER TABLE chot.deployment RENAME TO elsewhere")
    with pytest.raises(ProgrammingError):
        await _attempt(probes, write(), many=False)


@pytest.mark.usefixtures("probes")
async def test_role_read_cannot_submit(database: Database) -> None:
    """Reading is all it does."""
    engine = open_engine(database.read_url, pool_size=1)
    with pytest.raises(DBAPIError) as caught:
        await _attempt(engine, write(), many=False)
    assert sqlstate_of(caught.value) in {"42501", "25006"}
    assert isinstance(refusal_of(caught.value), DBAPIError)
    await engine.dispose()

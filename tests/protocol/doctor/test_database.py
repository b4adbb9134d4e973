"""Each finding about the database: the fault is made, seen, mended by its remedy, and gone."""

import time
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from shared.doctor import server
from shared.doctor.finding import Finding
from shared.doctor.kinds import check_kinds
from shared.doctor.roles import check_login, check_roles
from shared.doctor.schema import check_indexes, check_revision
from shared.doctor.server import check_clock, check_horizon, check_server, check_vacuum
from tests.factories import execute, fetch, make_job, offer_slots
from tests.protocol.doctor.remedies import codes, mend
from tests.services import Database


@pytest.fixture
async def admin(database: Database) -> AsyncIterator[AsyncEngine]:
    """A superuser's engine in autocommit: for sabotage and remedies."""
    engine = open_engine(database.superuser_url, pool_size=4)
    yield engine.execution_options(isolation_level="AUTOCOMMIT")
    await engine.dispose()


@pytest.fixture
async def whole(database: Database) -> AsyncIterator[AsyncConnection]:
    """A superuser's transaction that is rolled back: for what belongs to the whole cluster."""
    engine = open_engine(database.superuser_url, pool_size=1)
    async with engine.connect() as conn:
        await conn.begin()
        yield conn
        await conn.rollback()
    await engine.dispose()


async def test_nothing_is_found_in_a_database_as_it_is_migrated(admin: AsyncEngine) -> None:
    async with admin.connect() as conn:
        assert await check_roles(conn) == []
        assert await check_indexes(conn) == []
        assert await check_horizon(conn) == []
        assert await check_vacuum(conn) == []
        assert await check_clock(conn) == []


ROLE_FAULTS = {
    "a role that is a superuser": ("ALTER ROLE chot_app SUPERUSER", "role-attributes"),
    "a role that bypasses": ("ALTER ROLE chot_read BYPASSRLS", "role-attributes"),
    "no role": ("ALTER ROLE chot_enqueue RENAME TO somebody", "role-missing"),
    "the ledger may be changed": (
        "GRANT UPDATE ON books.stock_movements TO chot_app",
        "ledger-writable",
    ),
    "one column of an entry": (
        "GRANT UPDATE (value) ON books.stock_movements TO chot_app",
        "ledger-writable",
    ),
    "entries may be deleted": ("GRANT DELETE ON books.gl_entries TO chot_app", "ledger-writable"),
    "the audit may be emptied": ("GRANT TRUNCATE ON chot.audit TO chot_app", "ledger-writable"),
    "read writes": ("GRANT INSERT ON chot.jobs TO chot_read", "role-writes"),
    "enqueue reads": ("GRANT SELECT ON chot.jobs TO chot_enqueue", "role-writes"),
    "enqueue executes more": (
        "GRANT EXECUTE ON FUNCTION chot.uuid7() TO chot_enqueue",
        "enqueue-executes",
    ),
    "a right is gone": ("REVOKE INSERT ON chot.outbox FROM chot_app", "rights-missing"),
    "read sees less": ("REVOKE SELECT ON books.items FROM chot_read", "rights-missing"),
    "a ceiling is gone": (
        """DO $$ BEGIN EXECUTE format('ALTER ROLE chot_app IN DATABASE %I RESET lock_timeout',
                                      current_database()); END $$""",
        "role-settings",
    ),
}


@pytest.mark.parametrize("fault", ROLE_FAULTS)
async def test_a_role_is_seen_and_mended(whole: AsyncConnection, fault: str) -> None:
    """And nothing else is said of it."""
    statement, code = ROLE_FAULTS[fault]
    await whole.exec_driver_sql(statement)
    found = await check_roles(whole)
    assert codes(found) == [code]
    if code == "role-missing":
        assert found[0].remedy[1] == "chot migrate"
        await whole.exec_driver_sql("ALTER ROLE somebody RENAME TO chot_enqueue")
    else:
        await mend(whole, found[0])
    assert await check_roles(whole) == []


@pytest.mark.parametrize(
    ("role", "code"),
    [
        ("superuser", "login-too-strong"),
        ("owner", "login-too-strong"),
        ("read", "login-too-weak"),
        ("app", None),
    ],
)
async def test_the_login_of_processes(database: Database, role: str, code: str | None) -> None:
    """A superuser or the owner may do too much, role read too little; chot_app is right."""
    engine = open_engine(getattr(database, f"{role}_url"), pool_size=0)
    async with engine.connect() as conn:
        found = await check_login(conn, "CHOT_DATABASE_URL")
    assert codes(found) == ([] if code is None else [code])
    if found:
        assert "chot_app" in found[0].remedy[-1]


async def test_revisions_older_unknown_and_missing(
    admin: AsyncEngine, empty_database: Database
) -> None:
    known = frozenset({"0001_roles", "0002_platform"})
    async with admin.connect() as conn:
        head = await conn.scalar(text("SELECT version_num FROM chot.alembic_version"))
        assert await check_revision(conn, head=head, known=known | {head}) == []
        (older,) = await check_revision(conn, head="9999_new", known=known | {head, "9999_new"})
        assert (older.code, older.remedy) == ("schema-older", ("chot migrate",))
        (unknown,) = await check_revision(conn, head="0002_platform", known=known)
        assert (unknown.code, unknown.severity) == ("schema-unknown", "warning")
    engine = open_engine(empty_database.superuser_url, pool_size=0)
    async with engine.connect() as conn:
        (missing,) = await check_revision(conn, head=head, known=known)
    assert missing.code == "schema-missing"


async def test_an_index_that_is_gone_is_built_again(admin: AsyncEngine) -> None:
    """The remedy is the index as the code declares it, built beside the work."""
    async with admin.connect() as conn:
        await conn.exec_driver_sql("DROP INDEX chot.jobs_active_fingerprint_key")
        (found,) = await check_indexes(conn)
        assert (found.code, found.severity) == ("index-missing", "critical")
        assert "CREATE UNIQUE INDEX CONCURRENTLY" in found.remedy[0]
        await mend(conn, found)
        assert await check_indexes(conn) == []


async def test_an_index_whose_build_broke_off(admin: AsyncEngine) -> None:
    async with admin.connect() as conn:
        await conn.exec_driver_sql("""
            UPDATE pg_index SET indisvalid = false
             WHERE indexrelid = 'chot.outbox_job_idx'::regclass""")
        (found,) = await check_indexes(conn)
        assert found.code == "index-invalid"
        await mend(conn, found)
        assert await check_indexes(conn) == []


async def test_an_index_of_empty_pages(admin: AsyncEngine) -> None:
    """By a smaller measure than 256 MB: pages per row."""
    async with admin.connect() as conn:
        await conn.exec_driver_sql("""
            INSERT INTO chot.lease_losses (job_id)
            SELECT gen_random_uuid() FROM generate_series(1, 20000)""")
        await conn.exec_driver_sql("DELETE FROM chot.lease_losses WHERE id > 10")
        await conn.exec_driver_sql("VACUUM (ANALYZE, INDEX_CLEANUP ON) chot.lease_losses")
        found = await check_indexes(conn, bloated=200_000, row_bytes=4000)
        mine = [each for each in found if "lease_losses_at_idx" in each.seen]
        assert codes(mine) == ["index-bloated"]
        await mend(conn, mine[0])
        again = await check_indexes(conn, bloated=200_000, row_bytes=4000)
        assert not [each for each in again if "lease_losses_at_idx" in each.seen]


async def test_a_transaction_that_stays_open_is_ended(admin: AsyncEngine) -> None:
    async with admin.connect() as conn, admin.connect() as other:
        raw = await other.get_raw_connection()
        await raw.driver_connection.execute("BEGIN; SELECT pg_current_xact_id()")  # type: ignore[union-attr] # connected
        (found,) = await check_horizon(conn, seconds=0)
        assert found.code == "transaction-long"
        await mend(conn, found)

        async def gone() -> list[Finding]:
            return await check_horizon(conn, seconds=0)

        while await gone():
            await conn.exec_driver_sql("SELECT pg_sleep(0.01)")
        await other.invalidate()


async def test_a_replication_slot_that_nobody_reads(admin: AsyncEngine) -> None:
    async with admin.connect() as conn:
        name = "doctor_" + str(await conn.scalar(text("SELECT oid FROM pg_database LIMIT 1")))
        await conn.exec_driver_sql(f"SELECT pg_create_physical_replication_slot('{name}', true)")
        try:
            (found,) = [each for each in await check_horizon(conn) if name in each.seen]
            assert (found.code, found.severity) == ("slot", "warning")
            await mend(conn, found)
        except BaseException:
            await conn.exec_driver_sql(f"SELECT pg_drop_replication_slot('{name}')")
            raise
        assert not [each for each in await check_horizon(conn) if name in each.seen]


async def test_autovacuum_switched_off_for_a_hot_table(admin: AsyncEngine) -> None:
    async with admin.connect() as conn:
        await conn.exec_driver_sql("ALTER TABLE chot.jobs SET (autovacuum_enabled = false)")
        (found,) = await check_vacuum(conn)
        assert (found.code, found.severity) == ("autovacuum-table", "critical")
        await mend(conn, found)
        assert await check_vacuum(conn) == []


async def test_dead_rows_that_pile_up(admin: AsyncEngine) -> None:
    async with admin.connect() as conn:
        await conn.exec_driver_sql("""
            INSERT INTO chot.lease_losses (job_id)
            SELECT gen_random_uuid() FROM generate_series(1, 500)""")
        await conn.exec_driver_sql("DELETE FROM chot.lease_losses")
        await conn.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        await conn.exec_driver_sql("SELECT 1")
        (found,) = await check_vacuum(conn, dead_rows=100)
        assert found.code == "dead-rows"
        await mend(conn, found)
        await conn.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        assert await check_vacuum(conn, dead_rows=100) == []


async def test_the_server_as_a_whole(admin: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Autovacuum is off on the tests' server, which shows that it is seen."""
    async with admin.connect() as conn:
        (off,) = await check_server(conn, needed=None)
        assert (off.code, off.severity) == ("autovacuum-off", "critical")
        assert "SET autovacuum = on" in off.remedy[0]
        assert "connections" in codes(await check_server(conn, needed=1_000_000))
        monkeypatch.setattr(server, "OLDEST", 990_000)
        assert "server-old" in codes(await check_server(conn, needed=None))
        monkeypatch.setattr(server, "WRAPAROUND", -1)
        assert "wraparound" in codes(await check_server(conn, needed=None))
        await conn.exec_driver_sql("SET default_transaction_read_only = on")
        assert "server-read-only" in codes(await check_server(conn, needed=None))


async def test_a_clock_that_is_far_off(admin: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    for off, severity in ((30.0, "note"), (-400.0, "warning")):
        monkeypatch.setattr("time.time", lambda off=off: real() + off)
        async with admin.connect() as conn:
            (found,) = await check_clock(conn)
        assert (found.code, found.severity) == ("clock", severity)
        assert f"{abs(off):.0f} s" in found.seen


async def test_a_kind_that_no_live_worker_has_is_named(probes: AsyncEngine) -> None:
    """With jobs due it is critical, by kind; else one note names all, and a worker ends both."""
    await offer_slots(probes, 1)

    async def looked() -> list[Finding]:
        async with probes.connect() as conn:
            return await check_kinds(conn)

    (note,) = await looked()
    assert (note.code, note.severity) == ("kind-without-worker", "note")
    assert "probe.write" in note.seen
    await make_job(probes)
    await make_job(probes)
    unserved, note = await looked()
    assert (unserved.code, unserved.severity) == ("kind-unserved", "critical")
    assert "probe.write: 2 of its jobs are due" in unserved.seen
    assert unserved.remedy[-1] == "CHOT_QUEUES=default:1 chot worker"
    assert "probe.write" not in note.seen.replace(",", " ").split()
    for row in await fetch(probes, "SELECT DISTINCT queue FROM chot.kinds"):
        await offer_slots(probes, 1, queue=row.queue)
    await execute(
        probes,
        """UPDATE chot.workers SET kinds = (
               SELECT jsonb_object_agg(name, payload_version) FROM chot.kinds)""",
    )
    assert await looked() == []
    await execute(probes, "UPDATE chot.workers SET live_until = clock_timestamp()")
    assert codes(await looked()) == ["kind-unserved", "kind-without-worker"]

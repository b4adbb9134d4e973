"""Roles: what each may do, asked of the catalogue and tried for real."""

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine, sqlstate_of
from tests.factories import execute, fetch, make_job, scalar
from tests.services import Database

ROLES = ("chot_app", "chot_read", "chot_enqueue")
OURS = "('chot', 'books')"
MAY = f"""
    SELECT relnamespace::regnamespace || '.' || relname AS name
      FROM pg_class WHERE relnamespace::regnamespace::text IN {OURS} AND relkind IN ('r', 'p', 'v')
       AND NOT relispartition
       AND CASE WHEN CAST(:what AS text) IN ('SELECT', 'INSERT', 'UPDATE')
                THEN has_any_column_privilege(:role, oid, :what)
                ELSE has_table_privilege(:role, oid, :what) END ORDER BY 1"""


async def allowed(engine: AsyncEngine, role: str, what: str) -> set[str]:
    """The tables on which that role has that privilege."""
    return {row.name for row in await fetch(engine, MAY, role=role, what=what)}


async def test_read_and_enqueue_write_nothing(probes: AsyncEngine) -> None:
    """A handler's ordinary connection is role read: no effect beside the fence."""
    for role in ("chot_read", "chot_enqueue"):
        for what in ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"):
            assert await allowed(probes, role, what) == set(), (role, what)


async def test_read_sees_everything_and_enqueue_nothing(probes: AsyncEngine) -> None:
    """Reports and handlers read all but what sessions are made of; others get answers only."""
    every = await fetch(probes, MAY, role="chot_owner", what="SELECT")
    secret = {"chot.session_secrets", "chot.sessions"}
    assert await allowed(probes, "chot_read", "SELECT") == {row.name for row in every} - secret
    assert await allowed(probes, "chot_enqueue", "SELECT") == set()


async def test_app_changes_nothing_in_the_ledger(probes: AsyncEngine) -> None:
    """What has moved stays as it was written: a correction is a new movement."""
    assert "books.stock_movements" in await allowed(probes, "chot_app", "INSERT")
    for what in ("UPDATE", "DELETE", "TRUNCATE"):
        assert "books.stock_movements" not in await allowed(probes, "chot_app", what)


async def test_app_removes_no_job_attempt_or_payload(probes: AsyncEngine) -> None:
    """History is kept; what app may delete is what is transient."""
    deletable = await allowed(probes, "chot_app", "DELETE")
    assert deletable.isdisjoint({"chot.jobs", "chot.attempts", "chot.job_payloads"})
    assert deletable >= {"chot.outbox", "chot.workers", "chot.idempotency_keys"}
    assert await allowed(probes, "chot_app", "TRUNCATE") == set()


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_but_the_owner_runs_ddl(probes: AsyncEngine, role: str) -> None:
    """No role that a process logs in as may create, own or administer anything."""
    rights = await fetch(
        probes,
        f"""SELECT nspname FROM pg_namespace
             WHERE nspname IN ('chot', 'books', 'public')
               AND has_schema_privilege(:role, oid, 'CREATE')
            UNION ALL SELECT relname FROM pg_class
             WHERE relowner::regrole::text = :role
            UNION ALL SELECT proname FROM pg_proc WHERE proowner::regrole::text = :role
            UNION ALL SELECT rolname FROM pg_roles
             WHERE rolname = :role AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls)
            UNION ALL SELECT 'database' WHERE has_database_privilege(:role, current_database(),
                                                                     'CREATE')
            UNION ALL SELECT 'owner of ' || relname FROM pg_class
             WHERE relnamespace::regnamespace::text IN {OURS}
               AND relowner::regrole::text <> 'chot_owner'""",
        role=role,
    )
    assert rights == []


async def test_public_may_execute_and_read_nothing(probes: AsyncEngine) -> None:
    """A function is open to everybody unless somebody says otherwise; here somebody has."""
    found = await fetch(
        probes,
        f"""SELECT p.oid::regprocedure::text FROM pg_proc p
             WHERE (p.pronamespace = 'chot'::regnamespace
                    OR (p.pronamespace = 'books'::regnamespace AND p.prosecdef))
               AND (p.proacl IS NULL
                    OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))
            UNION ALL
            SELECT c.oid::regclass::text FROM pg_class c
             WHERE c.relnamespace::regnamespace::text IN {OURS}
               AND EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = 0)
            UNION ALL
            SELECT n.nspname FROM pg_namespace n
             WHERE n.nspname IN {OURS}
               AND EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0)""",
    )
    assert found == []


async def test_enqueue_may_execute_two_functions(probes: AsyncEngine) -> None:
    """And their helpers only through them."""
    found = await fetch(
        probes,
        """SELECT proname FROM pg_proc WHERE pronamespace = 'chot'::regnamespace
              AND has_function_privilege('chot_enqueue', oid, 'EXECUTE') ORDER BY 1""",
    )
    assert [row.proname for row in found] == ["enqueue", "enqueue_many"]


async def test_functions_of_the_owner_have_a_pinned_path(probes: AsyncEngine) -> None:
    """SECURITY DEFINER looks names up where we say, with the caller's temporary tables last."""
    found = await fetch(
        probes,
        f"""SELECT p.oid::regprocedure::text AS name, p.proconfig FROM pg_proc p
             WHERE p.pronamespace::regnamespace::text IN {OURS} AND p.prosecdef""",
    )
    assert len(found) >= 2
    for row in found:
        paths = [each for each in row.proconfig or [] if each.startswith("search_path=")]
        assert paths, f"{row.name} has no pinned search_path"
        assert paths[0].endswith("pg_temp"), f"{row.name}: {paths[0]}"


async def test_a_superuser_is_not_what_we_test_with(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The engines of these tests are bound by the grants above."""
    for engine, role in ((probes, "chot_app"), (owner_engine, "chot_owner")):
        who = await fetch(engine, "SELECT current_user AS u, current_setting('is_superuser') AS s")
        assert [(row.u, row.s) for row in who] == [(role, "off")]


async def test_role_read_is_read_only_even_where_it_might_write(
    probes: AsyncEngine, database: Database, owner_engine: AsyncEngine
) -> None:
    """Two locks on one door: no grant, and transactions that are read only by default."""
    job_id = await make_job(probes)
    await execute(owner_engine, "GRANT UPDATE ON chot.jobs TO chot_read")
    engine = open_engine(database.read_url, pool_size=1)
    with pytest.raises(DBAPIError) as caught:
        await execute(engine, "UPDATE chot.jobs SET priority = 9 WHERE id = :i", i=job_id)
    assert sqlstate_of(caught.value) == "25006"
    await engine.dispose()


async def test_app_has_ceilings_where_a_transaction_sets_none(probes: AsyncEngine) -> None:
    """A statement in autocommit does not wait for a lock for ever, nor idle in a transaction."""
    assert await scalar(probes, "SHOW lock_timeout") == "4s"
    assert await scalar(probes, "SHOW idle_in_transaction_session_timeout") == "20s"

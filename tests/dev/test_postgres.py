"""The private server survives crashes and stale lock files, and refuses what it should."""

import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import dev.postgres
from dev.postgres import PostgresServer
from dev.postgres_install import STATE_OF_ROOT, data_directory, reachable
from dev.processes import StartFailed
from tests.services import Database, start_private_postgres


@pytest.fixture
def server(services_home: Path, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    running = start_private_postgres(services_home / request.node.name)
    yield running
    running.stop()


async def one(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_what_was_committed_is_there_after_a_crash(server: PostgresServer) -> None:
    await one(server.url(), "CREATE TABLE kept AS SELECT 1 AS n")
    server.crash()
    again = start_private_postgres(server.data)
    try:
        assert await one(again.url(), "SELECT n FROM kept") == 1
    finally:
        again.stop()


async def test_a_lock_file_of_a_dead_server_is_no_obstacle(server: PostgresServer) -> None:
    """Its pid may belong to somebody else by now: here, to this test."""
    server.crash()
    (server.data / "postmaster.pid").write_text(f"{os.getpid()}\n{server.data}\n")
    again = start_private_postgres(server.data)
    assert await one(again.url(), "SELECT 1") == 1
    again.stop()


def test_a_directory_in_use_is_refused_with_the_pid(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev.postgres, "LEFTOVER_SECONDS", 0.1)
    with pytest.raises(StartFailed, match=f"in use by the server with pid {server.child.pid}"):
        start_private_postgres(server.data)


def test_data_of_another_major_version_is_refused(services_home: Path) -> None:
    old = services_home / "of another major version"
    old.mkdir()
    (old / "PG_VERSION").write_text("9\n")
    with pytest.raises(StartFailed, match=r"PostgreSQL 9, the programs are 1\d"):
        start_private_postgres(old)


async def test_the_private_server_listens_on_this_machine_only(server: PostgresServer) -> None:
    assert await one(server.url(), "SHOW listen_addresses") == "127.0.0.1"
    assert await one(server.url(), "SHOW unix_socket_directories") == ""
    assert await one(server.url(), "SHOW server_encoding") == "UTF8"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's own directories are closed to nobody")
def test_data_below_a_closed_directory_of_root_moves_to_an_open_one(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not reachable(closed, "nobody")
    assert data_directory(closed / "data").parent == STATE_OF_ROOT
    assert data_directory(closed / "data") == data_directory(closed / "data")


async def test_a_test_database_has_what_belongs_to_a_database_as_a_whole(
    database: Database,
) -> None:
    """Grants and settings on a database are not copied with its template; the fixture does."""
    assert await one(database.app_url, "SHOW lock_timeout") == "4s"
    assert await one(database.read_url, "SHOW default_transaction_read_only") == "on"
    granted = "SELECT has_database_privilege('chot_owner', current_database(), 'CREATE')"
    assert await one(database.superuser_url, granted) is True


async def test_tests_do_not_run_as_a_superuser(database: Database) -> None:
    query = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
    urls = (database.owner_url, database.app_url, database.read_url, database.enqueue_url)
    assert [await one(url, query) for url in urls] == [False] * 4

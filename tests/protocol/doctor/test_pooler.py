"""A pooler in the way: PgBouncer as Debian ships it, by session and by transaction.

`apt-get install pgbouncer`: without it these tests fail, and say so.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import asyncpg
import pytest

from dev.processes import free_port
from shared.doctor.pooler import check_pooler, look
from tests.protocol.doctor.remedies import codes
from tests.services import Database

START_SECONDS = 10.0
CONFIG = """
[databases]
{name} = host=127.0.0.1 port={port} dbname={name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
auth_file = {users}
pool_mode = {mode}
default_pool_size = 4
ignore_startup_parameters = extra_float_digits
logfile = {log}
"""
USERS = '"chot_app" ""\n"chot_owner" ""\n"chot_read" ""\n'
Open = Callable[[str], str]

pytestmark = pytest.mark.long


@pytest.fixture
def pooled(database: Database, tmp_path: Path) -> Iterator[Open]:
    """Start PgBouncer in a mode; answers role app's URL through it."""
    binary = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if binary is None:
        pytest.fail("no pgbouncer here: apt-get install pgbouncer", pytrace=False)
    assert binary is not None
    running: list[subprocess.Popen[bytes]] = []
    home = Path(tmp_path)
    for each in (home, *home.parents[:2]):
        each.chmod(0o755)

    def opened(mode: str) -> str:
        listen = free_port()
        server = urlsplit(database.app_url)
        users = home / "users.txt"
        users.write_text(USERS)
        config = home / f"{mode}.ini"
        log = home / "log"
        log.touch()
        log.chmod(0o666)
        config.write_text(
            CONFIG.format(
                name=database.name,
                port=server.port,
                listen=listen,
                users=users,
                mode=mode,
                log=log,
            ).replace("auth_type = any", "auth_type = trust")
        )
        words = [binary, str(config)]
        if os.geteuid() == 0:
            words = [binary, "-u", "nobody", str(config)]
        running.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        _until_it_listens(listen)
        return f"postgresql://chot_app@127.0.0.1:{listen}/{database.name}"

    yield opened
    for process in running:
        process.terminate()
        process.wait(10)


def _until_it_listens(port: int) -> None:
    import socket  # noqa: PLC0415

    until = monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert monotonic() < until, "pgbouncer does not listen"
            sleep(0.02)
        else:
            return


async def test_no_pooler_is_seen_where_there_is_none(database: Database) -> None:
    assert await check_pooler(database.app_url, "CHOT_DATABASE_URL") == []


async def test_by_session_it_is_a_note(pooled: Open) -> None:
    """Everything works; who runs out of its places is another matter."""
    url = pooled("session")
    assert not (await look(url)).by_transaction
    (found,) = await check_pooler(url, "CHOT_DATABASE_URL")
    assert (found.code, found.severity) == ("pooler", "note")
    assert await check_pooler(url, "CHOT_MIGRATE_DATABASE_URL") != []


async def test_by_transaction_statements_are_lost_and_turns_do_not_hold(pooled: Open) -> None:
    """Of a PgBouncer older than 1.21 (Debian 12's is); mended by pool_mode = session."""
    url = pooled("transaction")
    pooling = await look(url)
    assert pooling.pooler
    assert pooling.by_transaction
    found = await check_pooler(url, "CHOT_DATABASE_URL")
    assert codes(found) == ["pooler-statements"]
    assert "max_prepared_statements" in found[0].remedy[0]
    assert "pool_mode = session" in found[0].remedy[1]
    migrate = await check_pooler(url, "CHOT_MIGRATE_DATABASE_URL")
    assert codes(migrate) == ["pooler-migrate", "pooler-statements"]
    assert codes(await check_pooler(pooled("session"), "CHOT_DATABASE_URL")) == ["pooler"]


async def test_session_locks_really_do_not_hold_there(pooled: Open, database: Database) -> None:
    """Why a migration must not go through it: two clients hold the same session lock."""
    url = pooled("transaction")
    clients = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
    got = [await each.fetchval("SELECT pg_try_advisory_lock(42)") for each in clients]
    direct = [await asyncpg.connect(database.app_url) for _ in range(2)]
    alone = [await each.fetchval("SELECT pg_try_advisory_lock(43)") for each in direct]
    for each in (*clients, *direct):
        each.terminate()
    assert got == [True, True]
    assert alone == [True, False]

"""A private PostgreSQL: made, started and stopped without touching any server that is already here.

Trust authentication on a free port of 127.0.0.1, no Unix socket, UTF-8. It stops with the process
that started it; after a crash the next start recovers, as PostgreSQL does.
"""

import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.postgres_install import data_directory, embedded_bin, server_account, server_major
from dev.processes import Child, Command, StartFailed, free_port, poll_until, start, wait_until

SUPERUSER = "postgres"
START_SECONDS = 60.0
LEFTOVER_SECONDS = 5.0
READY_LINE = 7  # of postmaster.pid

COMMON_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "300",
    "shared_buffers": "256MB",
    "log_checkpoints": "off",
}
DEV_SETTINGS = {"max_wal_size": "4GB", "checkpoint_timeout": "15min"}
# synchronous_commit stays on: tests freeze COMMIT through synchronous_standby_names.
TEST_SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running private server."""

    data: Path
    port: int
    major: int
    child: Child

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return a plain postgresql:// URL; the default user is the cluster's superuser."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        """Disconnect everybody, write everything down, end. Idempotent."""
        self.child.stop(signal.SIGINT, grace=30.0)

    def crash(self) -> None:
        """Stop as a power cut would (immediate shutdown): the next start recovers."""
        self.child.stop(signal.SIGQUIT, grace=10.0)


def start_postgres(
    data: Path,
    *,
    bin_dir: Path | None = None,
    port: int | None = None,
    settings: Mapping[str, str] = DEV_SETTINGS,
    log: Path | None = None,
) -> PostgresServer:
    """Start a server on `data` (made if empty) and return once it accepts connections.

    `bin_dir` None means the embedded wheel's PostgreSQL. Raises StartFailed with the server's last
    words, or when `data` belongs to another major version or a server that still runs.
    """
    programs = bin_dir or embedded_bin()
    data = data_directory(data)
    major = server_major(programs)
    _prepare_directory(data, programs, major)
    _clear_leftovers(data)
    chosen = port or free_port()
    options = {**COMMON_SETTINGS, **settings, "port": str(chosen)}
    flags = [flag for name, value in options.items() for flag in ("-c", f"{name}={value}")]
    child = start(
        Command(
            name="postgres",
            argv=[str(programs / "postgres"), "-D", str(data), *flags],
            env=_environment(),
            log=log or data.with_name(f"{data.name}.log"),
            user=server_account(),
            death_signal=signal.SIGQUIT,
        )
    )
    wait_until(
        lambda: _is_ready(data, child), child, deadline_seconds=START_SECONDS, what="accepting"
    )
    return PostgresServer(data=data, port=chosen, major=major, child=child)


def remove_data(data: Path) -> None:
    """Delete a data directory made by `start_postgres`; a missing one is no error."""
    shutil.rmtree(data_directory(data), ignore_errors=True)


def _prepare_directory(data: Path, programs: Path, major: int) -> None:
    version = data / "PG_VERSION"
    if version.exists():
        found = int(version.read_text())
        if found != major:
            raise StartFailed(f"{data} is of PostgreSQL {found}, the programs are {major}")
        return
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    account = server_account()
    if account:
        shutil.chown(data, account)
    locale = ["--locale=C.UTF-8"]
    if major >= 17:  # its own provider: the same order on every machine
        locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"]
    log = data.with_name(f"{data.name}.initdb.log")
    argv = [str(programs / "initdb"), "-D", str(data), *options, *locale]
    child = start(Command(name="initdb", argv=argv, env=_environment(), log=log, user=account))
    if child.wait(START_SECONDS) != 0:
        raise StartFailed(f"initdb failed:\n{child.last_words()}")
    log.unlink()


def _environment() -> dict[str, str]:
    # No LC_* or PG* of the caller: PGOPTIONS or a missing locale would change the server.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": "/"}


def _clear_leftovers(data: Path) -> None:
    """Wait for a dying predecessor; remove the lock file of a dead one, whoever has its pid now."""
    lock = data / "postmaster.pid"
    if not lock.exists():
        return
    pid = int(lock.read_text().split(maxsplit=1)[0])
    if not poll_until(lambda: not _serves(pid, data), LEFTOVER_SECONDS):
        raise StartFailed(f"{data} is in use by the server with pid {pid}")
    lock.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Whether that process is a server on `data`: its working directory is the data directory."""
    proc = Path("/proc") / str(pid)
    try:
        return (proc / "cwd").readlink() == data.resolve()
    except OSError:
        # Gone, or somebody else's. Where there is no /proc, PostgreSQL's own check decides.
        return False


def _is_ready(data: Path, child: Child) -> bool:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    ours = lines[:1] == [str(child.pid)]
    return ours and len(lines) > READY_LINE and lines[READY_LINE].strip() == "ready"

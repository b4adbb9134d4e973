"""What must be true of an image and of a program that runs from it, looked at from outside."""

import json
import re
import subprocess
from pathlib import Path

from dev.images_containers import Container, image_of, output_of
from dev.processes import StartFailed
from dev.stack_config import ROOT

FOREIGN = {"api": ("worker", "dev", "tests"), "worker": ("api", "dev", "tests", "alembic.env")}
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==\S+( ;)?", re.MULTILINE)
INSTALLED = """
import importlib.metadata as m, re
print(*(re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower() for each in m.distributions()))
"""
FOUND = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n)])"
WRITE = """
import sys
for path in sys.argv[1:]:
    try:
        open(path, "w").close()
        print(path)
    except OSError:
        pass
"""
PLACES = ("/app/x", "/opt/chot/x", "/usr/local/x", "/etc/x", "/var/tmp/x", "/x", "/tmp/x")  # noqa: S108
LABELS = "org.opencontainers.image."


def refuse_foreign_parts(side: str) -> None:
    """StartFailed unless exactly the locked libraries are there, and our own side only."""
    text = (ROOT / "requirements" / f"{side}.txt").read_text()
    locked = {
        re.sub(r"[-_.]+", "-", each[0]).lower(): bool(each[1]) for each in LOCKED.findall(text)
    }
    installed = set(output_of(side, ["python", "-c", INSTALLED]).split()) - {"chot"}
    # Some are for other systems or versions only.
    missing = {name for name, conditional in locked.items() if not conditional} - installed
    if missing or installed - set(locked):
        raise StartFailed(f"{side}: missing {missing}, too much {installed - set(locked)}")
    foreign = output_of(side, ["python", "-c", FOUND, *FOREIGN[side]])
    if foreign:
        raise StartFailed(f"the {side} image holds {foreign}")


def refuse_writable_places(side: str) -> None:
    """StartFailed when anything but /tmp can be written to."""
    found = output_of(side, ["python", "-c", WRITE, *PLACES]).split()
    if found != ["/tmp/x"]:  # noqa: S108
        raise StartFailed(f"the {side} image can write to {found}")


def refuse_strange_labels(side: str, revision: str) -> None:
    """StartFailed unless the image says version and revision, and a version with it inside."""
    config = image_of(side).config
    labels = {key.removeprefix(LABELS): value for key, value in config["Labels"].items()}
    version = output_of(
        side, ["python", "-c", "import importlib.metadata as m; print(m.version('chot'))"]
    )
    if labels["revision"] != revision or version != f"{labels['version']}+{revision}":
        raise StartFailed(f"the {side} image says {labels}, and inside {version}")
    if config["StopSignal"] not in {"SIGTERM", "15"}:
        raise StartFailed(f"the {side} image is stopped by {config['StopSignal']}")


def refuse_privileges(container: Container) -> None:
    """StartFailed unless the program is pid 1 under a user of its own, without any right."""
    pid = container.pid
    status = dict(
        re.findall(r"^(\w+):\s*(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    )
    root = next(
        line.split()
        for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        if line.split()[4] == "/"
    )
    wanted = {
        "a user of its own": status["Uid"].split() == [container.image.user[0]] * 4,
        "no capability": int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0,
        "no way to gain one": status["NoNewPrivs"] == "1",
        "pid 1": status["NSpid"].split()[-1] == "1",
        "a root that is read-only": "ro" in root[5].split(","),
    }
    if missing := [what for what, holds in wanted.items() if not holds]:
        raise StartFailed(f"the {container.image.side} runs without: {', '.join(missing)}")


def size_of(image: str) -> str:
    """As buildah tells it, base included."""
    done = subprocess.run(
        ["buildah", "images", "--json", image], check=True, capture_output=True, text=True
    )
    return str(json.loads(done.stdout)[0]["size"])

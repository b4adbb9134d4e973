"""The Dockerfiles: by hadolint's rules, and what is built from them says where it comes from."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy.install_here import local_part
from tests.services import ROOT

HADOLINT = str(Path(sys.executable).with_name("hadolint"))
FILES = ("Dockerfile.api", "Dockerfile.worker")
LABELS = {"title", "description", "version", "revision", "licenses", "base.name"}


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [HADOLINT, "--failure-threshold", "style", *FILES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_rule_of_hadolint_is_switched_off() -> None:
    assert not list(ROOT.glob(".hadolint*"))
    assert not [name for name in FILES if "hadolint" in (ROOT / name).read_text()]


@pytest.mark.parametrize("name", FILES)
def test_an_image_says_what_it_is(name: str) -> None:
    text = (ROOT / name).read_text()
    assert set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", text)) == LABELS
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"ARG VERSION={version}\n" in text


@pytest.mark.parametrize("name", FILES)
def test_what_builds_stays_behind(name: str) -> None:
    """The last stage takes what was made, and runs no installer."""
    last = (ROOT / name).read_text().rpartition("\nFROM ")[2]
    assert "pip" not in last
    assert re.findall(r"^COPY (\S+)", last, re.MULTILINE) == ["--from=build", "--from=build"]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert re.search(r'^VOLUME \["/tmp"\]$', last, re.MULTILINE)
    check = re.search(r"^HEALTHCHECK .*\\\n +CMD \[", last, re.MULTILINE)
    assert check, "in exec form, too"


@pytest.mark.parametrize("name", FILES)
def test_the_base_can_be_pinned_by_its_digest(name: str) -> None:
    """One argument for both stages; the default names version and distribution."""
    text = (ROOT / name).read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE) == [
        "docker.io/library/python:3.13-slim-bookworm"
    ]


@pytest.mark.parametrize(
    ("revision", "local"),
    [("3ae2028", "+3ae2028"), ("v1.2-rc/3", "+v1.2.rc.3"), ("", ""), ("unknown", "")],
)
def test_a_revision_becomes_a_part_of_the_version(revision: str, local: str) -> None:
    assert local_part(revision) == local

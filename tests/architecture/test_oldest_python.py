"""The lock of development is resolved by the newest Python, and taken by the oldest as well."""

from importlib.metadata import distribution

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.architecture.locks import ROOT, project


def locked() -> dict[str, str]:
    """Name → version of everything that `make venv` is held to."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_everything_that_is_locked_can_be_installed_by_the_oldest_python() -> None:
    """One library that asks for more, and `make demo` ends there before it has begun.

    What is older here than in the lock was all that this Python could have.
    """
    oldest = project()["requires-python"].removeprefix(">=") + ".0"
    refused = set[str]()
    for name, version in locked().items():
        here = distribution(name)
        asks = SpecifierSet(here.metadata["Requires-Python"] or "")
        if oldest not in asks or Version(here.version) < Version(version):
            refused.add(f"{name}=={version}")
    assert not refused, f"Python {oldest}: say in pyproject.toml up to where it takes them"

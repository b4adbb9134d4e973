"""The walk of one job in docs/walk.md names things that exist."""

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

WALK = Path(__file__).parents[2] / "docs" / "walk.md"
NAMES = sorted(set(re.findall(r"`((?:api|shared|worker)(?:\.\w+)+)`", WALK.read_text())))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_the_walk_can_be_imported(name: str) -> None:
    """A renamed function takes its line in the walk along."""
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute) or find_spec(name)


def test_the_walk_names_every_step() -> None:
    """The pattern above has not gone blind."""
    assert len(NAMES) >= 25

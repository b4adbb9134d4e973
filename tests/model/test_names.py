"""Actions, protections and code refer to each other by name."""

import ast
import importlib
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from shared.model.actions import ACTIONS
from shared.model.explore import Explorer
from shared.model.families import FAMILIES, FULL, QUIET, Family
from shared.model.graph import NAMES
from shared.model.groups.state import GroupBounds
from shared.model.locks.bounds import MIXED
from shared.model.model import Model
from tests.model.test_explore import FULL_STATES, TEST_STATES

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "shared" / "model"
PAGE = (ROOT / "docs" / "model.md").read_text()
NAMES_ACTIONS = re.compile(r"^Model: actions? ([a-z_, ]+)\.$", re.MULTILINE)
ALL = tuple(FAMILIES.values())
IMPLEMENTS = sorted(
    {spec.implements for family in ALL for spec in family.actions.values() if spec.implements}
    | {each.implements for family in ALL for each in family.protections.values()}
    | {place for family in ALL for place in family.courtesies.values()}
)
# What the world does, or whoever asks; in two worlds also what comes to nothing.
NAMELESS = {
    "jobs": {
        "expire", "expire_unheld", "stop_in_commit", "pause", "resume", "crash", "duplicate",
        "redeliver", "lose",
    },
    "locks": {
        "ask_release", "ask_cancel", "expire", "expire_unheld", "pause", "resume", "crash",
        "duplicate", "lose",
    },
    "groups": {"ask", "refused", "expire", "expire_unheld", "pause", "resume", "crash", "lose"},
}  # fmt: skip
NAMED_IN_PAGE = sorted(set(re.findall(r"`((?:shared|worker)(?:\.\w+)+)`", PAGE)))


@pytest.mark.parametrize("name", sorted({*IMPLEMENTS, *NAMED_IN_PAGE}))
def test_the_code_that_an_action_stands_for_exists(name: str) -> None:
    """A renamed function takes the model along."""
    module, _, attribute = name.rpartition(".")
    assert find_spec(module), f"{module} does not exist"
    assert hasattr(importlib.import_module(module), attribute) or find_spec(name)


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_every_action_of_ours_names_code_and_only_the_world_does_not(family: Family) -> None:
    nameless = {name for name, spec in family.actions.items() if spec.implements is None}
    assert nameless == NAMELESS[family.name]


def test_the_code_names_the_actions_that_it_is() -> None:
    """And it names no other: whoever changes a place sees what the model has to follow."""
    ours: dict[str, set[str]] = {}
    for family in ALL:
        for name, spec in family.actions.items():
            # A mutant action is what the code would be without one of its protections.
            if spec.implements is not None and spec.kind != "mutant":
                ours.setdefault(spec.implements, set()).add(name)
    assert named_in_code() == ours


def named_in_code() -> dict[str, set[str]]:
    """The actions that docstrings of worker and shared name, by the dotted names of their places."""
    found: dict[str, set[str]] = {}
    for path in sorted(
        file for tree in ("shared", "worker") for file in (ROOT / tree).rglob("*.py")
    ):
        if MODEL in path.parents:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            said = NAMES_ACTIONS.search(ast.get_docstring(node) or "")
            if said is not None:
                found[f"{module}.{node.name}"] = set(said[1].split(", "))
    return found


def test_every_action_happens_somewhere() -> None:
    """An action that no world ever takes would be words only."""
    happened: set[str] = set()
    worlds = (
        replace(QUIET, crashes=1, pauses=1),
        replace(QUIET, doubts=1, duplicates=1, losses=1),
        replace(QUIET, fails=1, redrives=1, cancels=1, releases=1),
    )
    for bounds in worlds:
        graph = Explorer(Model(bounds), reduce=False).explore(most=30_000)
        happened |= {NAMES[action] for action in set(graph.actions)}
    assert happened == {name for name, spec in ACTIONS.items() if spec.kind != "mutant"}


@pytest.mark.parametrize(
    ("name", "worlds"),
    [
        (
            "locks",
            [
                replace(MIXED, submitted=2, copies=2, duplicates=1, losses=1, expiries=1),
                replace(MIXED, crashes=1, stops=1, expiries=1),
                replace(MIXED, cancels=1, releases=1, pauses=1, pausable=frozenset({1})),
            ],
        ),
        (
            "groups",
            [
                GroupBounds(appended=1, fails=1, redrives=1, crashes=1, losses=1, buries=1),
                GroupBounds(fails=1, child_redrives=1, cancels=1, group_cancels=1, stops=1),
                GroupBounds(children=3, appended=2, spawns=1, expiries=1, policy="fail_fast"),
            ],
        ),
    ],
    ids=["locks", "groups"],
)
def test_every_action_of_a_small_world_happens_somewhere(name: str, worlds: list[Any]) -> None:
    family = FAMILIES[name]
    happened: set[str] = set()
    for bounds in worlds:
        graph = family.search(family.build(bounds, ()), True).explore(most=40_000)
        happened |= {graph.names[action] for action in set(graph.actions)}
    ours = {name for name, spec in family.actions.items() if spec.kind != "mutant"}
    assert happened == ours


def test_the_page_names_every_protection_and_property() -> None:
    for family in ALL:
        for name, protection in family.protections.items():
            assert f"| `{name}` | `{protection.implements}` | `{protection.breaks}` |" in PAGE
        for name in family.courtesies:
            assert f"`{name}`" in PAGE
        if family.name != "jobs":
            for name, words in family.properties.items():
                assert f"| `{name}` | {words}" in PAGE


def test_the_page_states_the_bounds_and_numbers_that_are_explored() -> None:
    assert (FULL.workers, FULL.jobs, FULL.chunks) == (2, 2, 2)
    assert min(FULL.crashes, FULL.pauses, FULL.duplicates, FULL.losses, FULL.doubts) == 1
    assert f"| {FULL_STATES:,} |" in PAGE
    assert f"| {TEST_STATES:,} |" in PAGE


def test_the_model_imports_nothing_of_what_it_models() -> None:
    """It must not be right or wrong together with the code."""
    allowed = set(sys.stdlib_module_names)
    for path in MODEL.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                ours = name == "shared.types" or name.startswith("shared.model.")
                assert ours or name.split(".")[0] in allowed, f"{path.name} imports {name}"

"""The pages say what is there: names, commands, exit codes, pages; a renamed one takes them along."""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

from shared.cli import COMMANDS, chot
from shared.cli.exits import Exit
from shared.groups.group import Policy
from shared.publishing import (
    AGEING_SECONDS,
    LONGEST_IN_WINDOW_SECONDS,
    OVERTAKEN,
    PER_SLOT,
    UNSERVED,
)
from shared.types import ClaimedJob, Lease
from worker.context import JobContext
from worker.fence import FencedTransaction

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = (DOCS / "kinds.md").read_text()
CLI = (DOCS / "cli.md").read_text()


def rows_of(page: str, start: str) -> list[list[str]]:
    """The cells of the table's rows whose first cell begins so."""
    rows = [line.replace("\\|", "/").split("|")[1:-1] for line in page.splitlines()]
    return [
        [cell.strip() for cell in row] for row in rows if row and row[0].strip().startswith(start)
    ]


def names_of(kind: type) -> set[str]:
    return set(dir(kind)) | {each.name for each in fields(kind)}


def test_a_handlers_context_has_every_name_that_the_page_gives_it() -> None:
    text = KINDS.partition("## The handler")[2]
    used = set(re.findall(r"\bcontext\.(\w+)", text))
    assert len(used) >= 9
    assert used <= names_of(JobContext)
    assert set(re.findall(r"\btx\.(\w+)", text)) <= names_of(FencedTransaction)


def test_a_job_and_its_lease_have_the_fields_that_the_page_lists() -> None:
    """Each name in its row stands on the object whose row it is."""
    for row, kind in (("`context.job`", ClaimedJob), ("`context.lease`", Lease)):
        ((_, said),) = rows_of(KINDS, row)
        listed = set(re.findall(r"`(\w+)`", said))
        assert listed
        assert listed <= {each.name for each in fields(kind)}, row


@pytest.mark.parametrize(("place", "names"), [(0, {"Child", "Policy"}), (1, {"Child", "SELF"})])
def test_the_code_of_groups_imports_what_it_names(place: int, names: set[str]) -> None:
    """Whoever copies it has every name, and each argument is one that the call takes."""
    page = (DOCS / "groups.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[place]
    found: dict[str, Any] = {}
    exec(compile(code, "groups.md", "exec"), found)  # noqa: S102 - our own page
    used = set(re.findall(r"\b[A-Z]\w+", code.partition("\n\n\n")[2]))
    assert used >= names
    assert used - set(found) - {"JOIN", "None", "True"} == set()
    assert Policy.JOIN
    call = next(each for each in ast.walk(ast.parse(code)) if _calls(each, "spawn"))
    assert isinstance(call, ast.Call)
    taken = inspect.signature(JobContext.spawn)
    taken.bind(*(None, *call.args), **{str(each.arg): None for each in call.keywords})
    for child in (each for each in ast.walk(call) if _calls(each, "Child")):
        assert isinstance(child, ast.Call)
        assert {each.arg for each in child.keywords} <= names_of(found["Child"])


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return name in {getattr(node.func, "id", None), getattr(node.func, "attr", None)}


def test_every_command_is_on_its_page() -> None:
    listed = {
        name for row in rows_of(CLI, "`chot ") for name in re.findall(r"`chot ([\w-]+)", row[0])
    }
    assert listed == set(COMMANDS)


def strange_in(words: list[str]) -> str | None:
    """What `chot` does not know of a command that a page names, with its options."""
    command: click.Command = chot
    while isinstance(command, click.Group):
        if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
            return None
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
    if command.name == "dev":  # its options are those of another program
        return None
    given = {each for word in words for each in re.findall(r"^\[?(--[a-z-]+)", word)}
    strange = given - {
        each for option in command.params for each in (*option.opts, *option.secondary_opts)
    }
    arguments = any(isinstance(each, click.Argument) for each in command.params)
    if words and not arguments and re.fullmatch(r"[a-z]+", words[0]):
        strange.add(words[0])
    return ", ".join(sorted(strange)) or None


def test_every_command_that_a_page_names_is_one_that_exists() -> None:
    pages = [ROOT / "README.md", ROOT / "shared/alerts/rules.toml", *DOCS.glob("*.md")]
    named = [
        (page.name, said)
        for page in pages
        for said in re.findall(r"`chot ([^`\n]+)`", page.read_text().replace("\\|", "|"))
    ]
    assert len(named) > 100
    assert [each for each in named if strange_in(each[1].split())] == []


def test_every_exit_code_is_on_its_page() -> None:
    listed = {int(row[0]) for row in rows_of(CLI, "") if row[0].isdigit()}
    assert listed == set(Exit)


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\((\w[\w-]*\.md)\)", (DOCS / "README.md").read_text()))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_no_two_pages_use_one_idempotency_key() -> None:
    """Whoever follows both would be refused by the second: one key, two bodies."""
    used: dict[str, set[str]] = {}
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        for key in re.findall(r"""Idempotency-Key:[ "]*([^"'`$\n]+)["']""", page.read_text()):
            used.setdefault(key, set()).add(page.name)
    assert len(used) >= 3
    assert {key: pages for key, pages in used.items() if len(pages) > 1} == {}


def test_the_numbers_of_fairness_are_those_of_the_code() -> None:
    """Whoever reckons with the bound reckons with what is there."""
    page = (DOCS / "fairness.md").read_text()
    assert f"**{PER_SLOT} messages for each slot**" in page
    assert f"({UNSERVED} for a queue that nobody serves yet)" in page
    assert f"`({PER_SLOT} + 1) × T + b / s × T`" in page
    assert f"`CHOT_AGEING_SECONDS` ({AGEING_SECONDS:g})" in page
    assert f"{LONGEST_IN_WINDOW_SECONDS // 60} minutes have passed" in page
    assert OVERTAKEN == 3
    assert "fit into three windows" in page


def test_every_test_that_the_guarantees_name_is_there() -> None:
    """A guarantee whose test was renamed would be a claim."""
    named = set(re.findall(r"tests/[\w/]+(?:\.py)?", (DOCS / "guarantees.md").read_text()))
    assert len(named) >= 20
    assert [path for path in sorted(named) if not (DOCS.parent / path).exists()] == []


def test_every_target_that_anybody_is_told_of_has_something_to_do() -> None:
    """A target that is only .PHONY does nothing, and succeeds."""
    makefile = (ROOT / "Makefile").read_text()
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    told = set(re.findall(r"echo 'make ([\w-]+)", makefile))
    told |= {name for page in pages for name in re.findall(r"`make ([\w-]+)", page.read_text())}
    assert told >= {"demo", "test", "faults"}
    with_recipe = set(re.findall(r"^([\w-]+):.*\n\t", makefile, re.MULTILINE))
    assert told <= with_recipe | {"venv"}  # what it makes is a file of its own


def test_the_guarantees_name_every_rule_of_the_design() -> None:
    """A sceptic goes through them line by line, and misses none."""
    rows = rows_of((DOCS / "guarantees.md").read_text(), "")
    named = {rule for row in rows for rule in re.findall(r"\b[SL]\d+\b", row[0])}
    assert named >= {f"S{n}" for n in range(1, 12)} | {f"L{n}" for n in range(1, 8)}

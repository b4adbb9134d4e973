"""docs/import.md names every column by every head, and every code that a file is refused with."""

import re
from pathlib import Path

import pytest

from shared.migrations.imports import TASKS
from tests.fleet import ROOT
from worker.imports import document_layout, item_layout, movement_layout
from worker.imports.cells import folded
from worker.imports.layouts import LAYOUTS
from worker.migrations.importing import MIGRATIONS

PAGE = (ROOT / "docs" / "import.md").read_text()
CODE = re.compile(r'FileRefused\(\s*"([A-Z_]+)"')


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_columns_of_the_page_are_those_of_the_code(name: str) -> None:
    """All of them, in bold where a file must have them."""
    section = PAGE.split(f"\n### {name}\n")[1].split("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith(("| `", "| **`"))]
    told = []
    for column in LAYOUTS[name].columns:
        bold = "**" if column.required else ""
        told.append(f"| {bold}`{column.name}`{bold} | {', '.join(column.heads)} |")
    assert rows == told


def test_the_words_of_the_page_are_those_of_the_code() -> None:
    """Every word that a choice takes, under what it means."""
    told: dict[str, dict[str, str]] = {}
    for line in PAGE.split("\n## Words\n")[1].split("\n\n")[1].splitlines()[2:]:
        column, meaning, others = (cell.strip() for cell in line.strip("|").split("|"))
        meant = meaning.strip("`")
        known = told.setdefault(column, {})
        known |= {folded(word.strip()): meant for word in (meant, *others.split(","))}
    assert told == {
        "`kind`": movement_layout.KINDS,
        "`cost_basis`": movement_layout.BASES,
        "`type`": document_layout.TYPES,
        "`side`": document_layout.SIDES,
        "`costing_method`": item_layout.METHODS,
        "`lot_tracked`, `active`": item_layout.FLAGS,
    }


def test_every_code_of_a_refused_file_is_on_the_page() -> None:
    """Where each is raised."""
    sources = (ROOT / "worker" / "imports").glob("*.py")
    codes = {code for path in sources for code in CODE.findall(Path(path).read_text())}
    assert len(codes) >= 10
    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE] == []


def test_every_kind_of_file_has_its_task() -> None:
    """Declared, with its code, and on the page."""
    names = {f"import.{name}" for name in LAYOUTS}
    assert names == {spec.name for spec in TASKS} == {task.spec.name for task in MIGRATIONS}


def test_no_head_means_two_columns_of_one_kind() -> None:
    """Or the order of the code would decide which."""
    for layout in LAYOUTS.values():
        heads = [head for column in layout.columns for head in column.known]
        assert sorted(set(heads)) == sorted(heads), layout.name

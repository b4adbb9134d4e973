"""Migrations expand first: what the version before reads and writes is still there after them.

A deployment migrates while the version before goes on (docs/deploy.md), and a roll back puts that
version onto the newer schema. What takes something away comes a version later, in a revision that
says so: `CONTRACT = "why nothing needs it any more"`.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.statements import migrations

# The newest revision of the version before, whose code tests/journeys/test_mixed_versions.py runs.
BEFORE = "0176_variance_sides"
NAME = r'[\w."]+'
TAKES_AWAY = {
    "drops": r"\bDROP\s+(TABLE|VIEW|MATERIALIZED\s+VIEW|FUNCTION|PROCEDURE|TYPE|DOMAIN|SCHEMA|SEQUENCE)\b",
    "drops a column": r"\bDROP\s+COLUMN\b",
    "renames": r"\bRENAME\s+(TO|COLUMN|CONSTRAINT|ATTRIBUTE|VALUE)?\b",
    "retypes a column": rf"\bALTER\s+(COLUMN\s+)?{NAME}\s+(SET\s+DATA\s+)?TYPE\b",
    "wants a value": r"\bSET\s+NOT\s+NULL\b",
    "drops a default": r"\bDROP\s+DEFAULT\b",
    "revokes": r"\bREVOKE\b",
    "moves": r"\bSET\s+SCHEMA\b",
}
ADDED = re.compile(
    rf"\bADD\s+COLUMN\s+(?:IF\s+NOT\s+EXISTS\s+)?({NAME})\s(.*?)(?=\bADD\s+COLUMN\b|;|$)",
    re.IGNORECASE | re.DOTALL,
)
# A new function is granted to nobody but those who are named: that takes nothing from anybody.
REVOKE_FROM_PUBLIC = re.compile(r"\bREVOKE\s+ALL\s+ON\s+[^;]*\sFROM\s+PUBLIC\b", re.IGNORECASE)


def refusals(sql: str) -> list[str]:
    """What these statements would take from code that is older than they are."""
    bare = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    bare = re.sub(r"(\$\w*\$).*?\1", "''", bare, flags=re.DOTALL)  # bodies of functions
    bare = REVOKE_FROM_PUBLIC.sub(" ", bare)
    found = [
        what for what, pattern in TAKES_AWAY.items() if re.search(pattern, bare, re.IGNORECASE)
    ]
    for name, column in ADDED.findall(bare):
        wants = re.search(r"\bNOT\s+NULL\b|\bPRIMARY\s+KEY\b", column, re.IGNORECASE)
        if wants and not re.search(r"\bDEFAULT\b|\bGENERATED\b", column, re.IGNORECASE):
            found.append(f"wants a value of the new column {name}")
    return found


def statements_of(tree: ast.Module) -> str:
    """All that upgrade() executes, as far as it stands in the module."""
    constants = {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    (upgrade,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "upgrade"
    ]
    used = {node.id for node in ast.walk(upgrade) if isinstance(node, ast.Name)}
    parts = [upgrade, *(value for name, value in constants.items() if name in used)]
    return ";\n".join(
        node.value
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def contract_of(tree: ast.Module) -> str | None:
    """The reason for which a revision may take something away."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONTRACT":
            return str(ast.literal_eval(node.value))
    return None


NEW = [(path, tree) for path, tree in migrations() if path.stem > BEFORE]


def test_the_version_before_is_one_of_the_chain() -> None:
    assert BEFORE in {path.stem for path, _ in migrations()}


@pytest.mark.parametrize(("path", "tree"), NEW, ids=[path.stem for path, _ in NEW])
def test_a_revision_takes_nothing_from_the_version_before(path: Path, tree: ast.Module) -> None:
    """Or says why nothing needs it any more."""
    reason = contract_of(tree)
    found = refusals(statements_of(tree))
    if reason is None:
        assert found == [], f"{path.name}: expand first, contract a version later (docs/deploy.md)"
    else:
        assert len(reason.split()) >= 5, f"{path.name}: CONTRACT says why, in a sentence"
        assert found, f"{path.name} takes nothing away: CONTRACT is not needed"


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DROP TABLE chot.x", "drops"),
        ("drop function if exists chot.enqueue(text)", "drops"),
        ("ALTER TABLE chot.jobs DROP COLUMN trace", "drops a column"),
        ("ALTER TABLE chot.jobs RENAME COLUMN trace TO path", "renames"),
        ("ALTER TABLE chot.jobs RENAME TO work", "renames"),
        ("ALTER TABLE chot.jobs ALTER COLUMN fence TYPE bigint", "retypes a column"),
        ("ALTER TABLE chot.jobs ALTER COLUMN trace SET NOT NULL", "wants a value"),
        ("ALTER TABLE chot.jobs ALTER trace DROP DEFAULT", "drops a default"),
        ("REVOKE SELECT ON chot.jobs FROM chot_app", "revokes"),
        ("ALTER TABLE chot.jobs ADD COLUMN a text NOT NULL", "wants a value of the new column a"),
        (
            "ALTER TABLE chot.jobs ADD COLUMN a int DEFAULT 1 NOT NULL, ADD COLUMN b int NOT NULL",
            "wants a value of the new column b",
        ),
    ],
)
def test_what_would_break_the_version_before_is_seen(sql: str, what: str) -> None:
    assert refusals(f"SET LOCAL lock_timeout = '800ms'; {sql}") == [what]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE chot.y (a text NOT NULL); DROP INDEX chot.old",
        "ALTER TABLE chot.jobs ADD COLUMN a text, ADD COLUMN b int NOT NULL DEFAULT 0",
        "ALTER TABLE chot.jobs ADD COLUMN d numeric(10, 2) NOT NULL DEFAULT 0",
        "ALTER TABLE chot.jobs DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (a IN ('x', 'y'))",
        "-- DROP TABLE chot.x\nCREATE INDEX i ON chot.jobs (id)",
        "CREATE OR REPLACE FUNCTION chot.f() RETURNS void AS $$ DROP TABLE t; $$ LANGUAGE sql",
        "REVOKE ALL ON FUNCTION chot.f() FROM PUBLIC; GRANT EXECUTE ON FUNCTION chot.f() TO chot_app",
        "ALTER TABLE chot.jobs ALTER COLUMN trace DROP NOT NULL",
    ],
)
def test_what_only_adds_is_let_through(sql: str) -> None:
    assert refusals(sql) == []

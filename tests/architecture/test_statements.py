"""Statements: each one is understood by PostgreSQL, and asks no clock but the database's own."""

import ast
import re

import asyncpg
import pytest
from sqlalchemy import make_url, text

from tests.architecture.statements import (
    SQL,
    literals,
    migrations,
    module_statements,
    sources,
)
from tests.services import Database

STANDS_STILL = re.compile(
    r"\bnow\(\)|\bcurrent_timestamp\b|\bcurrent_date\b|\blocaltimestamp\b"
    r"|\b(transaction|statement)_timestamp\(",
    re.IGNORECASE,
)
# Takes what is due by an index; judges no lease, and is always a transaction of its own.
MAY_ASK_THE_STATEMENTS_TIME = {
    "shared/limited_lanes.py",
    "shared/outbox.py",
    "shared/publishing.py",
}
DIALECT = make_url("postgresql+asyncpg://").get_dialect()()
# Statements that are put together where they run; their parts are constants of the module.
COMPOSED = {
    ("shared/jobs/listing.py", "list_jobs"),
    ("worker/migrations/task.py", "execute"),
    ("worker/records/cost_results.py", "take_back"),
}


def compiled(statement: str) -> str:
    """The statement with numbered parameters, as the driver sends it."""
    return str(text(statement).compile(dialect=DIALECT))


async def test_every_statement_of_the_code_prepares(database: Database) -> None:
    """A column that was renamed, or a bind without a type, is found before anybody runs it."""
    statements = {name: each.text for name, each in module_statements().items()}
    statements |= dict(_statements_in_functions())
    assert len(statements) > 60, "the walk found too few to be true"
    connection = await asyncpg.connect(database.superuser_url)
    broken: dict[str, str] = {}
    for name, statement in statements.items():
        try:
            await connection.prepare(compiled(statement))
        except asyncpg.PostgresError as error:
            broken[name] = str(error)
    await connection.close()
    assert broken == {}


def _statements_in_functions() -> list[tuple[str, str]]:
    """What is passed to text() as a plain literal inside a function."""
    return [
        (f"{path}:{node.lineno}", node.args[0].value)
        for path, tree in sources()
        if not path.startswith("shared/schema/")  # the predicates of indexes
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "text"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def test_statements_are_composed_in_few_places_only() -> None:
    """An f-string inside a function cannot be prepared here; each is a decision."""
    found = {
        (path, function.name)
        for path, tree in sources()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "text"
        and not isinstance(node.args[0], ast.Constant)
        and not _returns_a_statement(function)
    }
    assert found == COMPOSED


def _returns_a_statement(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A function that makes module constants: what it makes is prepared as such."""
    return isinstance(function.returns, ast.Name) and function.returns.id == "TextClause"


@pytest.mark.scenario("F58")
def test_no_statement_asks_a_clock_that_stands_still() -> None:
    """⚑ now() is the transaction's start: a lease that ran out since would look alive."""
    found = [
        f"{path}:{line}: {match.group()}"
        for path, tree in [*sources(), *((p.name, t) for p, t in migrations())]
        for line, words in literals(tree)
        if (match := STANDS_STILL.search(words))
        and not (path in MAY_ASK_THE_STATEMENTS_TIME and match.group() == "statement_timestamp(")
    ]
    assert found == []


def test_no_bind_is_cast_the_short_way() -> None:
    """text() leaves `:x::int` unbound; CAST(:x AS int) is the one way."""
    found = [
        f"{path}:{line}"
        for path, tree in sources()
        for line, words in literals(tree)
        if SQL.search(words) and re.search(r"(?<![:\w]):[a-z_]+::", words)
    ]
    assert found == []


@pytest.mark.parametrize(
    "words",
    ["now()", "CURRENT_TIMESTAMP", "statement_timestamp()", "current_date", "localtimestamp"],
)
def test_a_clock_that_stands_still_would_be_noticed(words: str) -> None:
    """The pattern finds what it is there for, and lets the right one pass."""
    assert STANDS_STILL.search(f"SELECT {words}")
    assert not STANDS_STILL.search("SELECT clock_timestamp(), known()")

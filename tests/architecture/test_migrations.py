"""Migrations: up, down and up again on an empty database; never a long wait for a lock."""

import ast
import os
import re
import subprocess
import sys

import asyncpg
import pytest

from tests.architecture.locks import ROOT
from tests.architecture.statements import migrations
from tests.services import Database

REVISIONS = list(migrations())
# Everything of ours in a database, as text: what a downgrade must take away and a second upgrade
# must bring back exactly.
CONTENTS = r"""
    SELECT 'column ' || concat_ws(' ', c.table_schema, c.table_name, c.column_name, c.data_type,
                                  c.is_nullable, c.column_default) AS thing
      FROM information_schema.columns c WHERE c.table_schema IN ('chot', 'books', 'public')
    UNION ALL
    SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace::regnamespace::text IN ('chot', 'books', 'public')
    UNION ALL
    SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname IN ('chot', 'books', 'public')
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure || ' ' || md5(prosrc) || ' ' || coalesce(
           proacl::text, 'default') || ' ' || prosecdef
      FROM pg_proc p WHERE pronamespace::regnamespace::text IN ('chot', 'books', 'public')
    UNION ALL
    SELECT 'trigger ' || tgrelid::regclass || ' ' || pg_get_triggerdef(oid)
      FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'grants ' || oid::regclass || ' ' || coalesce(relacl::text, 'default') || ' '
           || coalesce(reloptions::text, '')
      FROM pg_class WHERE relnamespace::regnamespace::text IN ('chot', 'books', 'public')
    UNION ALL
    SELECT 'schema ' || nspname || ' ' || nspowner::regrole || ' ' || coalesce(nspacl::text, '')
      FROM pg_namespace WHERE nspname IN ('chot', 'books')
    ORDER BY 1"""


def chot_migrate(database: Database, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`chot migrate` as an operator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "shared.cli", "migrate", *arguments],
        cwd=ROOT,
        env={**os.environ, "CHOT_MIGRATE_DATABASE_URL": database.superuser_url},
        capture_output=True,
        text=True,
        check=False,
    )


async def contents(database: Database) -> list[str]:
    """Everything of ours in that database."""
    connection = await asyncpg.connect(database.superuser_url)
    try:
        return [row["thing"] for row in await connection.fetch(CONTENTS)]
    finally:
        await connection.close()


async def test_up_down_and_up_again_gives_the_same_schema(empty_database: Database) -> None:
    """Every revision has a working downgrade, and leaves nothing behind."""
    done = chot_migrate(empty_database)
    assert done.returncode == 0, done.stderr
    first = await contents(empty_database)
    down = chot_migrate(empty_database, "--to", "base")
    assert down.returncode == 0, down.stderr
    left = [
        thing
        for thing in await contents(empty_database)
        if "alembic_version" not in thing and not thing.startswith("schema chot ")
    ]
    assert left == []
    again = chot_migrate(empty_database)
    assert again.returncode == 0, again.stderr
    assert await contents(empty_database) == first


async def test_a_downgrade_destroys_no_archived_job(empty_database: Database) -> None:
    """The archive holds what is kept nowhere else: it must be emptied on purpose."""
    assert chot_migrate(empty_database).returncode == 0
    connection = await asyncpg.connect(empty_database.superuser_url)
    await connection.execute("""
        INSERT INTO chot.archived_jobs (id, finished_at, job, attempts)
        VALUES (gen_random_uuid(), clock_timestamp(), '{}', '[]')""")
    down = chot_migrate(empty_database, "--to", "0053_ending_totals")
    assert down.returncode != 0
    assert "chot.archived_jobs has jobs that are kept nowhere else" in down.stdout + down.stderr
    assert await connection.fetchval("SELECT count(*) FROM chot.archived_jobs") == 1
    await connection.execute("DELETE FROM chot.archived_jobs")
    await connection.close()
    down = chot_migrate(empty_database, "--to", "0053_ending_totals")
    assert down.returncode == 0, down.stderr


LEDGER_OF_BEFORE = """
    INSERT INTO books.companies (code, name) VALUES ('ACME', 'A');
    INSERT INTO books.brands (company, code, name) VALUES ('ACME', 'RED', 'R');
    INSERT INTO books.stores (company, code, brand, name) VALUES ('ACME', 'R1', 'RED', 'R1');
    INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, status, version,
                                 brand, store, content_hash)
    SELECT 'ACME', 'sale', no, '2026-01-05', '2026-01-05', status, version, 'RED', 'R1', ''
      FROM (VALUES ('gift', 'posted', 3), ('draft', 'draft', 2)) AS d (no, status, version)"""


async def test_documents_of_before_know_what_was_posted(empty_database: Database) -> None:
    """0177 fills in what its trigger lets nobody change: a posted document without an entry."""
    assert chot_migrate(empty_database, "--to", "0176_variance_sides").returncode == 0
    connection = await asyncpg.connect(empty_database.superuser_url)
    await connection.execute(LEDGER_OF_BEFORE)
    done = chot_migrate(empty_database)
    assert done.returncode == 0, done.stdout + done.stderr
    query = "SELECT doc_no, posted_version FROM books.documents"
    found = {row["doc_no"]: row["posted_version"] for row in await connection.fetch(query)}
    assert found == {"gift": 3, "draft": None}
    with pytest.raises(asyncpg.PostgresError, match="DOCUMENT_KEPT"):
        await connection.execute("UPDATE books.documents SET memo = 'x' WHERE doc_no = 'gift'")
    await connection.close()


async def test_the_declared_tables_are_those_of_the_database(database: Database) -> None:
    """`alembic check` finds no difference, and would find a column that is gone."""
    checked = chot_migrate(database, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    connection = await asyncpg.connect(database.superuser_url)
    await connection.execute("ALTER TABLE chot.workers DROP COLUMN pid")
    await connection.close()
    checked = chot_migrate(database, "--check")
    assert checked.returncode == 1, checked.stdout + checked.stderr


async def test_nothing_lives_in_schema_public(database: Database) -> None:
    """What others put there, or drop there, is no business of ours."""
    connection = await asyncpg.connect(database.superuser_url)
    found = await connection.fetch("""
        SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT typname::text FROM pg_type WHERE typnamespace = 'public'::regnamespace""")
    await connection.close()
    assert found == []


def _assigned(tree: ast.Module, name: str) -> object:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name} is not assigned")


def test_revisions_are_one_chain_in_the_order_of_their_names() -> None:
    """Two heads would stop an upgrade; a file's name is its revision's."""
    before = None
    for path, tree in REVISIONS:
        assert _assigned(tree, "revision") == path.stem
        assert _assigned(tree, "down_revision") == before
        before = path.stem


@pytest.mark.scenario("F38")
@pytest.mark.parametrize("path", [path for path, _ in REVISIONS], ids=lambda path: path.stem)
def test_a_revision_gives_up_soon_when_it_cannot_lock(path: object) -> None:
    """Behind a migration that waits for its lock, every query of the table waits, too."""
    tree = dict(REVISIONS)[path]  # type: ignore[index] # a path of the list itself
    for name in ("upgrade", "downgrade"):
        (function,) = [
            node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        statements = [node for node in function.body if not _is_docstring(node)]
        first = ast.unparse(statements[0])
        assert re.fullmatch(r"op\.execute\(\"SET LOCAL lock_timeout = '800ms'\"\)", first), first
        assert len(statements) > 1, f"{name} of {path} does nothing"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_the_template_of_a_revision_gives_up_soon() -> None:
    """So that the next one cannot forget it."""
    template = (ROOT / "alembic" / "script.py.mako").read_text()
    assert template.count("op.execute(\"SET LOCAL lock_timeout = '800ms'\")") == 2

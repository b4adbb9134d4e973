"""What grows has a bound, or a reason: docs/retention.md names every table, and no other."""

import re
from pathlib import Path

import asyncpg

from shared.jobs import counts
from tests.services import Database

PAGE = (Path(__file__).parents[2] / "docs" / "retention.md").read_text()
# Parts of a table are bounded with it.
TABLES = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('chot', 'books') AND c.relkind IN ('r', 'p') AND NOT c.relispartition"""
TURNED_OVER = """
    SELECT c.relname, c.reloptions FROM pg_class c
     WHERE c.relnamespace = 'chot'::regnamespace AND c.relkind = 'r' AND c.relname = ANY($1)"""
HOT = ("jobs", "job_payloads", "job_outputs", "attempts", "outbox", "job_locks", "idempotency_keys")


def bounds() -> dict[str, str]:
    """What the page says of each table."""
    part = PAGE.partition("## Every table")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("| `")]
    return {name: said.strip() for names, said in rows for name in re.findall(r"`([^`]+)`", names)}


async def test_every_table_is_bounded_or_has_a_reason(database: Database) -> None:
    """A new table is asked what bounds it before it grows."""
    connection = await asyncpg.connect(database.superuser_url)
    there = {row[0] for row in await connection.fetch(TABLES)}
    await connection.close()
    said = bounds()
    assert there - set(said) == set(), "not in docs/retention.md: what bounds it?"
    assert set(said) - there == set(), "docs/retention.md names tables that there are not"
    assert all(len(each) > 5 for each in said.values())


async def test_what_the_page_names_is_there(database: Database) -> None:
    """Functions and settings that the page relies on."""
    connection = await asyncpg.connect(database.superuser_url)
    functions = {
        row[0]
        for row in await connection.fetch(
            """SELECT pronamespace::regnamespace || '.' || proname FROM pg_proc
                WHERE pronamespace::regnamespace::text IN ('chot', 'books')"""
        )
    }
    await connection.close()
    named = set(re.findall(r"`((?:chot|books)\.\w+)`", PAGE)) - set(bounds())
    named = {each for each in named if not re.search(r"_\d{4}_\d{2}$", each)}
    assert named
    assert named <= functions
    code = "".join(
        path.read_text()
        for package in ("shared", "worker", "api", "tests")
        for path in (Path(counts.__file__).parents[2] / package).rglob("*.py")
    )
    for setting in re.findall(r"CHOT_(\w+)", PAGE):
        assert re.search(rf"\b(CHOT_)?{setting}\b", code, re.IGNORECASE), setting


async def test_what_turns_over_with_every_job_is_vacuumed_by_its_rows(database: Database) -> None:
    """A fifth of a large table is very many dead rows."""
    connection = await asyncpg.connect(database.superuser_url)
    options = {
        row["relname"]: row["reloptions"] for row in await connection.fetch(TURNED_OVER, list(HOT))
    }
    await connection.close()
    assert set(options) == set(HOT)
    for table, found in options.items():
        assert "autovacuum_vacuum_scale_factor=0.01" in found, table
        assert "autovacuum_vacuum_threshold=1000" in found, table

"""An installation with an archive and an audit: they become parts of their tables, where they are."""

import asyncpg
import pytest

from tests.architecture.test_migrations import chot_migrate
from tests.services import Database

BEFORE = "0190_job_minutes"
FILL = (
    """INSERT INTO chot.archived_jobs (id, finished_at, job, attempts)
       SELECT chot.uuid7(), clock_timestamp() - make_interval(days => n),
              jsonb_build_object('n', n, 'group_id', CASE WHEN n % 2 = 0 THEN 'g' END), '[]'
         FROM generate_series(1, 1000) AS n""",
    """INSERT INTO chot.audit (action, principal, facts)
       SELECT 'key.make', 'before', jsonb_build_object('n', n) FROM generate_series(1, 1000) AS n""",
)
ROWS = {
    "archived_jobs": "SELECT md5(string_agg(a::text, '|' ORDER BY id)) FROM chot.archived_jobs a",
    "audit": "SELECT md5(string_agg(a::text, '|' ORDER BY at, id)) FROM chot.audit a",
}
FILES = """
    SELECT split_part(relname, '_before_', 1), relfilenode FROM pg_class
     WHERE relnamespace = 'chot'::regnamespace AND relkind = 'r'
       AND relname ~ '^(archived_jobs|audit)(_before_[0-9]{4}_[0-9]{2})?$' ORDER BY 1"""
OLD_PARTS = """
    SELECT relname FROM pg_class WHERE relnamespace = 'chot'::regnamespace
       AND relname ~ '_before_[0-9]{4}_[0-9]{2}$' AND relkind = 'r' ORDER BY 1"""


@pytest.mark.long
async def test_what_was_kept_before_stays_where_it_is_and_is_read_as_before(
    empty_database: Database,
) -> None:
    """Not a row is written again, up and down and up; numbers go on; the old part is droppable."""
    assert chot_migrate(empty_database, "--to", BEFORE).returncode == 0
    connection = await asyncpg.connect(empty_database.superuser_url)
    for statement in FILL:
        await connection.execute(statement)
    rows = {name: await connection.fetchval(query) for name, query in ROWS.items()}
    files = [tuple(row) for row in await connection.fetch(FILES)]
    kept: list[str] = []
    for again in (False, True):
        done = chot_migrate(empty_database)
        assert done.returncode == 0, done.stderr
        assert {name: await connection.fetchval(query) for name, query in ROWS.items()} == rows
        if files:
            assert [tuple(row) for row in await connection.fetch(FILES)] == files, "no rewrite"
        files = []
        kept = [row[0] for row in await connection.fetch(OLD_PARTS)]
        assert [name.split("_before_")[0] for name in kept] == ["archived_jobs", "audit"]
        await connection.execute("SELECT chot.open_months('archived_jobs', NULL)")
        if not again:
            assert chot_migrate(empty_database, "--to", BEFORE).returncode == 0
            assert {name: await connection.fetchval(query) for name, query in ROWS.items()} == rows
    number = "INSERT INTO chot.audit (action, principal) VALUES ('key.make', 'after') RETURNING id"
    assert await connection.fetchval(number) == 1001
    with pytest.raises(asyncpg.PostgresError, match="append-only"):
        await connection.execute(f"DELETE FROM chot.{kept[1]}")
    # Row by row as before, and as a whole when the edge is old: here nothing of it is young.
    removed = await connection.fetchval("SELECT chot.remove_archived_jobs('900 days', 500)")
    assert removed == 101
    await connection.execute("UPDATE chot.archived_jobs SET finished_at = '2020-01-01'")
    dropped = await connection.fetchval("SELECT chot.drop_month('archived_jobs', '-200 days')")
    assert dropped == kept[0]
    assert await connection.fetchval("SELECT count(*) FROM chot.archived_jobs") == 0
    await connection.close()

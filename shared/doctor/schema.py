"""The schema: which revision it is at, and whether its indexes are there, valid and lean."""

import re

from sqlalchemy import Index, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex

from shared.doctor.finding import Finding, sql
from shared.schema import metadata

BLOATED_BYTES = 256 << 20
BLOATED_ROW_BYTES = 400

READ_REVISION = text("SELECT version_num FROM chot.alembic_version")
HAS_REVISION = text("SELECT to_regclass('chot.alembic_version') IS NOT NULL")


async def check_revision(
    conn: AsyncConnection, *, head: str, known: frozenset[str]
) -> list[Finding]:
    """The database's revision against this code's newest."""
    revision = None
    if await conn.scalar(HAS_REVISION):
        revision = await conn.scalar(READ_REVISION)
    if revision == head:
        return []
    if revision is None:
        return [
            Finding(
                code="schema-missing",
                severity="critical",
                seen="the database has no schema of ours",
                why="api and worker wait for it",
                remedy=("chot migrate",),
            )
        ]
    if revision in known:
        return [
            Finding(
                code="schema-older",
                severity="critical",
                seen=f"the schema is at {revision}; this code's is {head}",
                why="the migration runs before the code that needs it; newer processes wait for it",
                remedy=("chot migrate",),
            )
        ]
    return [
        Finding(
            code="schema-unknown",
            severity="warning",
            seen=f"the schema is at {revision}, which this code (newest: {head}) does not know",
            why="the code here is older than the schema, which is fine during a deployment only",
            remedy=("deploy the code that the schema belongs to, or restore",),
        )
    ]


READ_INDEXES = text("""
    SELECT n.nspname AS schema, c.relname AS name, t.relname AS table, i.indisvalid AS valid,
           c.relkind = 'I' AS parted, pg_relation_size(c.oid) AS bytes,
           greatest(c.reltuples, 1)::float8 AS rows
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      JOIN pg_class t ON t.oid = i.indrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('chot', 'books') ORDER BY 1, 2""")


async def check_indexes(
    conn: AsyncConnection, *, bloated: int = BLOATED_BYTES, row_bytes: float = BLOATED_ROW_BYTES
) -> list[Finding]:
    """Every index that the code declares is there and valid; none is mostly air."""
    rows = (await conn.execute(READ_INDEXES)).mappings().all()
    found = [_invalid(row["schema"], row["name"]) for row in rows if not row["valid"]]
    there = {(row["schema"], row["name"]) for row in rows}
    found += [
        _missing(f"{table.schema}.{table.name}", index)
        for table in metadata.tables.values()
        for index in sorted(table.indexes, key=lambda each: str(each.name))
        if (table.schema, index.name) not in there
    ]
    found += [
        Finding(
            code="index-bloated",
            severity="note",
            seen=f"{row['schema']}.{row['name']} has {row['bytes'] / (1 << 20):,.0f} MB for "
            f"{row['rows']:,.0f} rows",
            why="most of it is empty pages, read and kept in memory for nothing",
            remedy=(sql(f"REINDEX INDEX CONCURRENTLY {row['schema']}.{row['name']}"),),
        )
        for row in rows
        if row["bytes"] > bloated and row["bytes"] / row["rows"] > row_bytes
    ]
    return found


def _invalid(schema: str, name: str) -> Finding:
    # What a CREATE or REINDEX CONCURRENTLY that was broken off leaves behind has such a name.
    leftover = re.search(r"_ccnew\d*$|_ccold\d*$", name)
    statement = "DROP INDEX CONCURRENTLY" if leftover else "REINDEX INDEX CONCURRENTLY"
    return Finding(
        code="index-invalid",
        severity="critical",
        seen=f"index {schema}.{name} is invalid",
        why="it is written at every change and serves no query: its build broke off",
        remedy=(sql(f"{statement} {schema}.{name}"),),
    )


def _missing(table: str, index: Index) -> Finding:
    made = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call] # of SQLAlchemy
    statement = " ".join(made.split()).replace(" INDEX ", " INDEX CONCURRENTLY ", 1)
    return Finding(
        code="index-missing",
        severity="critical",
        seen=f"index {index.name} of {table} is not there",
        why="a rule that only the index holds is not held, or a query reads the whole table"
        if index.unique
        else "what it serves reads the whole table",
        remedy=(sql(statement),),
    )

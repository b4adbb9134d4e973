"""The SQL of a task's source: what is composed of the names and conditions that a task gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import TextClause, text

from worker.migrations.task import Key, Source


def quoted(name: str) -> str:
    """A column's name as the catalogue has it, whatever letters and words it is made of."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A key column, known to be one of the table: its name, and its type as SQL writes it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A source with the types of its key, and the upper bound once that is known."""

    source: Source
    columns: Sequence[Column]
    upper: Key | None = None

    @property
    def tables(self) -> str:
        """What stands after FROM."""
        return f"{self.source.table} AS r {self.source.joins}"

    @property
    def _key(self) -> str:
        return ", ".join(f"r.{quoted(column.name)}" for column in self.columns)

    def where(self, after: Key | None, upto: Key | None) -> str:
        """The condition of the rows after one key and up to another; both as `binds` has them."""
        parts = [self._fixed(), f"({self.source.where})"]
        if after is not None:
            parts.append(f"({self._key}) > ({self._casts('after')})")
        if upto is not None:
            parts.append(f"({self._key}) <= ({self._casts('upto')})")
        return " AND ".join(parts)

    def binds(self, after: Key | None, upto: Key | None) -> dict[str, Any]:
        """The values of a condition."""
        found = dict(self.source.binds)
        found |= {f"fixed_{n}": value for n, value in enumerate(self.source.fixed.values())}
        for name, key in (("after", after), ("upto", upto)):
            if key is not None:
                found |= {f"{name}_{n}": part for n, part in enumerate(key)}
        return found

    def where_is(self) -> str:
        """The condition of the one row whose key is bound as `is_…`."""
        return (
            f"{self._fixed()} AND ({self.source.where}) AND ({self._key}) = ({self._casts('is')})"
        )

    def binds_of(self, key: Key) -> dict[str, Any]:
        """The values of where_is()."""
        return self.binds(None, None) | {f"is_{n}": part for n, part in enumerate(key)}

    def count_one(self) -> TextClause:
        """How many rows where_is() finds."""
        return text(f"SELECT count(*) FROM {self.tables} WHERE {self.where_is()}")

    def last(self) -> TextClause:
        """The largest key there is, whatever the condition says, as `key`."""
        order = ", ".join(f"r.{quoted(column.name)} DESC" for column in self.columns)
        return text(f"""
            SELECT {self._texts("r.")} AS key FROM {self.source.table} AS r
             WHERE {self._fixed()} ORDER BY {order} LIMIT 1""")

    def count(self) -> TextClause:
        """How many rows there are up to the upper bound."""
        return text(f"SELECT count(*) FROM {self.tables} WHERE {self.where(None, self.upper)}")

    def explained(self) -> TextClause:
        """The planner's estimate of the same."""
        return text(
            f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {self.tables} "
            f"WHERE {self.where(None, self.upper)}"
        )

    def boundary(self, after: Key | None) -> TextClause:
        """The next :most rows: how many (`rows`, `distinct_keys`), and the `key` of the last.

        No row: there is nothing after.
        """
        names = [f"k{n}" for n in range(len(self.columns))]
        keys = ", ".join(f"r.{quoted(c.name)} AS k{n}" for n, c in enumerate(self.columns))
        down = ", ".join(f"{name} DESC" for name in names)
        casts = ", ".join(f"CAST({name} AS text)" for name in names)
        # Without joins a row of the table is there once, and the key is known to be unique.
        distinct = (
            f"(SELECT DISTINCT {', '.join(names)} FROM next)" if self.source.joins else "next"
        )
        return text(f"""
            WITH next AS MATERIALIZED (
                SELECT {keys} FROM {self.tables}
                 WHERE {self.where(after, self.upper)} ORDER BY {self._key} LIMIT :most)
            SELECT (SELECT count(*) FROM next) AS rows,
                   (SELECT count(*) FROM {distinct} AS d) AS distinct_keys,
                   ARRAY[{casts}] AS key
              FROM next ORDER BY {down} LIMIT 1""")

    def _fixed(self) -> str:
        parts = [f"r.{quoted(name)} = :fixed_{n}" for n, name in enumerate(self.source.fixed)]
        return " AND ".join(parts) or "true"

    def _casts(self, name: str) -> str:
        """Through text: the driver sends each part as it was kept, the server reads its type."""
        return ", ".join(
            f"CAST(CAST(:{name}_{n} AS text) AS {column.type})"
            for n, column in enumerate(self.columns)
        )

    def _texts(self, prefix: str) -> str:
        casts = ", ".join(f"CAST({prefix}{quoted(c.name)} AS text)" for c in self.columns)
        return f"ARRAY[{casts}]"


# A unique index over nothing but key and fixed columns proves that the key is a total order: unless
# tables inherit, which it knows nothing of, or the column's order holds two of its values for one.
READ_KEY = text("""
    SELECT to_regclass(CAST(:table AS text)) IS NOT NULL AS known,
           ARRAY(SELECT coalesce((SELECT format_type(a.atttypid, a.atttypmod)
                                    FROM pg_attribute a
                                   WHERE a.attrelid = to_regclass(CAST(:table AS text))
                                     AND a.attname = c.name AND a.attnum > 0
                                     AND NOT a.attisdropped), '')
                   FROM unnest(CAST(:columns AS text[])) WITH ORDINALITY AS c (name, n)
                  ORDER BY c.n) AS types,
           ARRAY(SELECT a.attname::text FROM pg_attribute a
                  WHERE a.attrelid = to_regclass(CAST(:table AS text))
                    AND a.attname = ANY(CAST(:columns AS text[])) AND NOT a.attnotnull) AS nullable,
           EXISTS (
               SELECT FROM pg_index i
                WHERE i.indrelid = to_regclass(CAST(:table AS text))
                  AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
                  AND NOT EXISTS (
                      SELECT FROM unnest(CAST(i.indkey AS smallint[]),
                                         CAST(i.indcollation AS oid[]))
                                  WITH ORDINALITY AS k (n, collated, at)
                        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
                        LEFT JOIN pg_collation c
                               ON c.oid = a.attcollation AND NOT c.collisdeterministic
                       WHERE k.at <= i.indnkeyatts
                         AND (k.n = 0 OR a.attname <> ALL(CAST(:unique AS text[]))
                              OR c.oid <> k.collated)))
           AND NOT EXISTS (
               SELECT FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhparent
                WHERE p.oid = to_regclass(CAST(:table AS text)) AND p.relkind <> 'p')
               AS is_unique""")


def key_binds(source: Source) -> Mapping[str, Any]:
    """The values that READ_KEY asks for."""
    return {
        "table": source.table,
        "columns": list(source.key),
        "unique": [*source.key, *source.fixed],
    }

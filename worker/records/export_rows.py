"""The rows of an export, page by page in the order of their key, each page whole or none.

Every page is read in one transaction that ends with a look at the run: what was read of a run that
is not there any more is thrown away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.costs.rows import DIFFERENCES, RUN_RESULTS
from shared.costs.runs import status_of
from shared.errors import PermanentError

STANDS = {"errors": ("active", "previewed"), "differences": ("previewed",)}
OF_BRANDS = "(CAST(:brands AS text[]) IS NULL OR p.brand = ANY (CAST(:brands AS text[])))"

STORES = text(f"""
    SELECT p.brand, p.item, p.store, s.name AS store_name, p.pool, i.name, i.base_uom, i.qty_scale,
           p.q_opening, p.v_opening, p.q_in, p.v_in, p.q_transfer_in, p.v_transfer_in, p.q_out,
           p.v_out, p.q_transfer_out, p.v_transfer_out, p.q_closing, p.v_closing, p.v_averaging
      FROM books.store_balances p
      JOIN books.items i ON i.company = :company AND i.code = p.item
      JOIN books.stores s ON s.company = :company AND s.code = p.store
     WHERE p.run_id = CAST(:run_id AS bigint)
       AND (p.brand, p.item, p.store) > (:brand_after, :item_after, :store_after)
       AND {OF_BRANDS}
     ORDER BY p.brand, p.item, p.store LIMIT :most""")
MOVEMENTS = text(f"""
    SELECT m.id, m.posting_date, m.doc_id, m.doc_line, m.kind, p.brand, m.store, m.to_store, p.item,
           i.name, m.lot_id, i.base_uom, i.qty_scale, m.qty_base, p.qty_diff, p.value, p.variance,
           p.true_up, m.ref_movement_id, m.reverses_movement_id
      FROM books.movement_costs p
      JOIN books.stock_movements m ON m.id = p.movement_id
      JOIN books.items i ON i.company = :company AND i.code = p.item
     WHERE p.run_id = CAST(:run_id AS bigint)
       AND (p.brand, p.item, p.movement_id)
         > (:brand_after, :item_after, CAST(:id_after AS bigint))
       AND {OF_BRANDS}
     ORDER BY p.brand, p.item, p.movement_id LIMIT :most""")
# A row each movement that is named; an error that names none has one row.
ERRORS = text(f"""
    SELECT p.brand, p.item, p.number, p.pool, p.code, p.detail, i.name, m.id, m.posting_date,
           m.doc_id, m.doc_line, m.kind, m.store, m.qty_base, i.qty_scale, m.value
      FROM (SELECT * FROM books.item_errors p
             WHERE p.run_id = CAST(:run_id AS bigint)
               AND (p.brand, p.item, p.number)
                 > (:brand_after, :item_after, CAST(:number_after AS integer))
               AND {OF_BRANDS}
             ORDER BY p.brand, p.item, p.number LIMIT :most) AS p
      JOIN books.items i ON i.company = :company AND i.code = p.item
      LEFT JOIN LATERAL unnest(p.movement_ids) WITH ORDINALITY AS n (id, place) ON true
      LEFT JOIN books.stock_movements m ON m.id = n.id
     ORDER BY p.brand, p.item, p.number, n.place""")
COUNTS = {
    "results": text(f"""
        SELECT count(*) FROM books.pool_results p
         WHERE p.run_id = CAST(:run_id AS bigint) AND {OF_BRANDS}"""),
    "stores": text(f"""
        SELECT count(*) FROM books.store_balances p
         WHERE p.run_id = CAST(:run_id AS bigint) AND {OF_BRANDS}"""),
    "movements": text(f"""
        SELECT count(*) FROM books.movement_costs p
         WHERE p.run_id = CAST(:run_id AS bigint) AND {OF_BRANDS}"""),
    "errors": text(f"""
        SELECT coalesce(sum(greatest(cardinality(p.movement_ids), 1)), 0) FROM books.item_errors p
         WHERE p.run_id = CAST(:run_id AS bigint) AND {OF_BRANDS}"""),
    "differences": text(f"""
        SELECT count(*) FROM books.cost_differences p
         WHERE p.run_id = CAST(:run_id AS bigint) AND {OF_BRANDS}"""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How a table is read: its statement, and the key that its pages go by, with its beginning."""

    statement: Any
    key: Sequence[str]
    first: tuple[Any, ...]
    more: Mapping[str, Any]


NONE_WANTED = {"item": None, "items": None, "pool": None, "store": None}
SOURCES: Mapping[str, Source] = {
    "results": Source(
        statement=RUN_RESULTS,
        key=("brand", "item", "pool"),
        first=("", "", ""),
        more=NONE_WANTED,
    ),
    "stores": Source(statement=STORES, key=("brand", "item", "store"), first=("", "", ""), more={}),
    "movements": Source(
        statement=MOVEMENTS, key=("brand", "item", "id"), first=("", "", 0), more={}
    ),
    "errors": Source(statement=ERRORS, key=("brand", "item", "number"), first=("", "", 0), more={}),
    "differences": Source(
        statement=DIFFERENCES,
        key=("item", "brand", "account"),
        first=("", "", ""),
        more={"item": None, "account": None},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows: of a run, all of them or those of a brand."""

    run_id: int
    table: str
    company: str
    period: str
    brand: str | None

    def binds(self) -> dict[str, Any]:
        """What every statement of this module is bound to, and more."""
        return {
            "run_id": self.run_id,
            "company": self.company,
            "period": self.period,
            "brands": None if self.brand is None else [self.brand],
        }


async def count_rows(conn: AsyncConnection, wanted: Wanted) -> int:
    """How many rows the table has."""
    binds = {"run_id": wanted.run_id, "brands": wanted.binds()["brands"]}
    found = int(await conn.scalar(COUNTS[wanted.table], binds) or 0)
    await require_run(conn, wanted)
    return found


async def read_page(
    conn: AsyncConnection,
    wanted: Wanted,
    names: Sequence[str],
    *,
    after: tuple[Any, ...] | None,
    most: int,
) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
    """The next rows, each with the values of `names`, and where the following ones begin.

    None at the end. Raises PermanentError RUN_SUPERSEDED when the run's rows are there no more.
    """
    source = SOURCES[wanted.table]
    start = dict(zip((f"{name}_after" for name in source.key), after or source.first, strict=True))
    taken = _binds(source)
    known = {name: value for name, value in wanted.binds().items() if name in taken}
    binds = {**known, **source.more, **start, "most": most}
    rows = (await conn.execute(source.statement, binds)).mappings().all()
    await require_run(conn, wanted)
    following = tuple(rows[-1][name] for name in source.key) if rows else None
    return [tuple(row[name] for name in names) for row in rows], following


def _binds(source: Source) -> set[str]:
    return set(source.statement.compile().params)


async def require_run(conn: AsyncConnection, wanted: Wanted) -> None:
    """PermanentError RUN_SUPERSEDED unless the rows are there at this moment: ask after reading."""
    status = await status_of(conn, wanted.run_id)
    if status not in STANDS.get(wanted.table, ("active",)):
        raise PermanentError(
            f"RUN_SUPERSEDED: cost run {wanted.run_id} is {status}, its {wanted.table} are not "
            "there any more; nothing was written. Export the run that speaks for the period now: "
            f"GET /v1/cost-runs?company={wanted.company}&period={wanted.period}&status=active",
            code="RUN_SUPERSEDED",
            details={"run_id": wanted.run_id, "status": status, "period": wanted.period},
        )

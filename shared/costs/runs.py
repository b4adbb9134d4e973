"""Cost runs as their readers see them: what a run was of, what it found in all, what proves it."""

from collections.abc import Sequence

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope
from shared.costs.flows import BESIDE, FLOWS, IN, OUT

# A run without a brand is of its whole company: whoever sees a brand of it sees that part.
RUN_IN_SCOPE = """((CAST(:scope_company AS text) IS NULL
         OR r.company = CAST(:scope_company AS text))
        AND (CAST(:scope_brands AS text[]) IS NULL OR r.brand IS NULL
             OR r.brand = ANY(CAST(:scope_brands AS text[]))))"""
HEADER = """
    r.id, r.job_id, r.fence, r.company, r.brand, r.period, r.starts_on, r.ends_on,
    r.previous_period, r.method, r.pool_policy, r.residue_policy,
    CAST(r.snapshot AS text) AS snapshot,
    r.status, r.rounds, r.items_total, r.items_failed, r.movements_total, r.checksum, r.created_at,
    r.activated_at, r.v_opening, r.v_receipt, r.v_gain, r.v_sales_return, r.v_issue, r.v_usage,
    r.v_purchase_return, r.v_rounding, r.v_true_up, r.v_variance, r.v_closing, r.negative,
    r.dry_run, r.scope"""

READ_RUN = text(f"""
    SELECT {HEADER}, c.minor_digits, c.currency,
           (SELECT a.code_version FROM chot.attempts a
             WHERE a.job_id = r.job_id AND a.fence = r.fence) AS code_version
      FROM books.cost_runs r JOIN books.companies c ON c.code = r.company
     WHERE r.id = CAST(:run_id AS bigint) AND {RUN_IN_SCOPE}""")
LIST_RUNS = text(f"""
    SELECT {HEADER}, c.minor_digits, c.currency
      FROM books.cost_runs r JOIN books.companies c ON c.code = r.company
     WHERE r.company = :company AND (CAST(:period AS text) IS NULL OR r.period = :period)
       AND (CAST(:status AS text) IS NULL OR r.status = :status)
       AND (CAST(:before AS bigint) IS NULL OR r.id < CAST(:before AS bigint))
       AND {RUN_IN_SCOPE}
     ORDER BY r.id DESC LIMIT :most""")
READ_STATUS = text("SELECT status FROM books.cost_runs WHERE id = CAST(:run_id AS bigint)")
SPEAKING = text("""
    SELECT DISTINCT r.id FROM books.active_results a JOIN books.cost_runs r ON r.id = a.run_id
     WHERE a.company = :company AND a.period = :period
       AND (CAST(:brands AS text[]) IS NULL OR a.brand = ANY (CAST(:brands AS text[])))
     ORDER BY r.id LIMIT 20""")


async def read_run(conn: AsyncConnection, run_id: int, scope: Scope) -> RowMapping | None:
    """The run's header; None where there is none in the scope."""
    binds = {"run_id": run_id, **scope.binds()}
    return (await conn.execute(READ_RUN, binds)).mappings().one_or_none()


async def list_runs(
    conn: AsyncConnection,
    scope: Scope,
    *,
    company: str,
    period: str | None,
    status: str | None,
    before: int | None,
    limit: int,
) -> Sequence[RowMapping]:
    """Runs of the company, newest first."""
    binds = {
        "company": company,
        "period": period,
        "status": status,
        "before": before,
        "most": limit,
        **scope.binds(),
    }
    return (await conn.execute(LIST_RUNS, binds)).mappings().all()


async def status_of(conn: AsyncConnection, run_id: int) -> str | None:
    """What the run is at this moment; ask after its rows were read."""
    return await conn.scalar(READ_STATUS, {"run_id": run_id})  # type: ignore[no-any-return]


async def speaking_runs(
    conn: AsyncConnection, company: str, period: str, brands: Sequence[str] | None
) -> Sequence[int]:
    """The runs whose results are the active ones of that period now."""
    binds = {"company": company, "period": period, "brands": None if brands is None else [*brands]}
    return (await conn.execute(SPEAKING, binds)).scalars().all()


def _sums(prefix: str, names: Sequence[str]) -> str:
    """Together as numeric: bigints of a whole company may overflow."""
    return " + ".join(f"CAST(p.{prefix}_{name} AS numeric)" for name in names)


TOTALS = ", ".join(
    f"coalesce(sum(p.v_{name}), 0) AS v_{name}" for name in (*FLOWS, *BESIDE, "variance")
)
PROVE = text(f"""
    SELECT count(*) AS pools, count(DISTINCT (p.brand, p.item)) AS items,
           {TOTALS},
           count(*) FILTER (
               WHERE {_sums("v", ("opening", *IN))}
                  <> {_sums("v", (*OUT, *BESIDE, "closing"))}) AS value_broken,
           count(*) FILTER (
               WHERE {_sums("q", ("opening", *IN))}
                  <> {_sums("q", (*OUT, "closing"))}) AS qty_broken,
           count(*) FILTER (
               WHERE (CAST(p.q_closing AS numeric) + p.q_owed = 0
                      AND CAST(p.v_closing AS numeric) + p.v_owed <> 0)
                  OR (p.q_owed = 0 AND p.v_owed <> 0)) AS drained_broken,
           (SELECT count(*) FROM (
               SELECT FROM books.pool_results t WHERE t.run_id = CAST(:run_id AS bigint)
                GROUP BY t.item
               HAVING sum(t.q_transfer_in) <> sum(t.q_transfer_out)
                   OR sum(t.v_transfer_in) <> sum(t.v_transfer_out)) AS x) AS transfers_broken
      FROM books.pool_results p
     WHERE p.run_id = CAST(:run_id AS bigint)
       AND (CAST(:brands AS text[]) IS NULL OR p.brand = ANY (CAST(:brands AS text[])))""")


async def prove(conn: AsyncConnection, run_id: int, brands: Sequence[str] | None) -> RowMapping:
    """Totals and invariants of the run's pools (those of some brands), added up again now."""
    binds = {"run_id": run_id, "brands": None if brands is None else [*brands]}
    return (await conn.execute(PROVE, binds)).mappings().one()


COUNT_ITEMS = text("""
    SELECT count(*) AS total, count(*) FILTER (WHERE w.failed) AS failed,
           coalesce(sum(w.movements), 0) AS movements,
           count(*) FILTER (WHERE a.run_id IS NOT NULL) AS speaking,
           count(*) FILTER (WHERE a.stale) AS stale, count(DISTINCT w.part) AS parts
      FROM books.cost_run_items w JOIN books.cost_runs r ON r.id = w.run_id
      LEFT JOIN books.active_results a
        ON a.company = r.company AND a.brand = w.brand AND a.period = r.period
       AND a.item = w.item AND a.run_id = r.id
     WHERE w.run_id = CAST(:run_id AS bigint)
       AND (CAST(:brands AS text[]) IS NULL OR w.brand = ANY (CAST(:brands AS text[])))""")


async def count_items(
    conn: AsyncConnection, run_id: int, brands: Sequence[str] | None
) -> RowMapping:
    """Items of the run (those of some brands): failed ones, and those it still speaks for."""
    binds = {"run_id": run_id, "brands": None if brands is None else [*brands]}
    return (await conn.execute(COUNT_ITEMS, binds)).mappings().one()

"""Merge staged lines of movements into the books, and say why some of them are refused."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.migrations.task import Applied, Batch, Reject
from worker.records.bringing import begin_bringing, end_bringing
from worker.records.import_verdicts import Identity
from worker.records.staged_words import said_in_file

RULES: Mapping[str, str] = {
    "STORE_UNKNOWN": "is no store of company {company}",
    "BRAND_MISMATCH": "is not the brand of store {store}, which is {brand}",
    "NOT_YOURS": "is a store of another brand than the import's",
    "ITEM_UNKNOWN": "is no item of company {company}: import the items first",
    "UOM_UNKNOWN": "is no unit of item {item}, whose base unit is {base_uom}",
    "UOM_NOT_EXACT": "is not a whole number of the smallest parts that item {item} is counted in",
    "RATE_MISSING": "is empty, and {currency} is not the company's currency",
    "VALUE_NOT_EXACT": "has more decimals than the company's currency, and is never rounded: write "
    "what the document says",
    "RATE_MISMATCH": "is not {fc_amount} {currency} at the rate, which is {value} of the smallest "
    "unit of the company's currency",
    "OVERFLOW": "is too large",
    "DUPLICATE_IN_FILE": "of document {doc_id} is in line {first_line} of the file already",
    "PERIOD_UNKNOWN": "lies in no period of company {company}",
    "PERIOD_CLOSED": "lies in a period that is {period}",
    "REF_UNKNOWN": "and its line name no movement of this item that is in the books, or before "
    "this line",
    "DIFFERS": "of document {doc_id} is in the books with another {differing}: a movement is never "
    "changed; take it back (reverses_doc, reverses_line) and give the new one another line",
    "PLACE_DIFFERS": "opens what document {there}, has opened in the books, with another "
    "{differing}: take that back (reverses_doc, reverses_line), or leave this line out",
}
# The lines of a batch, which are sorted three times: some MiB.
SORTED_IN_MEMORY = text("SET LOCAL work_mem = '32MB'")
# Lines that could not be read are among them, and are not staged.
FAILED = text("SELECT rows_failed FROM chot.migration_runs WHERE job_id = :job_id")
REFERRING = frozenset({"ref_doc", "reverses_doc"})
REFERS = """
    SELECT EXISTS (SELECT FROM {source} WHERE {where}
                      AND (r.ref_doc IS NOT NULL OR r.reverses_doc IS NOT NULL))"""
COUNTED = (("created", "written"), ("unchanged", "unchanged"))
VALUES = {"quantity": "quantity", "value": "said_value"}


async def merge_movements(conn: AsyncConnection, batch: Batch, identity: Identity) -> Applied:
    """Write the batch's lines that are right and new; the others are counted, or refused.

    Conflict where somebody else has written one of them at this very moment: to be repeated.
    """
    company = batch.run.company
    since = await begin_bringing(conn, company)
    await conn.execute(SORTED_IN_MEMORY)
    binds: dict[str, Any] = {
        "company": company,
        "brand": batch.run.brand,
        "job_id": batch.run.job_id,
    }
    binds["thorough"] = batch.run.dry_run or await _has_refused(conn, batch)
    statement = identity.statement(referring=await _refers(conn, batch))
    rows = (await batch.execute(conn, statement, **binds)).mappings().all()
    counts = {name: int(rows[0][of]) for name, of in COUNTED if rows[0][of]}
    if counts.get("created") and not batch.run.dry_run:
        await end_bringing(conn, company, since, rows[0]["days"])
    return Applied(
        counts=counts,
        rejects=[_reject(row, company) for row in rows if row["judgement"] is not None],
    )


async def _has_refused(conn: AsyncConnection, batch: Batch) -> bool:
    """Whether staged lines were refused by batches before this one."""
    failed = await conn.scalar(FAILED, {"job_id": batch.run.job_id})
    unread = (batch.run.state or {}).get("refused")
    return unread is None or failed != unread


async def _refers(conn: AsyncConnection, batch: Batch) -> bool:
    """Whether a line of the batch refers to another movement: most files have no such columns."""
    columns = (batch.run.state or {}).get("columns")
    if columns is not None and not REFERRING.intersection(columns):
        return False
    return bool((await batch.execute(conn, REFERS)).scalar())


def _reject(row: RowMapping, company: str) -> Reject:
    code, _, field = row["judgement"].partition(":")
    code = "DIFFERS" if code == "FOUND" else code
    said: dict[str, Any] = {
        **row,
        "company": company,
        "differing": " and ".join(row["differing"] or ()),
    }
    value = said_in_file(row["said"], field) or row.get(VALUES.get(field, field))
    return Reject(
        code=code,
        rule=RULES["PLACE_DIFFERS" if code == "DIFFERS" and row["by_place"] else code].format_map(
            said
        ),
        line=row["line"],
        field=field,
        value=None if value is None else str(value),
    )

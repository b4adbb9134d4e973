"""Exports of the ledger: a report read in one moment, written by a child, stored chunk by chunk."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from shared.costs.shown import scaled
from shared.kinds.ledger import LEDGER_EXPORT, LedgerExportPayload
from shared.ledger.reports import Span
from worker.context import CleanupContext, JobContext
from worker.exports.writing import TABLES, Order, add, begin, finish
from worker.handlers import Handler
from worker.handlers.stored_files import store_file
from worker.records.files import discard_files
from worker.records.ledger_rows import (
    Report,
    Sums,
    begin_moment,
    count_rows,
    currency_of,
    read_pages,
)

PAGE_ROWS = 2_000
Fact = tuple[str, str | Decimal]


async def run_ledger_export(context: JobContext, payload: LedgerExportPayload) -> None:
    """Write the report and complete the job with the file's address and the report's sums."""
    brand = context.job.brand
    span = Span(
        company=context.job.company,
        since=date.fromisoformat(payload.date_from),
        until=date.fromisoformat(payload.date_to),
        brands=None if brand is None else [brand],
    )
    report = Report(name=payload.report, span=span, account=payload.account, level=payload.level)
    with TemporaryDirectory(prefix="chot-ledger-") as directory:
        path = Path(directory) / f"report.{payload.format}"
        rows, sums = await _write(context, report, path, payload)
        stored = await store_file(context, path, name=_name(payload))
    async with context.completion() as tx:
        tx.result = {
            "report": payload.report,
            "date_from": payload.date_from,
            "date_to": payload.date_to,
            "account": payload.account,
            "rows": rows,
            "sums": sums,
            "file": await stored.tell(tx.connection),
        }


async def _write(
    context: JobContext, report: Report, path: Path, payload: LedgerExportPayload
) -> tuple[int, dict[str, str]]:
    """Every row into the file on disk, by the child; how many there were, and their sums."""
    names = TABLES[report.name].names
    done, sums = 0, Sums({})
    async with context.read() as conn:
        await begin_moment(conn)
        digits, currency = await currency_of(conn, report.span.company)
        total = await count_rows(conn, report)
        order = Order(
            path=str(path),
            table=report.name,
            format=payload.format,
            digits=digits,
            bom=payload.bom,
            minor_digits=digits,
        )
        await context.offload(begin, order)
        async for page in read_pages(conn, report, sums, most=PAGE_ROWS):
            await context.offload(add, str(path), [_in_order(row, names) for row in page])
            done += len(page)
            context.progress(done, total, unit="rows", message=f"writing {report.name}")
            context.yield_if_asked()
    shown = {name: scaled(amount, digits) for name, amount in sums.amounts.items()}
    await context.offload(finish, str(path), _facts(report, currency, shown))
    return done, shown


def _in_order(row: dict[str, object], names: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in names)


def _facts(report: Report, currency: str, sums: dict[str, str]) -> list[Fact]:
    """What the sheet beside the table says."""
    span = report.span
    told: list[Fact] = [("Company (Công ty)", span.company), ("Currency (Tiền tệ)", currency)]
    if span.brands is not None:
        told.append(("Brand (Thương hiệu)", ", ".join(span.brands)))
    if report.account is not None:
        told.append(("Account (Tài khoản)", report.account))
    told += [("From (Từ ngày)", span.since.isoformat()), ("To (Đến ngày)", span.until.isoformat())]
    return told + [(name.replace("_", " "), Decimal(amount)) for name, amount in sums.items()]


def _name(payload: LedgerExportPayload) -> str:
    """Such as general-ledger-1561-2026-01-01-2026-01-31.xlsx: ASCII, as account codes are."""
    account = "" if payload.account is None else f"-{payload.account}"
    report = payload.report.replace("_", "-")
    return f"{report}{account}-{payload.date_from}-{payload.date_to}.{payload.format}"


async def clean_up_ledger_export(context: CleanupContext) -> None:
    """Give up the file that the job has left half-written; nobody has ever seen it."""
    await discard_files(context.connection, UUID(str(context.job.id)))


HANDLERS = (
    Handler(kind=LEDGER_EXPORT.name, run=run_ledger_export, cleanup=clean_up_ledger_export),
)

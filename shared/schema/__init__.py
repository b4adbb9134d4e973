"""SQLAlchemy Core tables of both schemas: `chot` (platform) and `books` (the ERP side)."""

from shared.schema import (
    accounts,
    alerts,
    books,
    cost_documents,
    cost_runs,
    deployment,
    ends,
    files,
    imports,
    jobs,
    ledger,
    locks,
    migrations,
    pages,
    periods,
    posting,
)
from shared.schema.metadata import metadata

__all__ = [
    "accounts",
    "alerts",
    "books",
    "cost_documents",
    "cost_runs",
    "deployment",
    "ends",
    "files",
    "imports",
    "jobs",
    "ledger",
    "locks",
    "metadata",
    "migrations",
    "pages",
    "periods",
    "posting",
]

"""SQLAlchemy Core tables of both schemas: `chot` (platform) and `books` (the ERP side)."""

from shared.schema import (
    books,
    cost_documents,
    cost_runs,
    files,
    imports,
    jobs,
    ledger,
    locks,
    migrations,
    periods,
    posting,
)
from shared.schema.metadata import metadata

__all__ = [
    "books",
    "cost_documents",
    "cost_runs",
    "files",
    "imports",
    "jobs",
    "ledger",
    "locks",
    "metadata",
    "migrations",
    "periods",
    "posting",
]

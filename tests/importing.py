"""Imports for tests: a company with a period and items, files in the emulator's S3, and runs."""

import gzip
import hashlib
import io
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from xlsxwriter import Workbook

from dev.sqs import ensure_bucket
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.migration import MIGRATION_RUN
from shared.s3 import open_s3
from shared.types import JobId
from shared.uploads import begin_upload, finish_upload
from tests.costing_books import SEED
from tests.factories import execute, fetch, scalar
from tests.migrating import Migrating

HEAD = "doc_id,doc_line,kind,posting_date,store,to_store,item,quantity,value,ref_doc,ref_line"
MOVEMENTS = f"""{HEAD}
DK,1,opening,2026-01-01,R1,,A,100,1000000,,
PN1,1,receipt,2026-01-03,R1,,A,10,150000,,
BH1,1,issue,2026-01-04,R1,,A,3,,,
CK1,1,transfer,2026-01-05,R1,R2,A,5,,,
TL1,1,sales_return,2026-01-06,R1,,A,1,,BH1,1
"""


@dataclass(slots=True, kw_only=True)
class Importing:
    """One test's database and bucket, and a worker that runs imports."""

    migrating: Migrating
    bucket: str

    async def send(
        self,
        content: str | bytes,
        *,
        name: str = "file.csv",
        company: str = "ACME",
        brand: str | None = None,
    ) -> UUID:
        """A file that a client has sent."""
        data = content.encode() if isinstance(content, str) else content

        async def whole() -> Any:
            yield data

        async with self.migrating.app.begin() as conn:
            upload_id, key = await begin_upload(
                conn, company=company, brand=brand, principal="test", name=name, media_type="x/y"
            )
        async with open_s3(self.bucket) as s3:
            await (await s3.connected()).put(key, whole())
        async with self.migrating.app.begin() as conn:
            digest = hashlib.sha256(data).digest()
            await finish_upload(conn, upload_id, size=len(data), sha256=digest, keep=3600)
        return upload_id

    async def submit(
        self, content: str | bytes | UUID, kind: str = "movements", **given: Any
    ) -> JobId:
        """A pending import of the file; `params` are the import's own."""
        file = content if isinstance(content, UUID) else await self.send(content)
        params = {"file": str(file), **given.pop("params", {})}
        given.setdefault("max_reject_percent", 100)
        brand = given.pop("brand", None)
        payload = {"task": f"import.{kind}", "params": params, **given}
        job = Submit(kind=MIGRATION_RUN.name, company="ACME", brand=brand, payload=payload)
        async with self.migrating.app.begin() as conn:
            return (await enqueue(conn, job)).job_id

    async def take(
        self, content: str | bytes | UUID, kind: str = "movements", **given: Any
    ) -> dict[str, Any]:
        """Import it to its success; the job's result, with its rejects as (line, field, code)."""
        job_id = await self.submit(content, kind, **given)
        row = await self.migrating.finish(job_id)
        assert row.state == "succeeded", await self.migrating.error(job_id)
        result = await self.migrating.result(job_id)
        rejects = await self.migrating.rejects(job_id)
        return result | {"rejects": [(r.line, r.field, r.code) for r in rejects], "job": job_id}

    async def refused(
        self, content: str | bytes | UUID, kind: str = "movements", **given: Any
    ) -> dict[str, Any]:
        """Import it to its death; the error."""
        job_id = await self.submit(content, kind, **given)
        row = await self.migrating.finish(job_id)
        assert row.state == "dead", row.state
        return await self.migrating.error(job_id) | {"job": job_id}

    async def fetch(self, query: str, **binds: Any) -> list[tuple[Any, ...]]:
        """Rows as tuples."""
        return [tuple(row) for row in await fetch(self.migrating.app, query, **binds)]

    async def staged(self) -> int:
        """How many lines are staged, of any import."""
        total = 0
        for table in ("movements", "items", "documents"):
            query = f"SELECT count(*) FROM books.import_{table}"
            total += int(await scalar(self.migrating.app, query) or 0)
        return total


async def open_importing(
    migrating: Migrating, endpoint: str, patch: pytest.MonkeyPatch
) -> Importing:
    """A bucket of this test's own, items A to D and two periods."""
    bucket = f"t-{secrets.token_hex(6)}"
    ensure_bucket(endpoint, bucket)
    patch.setenv("CHOT_FILES_BUCKET", bucket)
    for statement in SEED:
        await execute(migrating.owner, statement)
    return Importing(migrating=migrating, bucket=bucket)


def packed(content: str) -> bytes:
    """The text as .gz."""
    return gzip.compress(content.encode())


def workbook(rows: Iterable[Any], **options: Any) -> bytes:
    """The rows as .xlsx: texts as texts, numbers as numbers; (formula, value) as a formula."""
    target = io.BytesIO()
    book: Any = Workbook(target, {"in_memory": True, **options})
    sheet = book.add_worksheet("Data")
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if isinstance(cell, tuple):
                sheet.write_formula(number, column, cell[0], None, cell[1])
            elif isinstance(cell, str):
                sheet.write_string(number, column, cell)
            elif cell is not None:
                sheet.write(number, column, cell)
    book.close()
    return target.getvalue()

"""Tasks that import a file: download it, read it line by line, stage what is right, merge that.

Reading happens in a child process; each portion's rows and refused lines commit with the line that
was read last, so that an attempt goes on behind it. Merging is the runner's, batch by batch.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING
from shared.database import driver_connection
from shared.errors import PermanentError, RetryableError
from shared.migrations import TaskSpec
from shared.migrations.imports import (
    IMPORT_DOCUMENTS,
    IMPORT_ITEMS,
    IMPORT_MOVEMENTS,
    IMPORT_OPENINGS,
    ImportParams,
)
from shared.s3 import ObjectGone, StorageUnavailable, open_s3
from shared.settings import FilesSettings, load
from shared.uploads import Upload, expire_upload, find_upload
from worker.imports.layouts import LAYOUTS
from worker.imports.problems import FileRefused, LineProblem
from worker.imports.reading import Order, Portion, begin, take
from worker.migrations.task import Applied, Batch, Preparation, Reject, Run, Source, Task
from worker.records.import_documents import merge_documents
from worker.records.import_items import merge_items
from worker.records.import_movements import merge_movements
from worker.records.import_verdicts import NUMBERED, PLACED, Identity

PORTION_LINES = 20_000
REMOVED_ROWS = 50_000
REMOVE = {
    "import_movements": text("""
        DELETE FROM books.import_movements
         WHERE ctid = ANY(ARRAY(SELECT ctid FROM books.import_movements
                                 WHERE job_id = :job_id LIMIT :most))"""),
    "import_items": text("""
        DELETE FROM books.import_items
         WHERE ctid = ANY(ARRAY(SELECT ctid FROM books.import_items
                                 WHERE job_id = :job_id LIMIT :most))"""),
    "import_documents": text("""
        DELETE FROM books.import_documents
         WHERE ctid = ANY(ARRAY(SELECT ctid FROM books.import_documents
                                 WHERE job_id = :job_id LIMIT :most))"""),
}
Merge = Callable[[AsyncConnection, Batch], Awaitable[Applied]]


class ImportTask(Task):
    """One kind of file; `merge` writes a batch of its staged lines."""

    def __init__(
        self, spec: TaskSpec, merge: Merge, *, writes: Sequence[str], largest_batch: int
    ) -> None:
        self.spec = spec
        self.writes = writes
        self.largest_batch = largest_batch
        self._layout = LAYOUTS[spec.name.removeprefix("import.")]
        self._table = self._layout.table
        self._merge = merge

    def source(self, run: Run) -> Source:
        """The staged lines of the run, in the order of the file."""
        return Source(table=f"books.{self._table}", key=("line",), fixed={"job_id": run.job_id})

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Merge these lines."""
        return await self._merge(conn, batch)

    async def prepare(self, preparation: Preparation) -> None:
        """Stage the file's lines; see the module.

        PermanentError for a file that is not there or cannot be read, with nothing merged.
        """
        state = dict(preparation.run.state or {"line": 0, "lines": 0, "refused": 0})
        if state.get("ended"):
            return
        params = preparation.run.params
        assert isinstance(params, ImportParams), "its spec says so"
        upload = await _required(preparation, params)
        with TemporaryDirectory(prefix="chot-import-") as directory:
            path = Path(directory) / "file"
            try:
                await _download(upload, path)
            except ObjectGone as error:
                await _forget(preparation, upload)
                raise PermanentError(
                    f"FILE_GONE: file {upload.name} is not in its bucket any more: send it again, "
                    "and import what is sent",
                    code="FILE_GONE",
                ) from error
            try:
                await self._stage(preparation, params, path, state)
            except FileRefused as refused:
                raise PermanentError(f"{refused} (file {upload.name})", code=refused.code) from None

    async def _stage(
        self, preparation: Preparation, params: ImportParams, path: Path, state: dict[str, Any]
    ) -> None:
        order = _order(self._layout.name, preparation.run, params, path, after=state["line"])
        state["columns"] = await preparation.context.offload(begin, order)
        async with aclosing(_portions(preparation, order)) as portions:
            await self._stage_all(preparation, portions, state)

    async def _stage_all(
        self, preparation: Preparation, portions: AsyncIterator[Portion], state: dict[str, Any]
    ) -> None:
        async for portion in portions:
            state |= {
                "line": portion.line,
                "lines": state["lines"] + portion.lines,
                "refused": state["refused"] + portion.refused,
                "ended": portion.ended,
            }
            async with preparation.transaction() as tx:
                await self._copy(tx.connection, portion)
                await preparation.reject(tx, _rejects(portion.problems))
                await preparation.save(tx, state)
            preparation.progress(0, None, unit="rows", message=_how_far(state, portion))
            await preparation.between()

    async def _copy(self, conn: AsyncConnection, portion: Portion) -> None:
        if not portion.rows:
            return
        driver = await driver_connection(conn)
        await driver.copy_to_table(
            self._table,
            schema_name="books",
            columns=["job_id", "line", *self._layout.staged, "said"],
            source=BytesIO(portion.copy),
            format="text",
        )

    async def clean(self, conn: AsyncConnection, run: Run) -> bool:
        """Remove some of the staged lines."""
        statement = REMOVE[self._table]
        done = await conn.execute(statement, {"job_id": run.job_id, "most": REMOVED_ROWS})
        return done.rowcount < REMOVED_ROWS


async def _portions(preparation: Preparation, order: Order) -> AsyncGenerator[Portion, None]:
    """The file's portions; while one is staged the next is read. Closing it ends that."""

    def read() -> asyncio.Task[Portion]:
        taken = preparation.context.offload(take, order.path, PORTION_LINES)
        return asyncio.create_task(taken, name="read a portion")

    reading = read()
    try:
        while not (portion := await reading).ended:
            reading = read()
            yield portion
        yield portion
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _how_far(state: Mapping[str, Any], portion: Portion) -> str:
    """In words: rows are counted as they are merged, and progress never goes backwards."""
    whole = round(state["lines"] / portion.share) if portion.share else state["lines"]
    return f"reading the file: {state['lines']:,} of about {whole:,} lines"


def _order(layout: str, run: Run, params: ImportParams, path: Path, *, after: int) -> Order:
    return Order(
        path=str(path),
        layout=layout,
        job_id=str(run.job_id),
        company=run.company,
        after_line=after,
        delimiter=params.delimiter,
        encoding=params.encoding,
        decimal=params.decimal,
        date_order=params.date_order,
        sheet=params.sheet,
        head_line=params.head_line,
        ignore_others=params.other_columns == "ignore",
    )


async def _required(preparation: Preparation, params: ImportParams) -> Upload:
    """The file, of the very company and brand that the run is of: rights end there."""
    run = preparation.run
    async with preparation.context.read() as conn:
        upload = await find_upload(conn, params.file, EVERYTHING)
    if upload is None or (upload.company, upload.brand) != (run.company, run.brand):
        whose = run.company if run.brand is None else f"{run.company}, brand {run.brand}"
        raise PermanentError(
            f"FILE_UNKNOWN: {params.file} is no file of company {whose}, or it was removed; "
            "files are kept for some days: send it again",
            code="FILE_UNKNOWN",
        )
    return upload


async def _forget(preparation: Preparation, upload: Upload) -> None:
    """Let nobody find it: the same bytes sent again are a new file, not this one without any."""
    async with preparation.transaction() as tx:
        await expire_upload(tx.connection, upload.id)


async def _download(upload: Upload, path: Path) -> None:
    """The file onto the disk, if it is what was sent; ObjectGone."""
    bucket = load(FilesSettings).files_bucket
    if bucket is None:
        raise PermanentError(
            "STORAGE_UNSET: CHOT_FILES_BUCKET is not set where this worker runs",
            code="STORAGE_UNSET",
        )
    digest = hashlib.sha256()
    try:
        async with open_s3(bucket) as s3:
            client = await s3.connected()
            with path.open("wb") as target:
                async for chunk in client.get(upload.object_key):
                    digest.update(chunk)
                    await asyncio.to_thread(target.write, chunk)
    except StorageUnavailable as error:
        raise RetryableError(f"STORAGE_UNAVAILABLE: {error}") from error
    if digest.digest() != upload.sha256:
        raise RetryableError(f"FILE_CHANGED: what arrived of {upload.name} is not what was sent")


def _rejects(problems: Sequence[LineProblem]) -> list[Reject]:
    """One for each line: what is wrong with it first, and the rest in words."""
    of_line: dict[int, list[LineProblem]] = {}
    for problem in problems:
        of_line.setdefault(problem.line, []).append(problem)
    return [_reject(first, others) for first, *others in of_line.values()]


def _reject(first: LineProblem, others: Sequence[LineProblem]) -> Reject:
    told = [first.rule]
    for other in others:
        value = "" if other.value is None else f" '{other.value}'"
        told.append(f"{other.column or 'the line'}{value} {other.rule}")
    return Reject(
        code=first.code,
        rule="; ".join(told),
        line=first.line,
        field=first.column,
        value=first.value,
    )


def _movements(identity: Identity) -> Merge:
    async def merge(conn: AsyncConnection, batch: Batch) -> Applied:
        return await merge_movements(conn, batch, identity)

    return merge


MIGRATIONS: Sequence[Task] = (
    ImportTask(
        IMPORT_MOVEMENTS,
        _movements(NUMBERED),
        writes=("books.stock_movements",),
        largest_batch=50_000,
    ),
    ImportTask(
        IMPORT_OPENINGS,
        _movements(PLACED),
        writes=("books.stock_movements",),
        largest_batch=50_000,
    ),
    ImportTask(
        IMPORT_ITEMS,
        merge_items,
        writes=("books.items", "books.item_units"),
        largest_batch=20_000,
    ),
    ImportTask(
        IMPORT_DOCUMENTS,
        merge_documents,
        writes=("books.documents", "books.document_lines"),
        largest_batch=500,
    ),
)

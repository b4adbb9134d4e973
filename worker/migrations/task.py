"""Task: what a migration does with a batch of rows, and which rows those are.

Subclass Task, give it a `spec` and a `source`, write `apply`; docs/migrations.md has an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from sqlalchemy import CursorResult, RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.kinds import Payload
from shared.migrations import TaskSpec

if TYPE_CHECKING:
    from worker.context import JobContext
    from worker.fence import FencedTransaction

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run that a batch belongs to. `params` is the task's own model; `state` what prepare()
    has kept.
    """

    job_id: UUID
    fence: int
    company: str
    brand: str | None
    principal: str
    params: Payload
    dry_run: bool
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The rows that a task goes over, as SQL in which `table` is called `r`.

    `key` are columns of the table, NOT NULL; together with those of `fixed` (column → value) they
    must be unique by a valid, immediate index that has no predicate, or the run is refused. `joins`
    follows `FROM table AS r` and must not multiply rows; `where` is a condition over all of them,
    with `binds`. The rows are taken in the order of the key, up to the largest one that is there
    when the run begins.
    """

    table: str
    key: tuple[str, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    joins: str = ""
    where: str = "true"
    binds: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A row that could not be taken, and why. `line` and `field` are of tasks that read a file."""

    code: str
    rule: str
    key: Key | None = None
    line: int | None = None
    field: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of a batch: how many rows by outcome, and those that apply() itself refuses."""

    counts: Mapping[str, int] = field(default_factory=dict)
    rejects: Sequence[Reject] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What check() has found. `problems` are sentences: a run with some after it is no success."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """So many `rows` of the source, those after `key_from` up to and with `key_to`.

    `source` and `where` are the SQL that selects them: a statement passed to execute() or fetch()
    may say `{source}` and `{where}`.
    """

    run: Run
    rows: int
    key_from: Key | None
    key_to: Key
    source: str
    where: str
    binds: Mapping[str, Any]

    async def execute(
        self, conn: AsyncConnection, statement: str, **binds: Any
    ) -> CursorResult[Any]:
        """Run a statement over the batch's rows."""
        filled = statement.replace("{source}", self.source).replace("{where}", self.where)
        return await conn.execute(text(filled), {**self.binds, **binds})

    async def fetch(self, conn: AsyncConnection, columns: str) -> Sequence[RowMapping]:
        """These columns (SQL over `r` and the joins) of the batch's rows, in no order."""
        statement = f"SELECT {columns} FROM {{source}} WHERE {{where}}"
        return (await self.execute(conn, statement)).mappings().all()


class Preparation(Protocol):
    """What prepare() works with."""

    @property
    def context(self) -> "JobContext":
        """The attempt: its `offload()`, `read()` and lease."""

    @property
    def run(self) -> Run:
        """The run; `state` is as of the last save()."""

    def transaction(self) -> AbstractAsyncContextManager["FencedTransaction"]:
        """A fenced transaction of the run. What it writes stays, in a dry run too."""

    async def save(self, tx: "FencedTransaction", state: Mapping[str, Any]) -> None:
        """Keep a JSON object with the transaction: the next attempt finds it in `run.state`."""

    async def reject(self, tx: "FencedTransaction", rejects: Sequence[Reject]) -> None:
        """Keep rows that cannot be taken; PermanentError once there are more than may be."""

    def progress(self, done: int, total: int | None, *, unit: str, message: str = "") -> None:
        """Say how far it is."""

    async def between(self) -> None:
        """Call it between two transactions: a pause, a drain or the interrupt ends the attempt."""


class Task(ABC):
    """A migration. One object serves all of its runs: it keeps nothing between calls.

    `writes` are further tables that apply() writes; while one of them, or the source's, is being
    vacuumed the run waits. No batch is larger than `largest_batch`.
    """

    spec: TaskSpec
    writes: Sequence[str] = ()
    largest_batch: int = 50_000

    @abstractmethod
    def source(self, run: Run) -> Source:
        """Which rows; called anew by each attempt, and must answer the same for the same run."""

    @abstractmethod
    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Do it to the batch's rows, set-based, through `conn` alone.

        Committed with the cursor, so that each row is done once. It should be idempotent all the
        same: a later run may go over rows that an earlier one has done. What it raises for the data
        of one row costs that row alone: the batch is halved until that row is found.
        """

    async def prepare(self, preparation: Preparation) -> None:
        """Make the rows that there is to go over; before the upper bound is taken.

        Resumable: an attempt that ends in it is followed by one that calls it again.
        """
        del preparation

    async def check(self, conn: AsyncConnection, run: Run) -> Check | None:
        """Look at the data before the first batch and after the last one; `conn` only reads."""
        del conn, run
        return None

    async def clean(self, conn: AsyncConnection, run: Run) -> bool:
        """Remove some of what prepare() has made, once the run is over; True: nothing is left.

        Called again, in a transaction of its own, until it says so.
        """
        del conn, run
        return True

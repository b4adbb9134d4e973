"""The code of the probe tasks. None is idempotent, on purpose: what is done twice must show."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.probes.migration_tasks import (
    BY_BOTH,
    BY_TIME,
    DOUBLED,
    NULLABLE,
    PREPARED,
    RAISE,
    SLOW_BOUNDARY,
    Raise,
)
from worker.migrations.task import (
    Applied,
    Batch,
    Check,
    Preparation,
    Reject,
    Run,
    Source,
    Task,
)

TABLE = "probe.rows"
ADD = """
    UPDATE probe.rows t SET count = t.count + :by / CASE t.name WHEN 'bad' THEN 0 ELSE 1 END
      FROM {source} CROSS JOIN (SELECT pg_sleep(:seconds)) AS slow
     WHERE {where} AND t.id = r.id"""
SUM = text("SELECT count(*) AS rows, coalesce(sum(count), 0)::bigint AS sum FROM probe.rows")


class RaiseRows(Task):
    """Adds to each row."""

    spec = RAISE

    def source(self, run: Run) -> Source:
        """All rows of the company, by id."""
        return Source(table=TABLE, key=("id",), fixed={"company": run.company})

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """In one statement."""
        params = batch.run.params
        by, seconds = (params.by, params.seconds) if isinstance(params, Raise) else (1, 0.0)
        done = await batch.execute(conn, ADD, by=by, seconds=seconds)
        return Applied(counts={"raised": done.rowcount})

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """The sum of all."""
        row = (await conn.execute(SUM)).mappings().one()
        problems = ["the sum is odd"] if row["sum"] % 2 and not run.dry_run else []
        return Check(facts=dict(row), problems=problems)


class ByTime(RaiseRows):
    """By a key that is not unique."""

    spec = BY_TIME

    def source(self, run: Run) -> Source:
        """All rows share one time."""
        return Source(table=TABLE, key=("at",), fixed={"company": run.company})


class ByBoth(RaiseRows):
    """By a key that is unique thanks to its last part."""

    spec = BY_BOTH

    def source(self, run: Run) -> Source:
        """By time, then id."""
        return Source(table=TABLE, key=("at", "id"), fixed={"company": run.company})


class SlowBoundary(RaiseRows):
    """Each row that is looked at takes 20 ms."""

    spec = SLOW_BOUNDARY

    def source(self, run: Run) -> Source:
        """A condition that no index helps with."""
        return Source(
            table=TABLE,
            key=("id",),
            fixed={"company": run.company},
            where="probe.looked_at(r.id, 0.02)",
        )


class Doubled(RaiseRows):
    """Each row comes twice."""

    spec = DOUBLED

    def source(self, run: Run) -> Source:
        """Its join has two rows for each."""
        return Source(
            table=TABLE,
            key=("id",),
            fixed={"company": run.company},
            joins="CROSS JOIN (VALUES (1), (2)) AS twice (n)",
        )


class Nullable(RaiseRows):
    """A part of its key may be NULL."""

    spec = NULLABLE

    def source(self, run: Run) -> Source:
        """The name has no NOT NULL."""
        return Source(table=TABLE, key=("name", "id"), fixed={"company": run.company})


class Prepared(RaiseRows):
    """Stages its rows line by line, sets some aside, and removes what it has staged."""

    spec = PREPARED

    def source(self, run: Run) -> Source:
        """What prepare() has staged."""
        return Source(table="probe.staged", key=("line",), fixed={"job_id": run.job_id})

    async def prepare(self, preparation: Preparation) -> None:
        """Ten lines in each transaction, every tenth of them bad."""
        line = (preparation.run.state or {"line": 0})["line"]
        while line < 50:
            async with preparation.transaction() as tx:
                await tx.connection.execute(
                    text("""
                        INSERT INTO probe.staged (job_id, line)
                        SELECT :job_id, n FROM generate_series(CAST(:a AS int), :b) AS n
                         WHERE n % 10 <> 0"""),
                    {"job_id": preparation.run.job_id, "a": line + 1, "b": line + 10},
                )
                bad = Reject(code="NOT_A_NUMBER", rule="is none", line=line + 10, field="qty")
                await preparation.reject(tx, [bad])
                line += 10
                await preparation.save(tx, {"line": line})
            await preparation.between()

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Counts; every line that ends in 5 is refused by the task itself."""
        lines = [row["line"] for row in await batch.fetch(conn, "r.line")]
        refused = [line for line in lines if line % 10 == 5]
        rejects = [
            Reject(code="ENDS_IN_5", rule="must not", key=(str(n),), line=n) for n in refused
        ]
        await batch.execute(
            conn,
            """UPDATE probe.staged t SET done = t.done + 1 FROM {source}
                WHERE {where} AND t.job_id = r.job_id AND t.line = r.line""",
        )
        return Applied(counts={"created": len(lines) - len(refused)}, rejects=rejects)

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """Nothing to look at."""
        del conn, run
        return Check()

    async def clean(self, conn: AsyncConnection, run: Run) -> bool:
        """Some rows at a time."""
        gone = await conn.execute(
            text("""
                DELETE FROM probe.staged WHERE (job_id, line) IN (
                    SELECT job_id, line FROM probe.staged WHERE job_id = :job_id LIMIT 20)"""),
            {"job_id": run.job_id},
        )
        return gone.rowcount < 20


MIGRATIONS = (
    RaiseRows(),
    ByTime(),
    ByBoth(),
    SlowBoundary(),
    Doubled(),
    Nullable(),
    Prepared(),
)

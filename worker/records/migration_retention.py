"""Runs of migrations whose jobs have gone into the archive are removed, with all they have kept.

The job's result, which the archive keeps, has what became of the run and its first rejects.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

# A run has no more than 100,000 rejects and 500 batches: one of them is one transaction.
REMOVE_RUN = text("""
    WITH old AS (
        SELECT m.job_id FROM chot.migration_runs m
         WHERE NOT EXISTS (SELECT FROM chot.jobs j WHERE j.id = m.job_id)
         ORDER BY m.job_id LIMIT 1)
    DELETE FROM chot.migration_runs m USING old WHERE m.job_id = old.job_id
    RETURNING m.job_id""")


async def remove_run(engine: AsyncEngine) -> bool:
    """Remove one such run; False: there is none. `engine` is in autocommit."""
    async with engine.connect() as conn:
        return (await conn.execute(REMOVE_RUN)).one_or_none() is not None

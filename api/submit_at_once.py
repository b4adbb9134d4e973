"""A submit as one statement: chot.submit() does in its own transaction what the steps of
api/submission.py do in one of ours, one round trip instead of seven.
"""

import json
from typing import Any

import asyncpg

from api.idempotency import DIGEST_VERSION, Answer, Asked, InProgress, KeyReused, answered
from api.pending import Admission
from api.resources import Resources
from shared.audit import acting
from shared.jobs.enqueue import Submit, payload_text, refusal_of
from shared.json_text import to_json
from shared.tracing import current_trace, spans
from shared.types import JobId

SUBMIT = """
    SELECT met, status, headers, body, job_id, created, request_digest, version
      FROM chot.submit($1::text, $2::text, $3::text, $4::text, $5::text, $6::text,
                       $7::text::jsonb, $8::timestamptz, $9::integer, $10::integer, $11::text,
                       $12::text, $13::integer, $14::text, $15::text, $16::bigint, $17::bytea,
                       $18::integer, $19::integer)"""
WRONG_ISOLATION = "CH004"  # that of the sessions by default; a transaction of ours says its own


async def submit_at_once(
    resources: Resources, job: Submit, asked: Asked | None, admission: Admission
) -> Answer | InProgress | KeyReused | None:
    """Submit and commit, or find what is stored under the key; None where this is not the way.

    An act is submitted in steps, since its approval is used up in the same transaction. Raises
    EnqueueRefused and Busy with nothing written, and the driver's errors.
    """
    if resources.kinds[job.kind].approval is not None:
        return None
    try:
        with spans().create(resources.kinds[job.kind].queue):
            (row,) = await resources.at_once(SUBMIT, *_values(resources, job, asked))
    except asyncpg.PostgresError as error:
        if error.sqlstate == WRONG_ISOLATION:
            return None
        raise refusal_of(error) from error
    if row["met"] == "in progress":
        return InProgress()
    if row["met"] == "stored":
        assert asked is not None, "without a key nothing is looked up"
        return answered(asked, row["version"], row["request_digest"], _answer(row, replayed=True))
    if row["created"]:
        admission.made(job)
    return _answer(row, replayed=False)


def _values(resources: Resources, job: Submit, asked: Asked | None) -> tuple[Any, ...]:
    settings = resources.settings
    return (
        *resources.limits_said,
        acting(),
        job.kind,
        job.company,
        job.brand,
        payload_text(job),
        job.run_at,
        job.priority,
        job.max_attempts,
        job.principal,
        job.trace or current_trace(),
        job.payload_version,
        _named(job),
        *(
            (asked.key, asked.lock, asked.digests[DIGEST_VERSION])
            if asked is not None
            else (None, None, None)
        ),
        DIGEST_VERSION,
        settings.idempotency_hours,
    )


def _named(job: Submit) -> str:
    """The members of the answer that say which job was asked for, as they stand in it."""
    return to_json({"kind": job.kind, "company": job.company, "brand": job.brand})[1:-1]


def _answer(row: Any, *, replayed: bool) -> Answer:
    return Answer(
        status=row["status"],
        headers=json.loads(row["headers"]),
        body=row["body"],
        job_id=None if row["job_id"] is None else JobId(row["job_id"]),
        replayed=replayed,
    )

"""Jobs that are acts: who asked for one and who approved it, on the job and in the audit.

What is approved is the work itself, whoever submits it: kind, company, brand and payload, as its
fingerprint tells it from every other one.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import Approval
from shared.audit import Action
from shared.jobs.enqueue import Submit
from shared.json_text import to_json
from shared.types import JobId

# A list of the payload that is longer is told by its length, and a payload by its members' names.
MOST_LISTED = 20
MOST_BYTES = 2_000

FIND_WORK = text("""
    SELECT c.code IS NOT NULL AS company, b.code IS NOT NULL AS brand,
           encode(chot.fingerprint(k.name, CAST(:company AS text), CAST(:brand AS text),
                                   CAST(:payload AS jsonb), k.fingerprint_fields), 'hex') AS print
      FROM chot.kinds k
      LEFT JOIN books.companies c ON c.code = CAST(:company AS text)
      LEFT JOIN books.brands b ON b.company = c.code AND b.code = CAST(:brand AS text)
     WHERE k.name = :kind""")


async def act_target(conn: AsyncConnection, job: Submit) -> str | None:
    """What an approval of this work is of; None where there is no such company, brand or kind."""
    binds = {
        "kind": job.kind,
        "company": job.company,
        "brand": job.brand,
        "payload": job.payload if isinstance(job.payload, str) else to_json(job.payload),
    }
    row = (await conn.execute(FIND_WORK, binds)).one_or_none()
    if row is None or not row.company or (job.brand is not None and not row.brand):
        return None
    return "/".join(filter(None, (job.company, job.brand, row.print)))


def told_of(job: Submit) -> Mapping[str, Any]:
    """What the audit keeps of the work that is approved or asked for, in some hundred bytes."""
    payload = json.loads(job.payload) if isinstance(job.payload, str) else job.payload
    told = {
        name: {"count": len(value)}
        if isinstance(value, list) and len(value) > MOST_LISTED
        else value
        for name, value in payload.items()
        if value is not None
    }
    if len(to_json(told).encode()) > MOST_BYTES:
        return {"kind": job.kind, "members": sorted(told)}
    return {"kind": job.kind, "payload": told}


NOTE_ACT = text("""
    WITH act AS (
        UPDATE chot.jobs j
           SET approver = CAST(:approver AS text), approval_id = CAST(:approval_id AS uuid)
         WHERE j.id = CAST(:job_id AS uuid) AND j.state = 'pending' AND j.approval_id IS NULL
        RETURNING j.id, j.company, j.brand, j.approver, j.approval_id)
    INSERT INTO chot.audit (action, principal, key_id, source, request_id, job_id, target, company,
                            brand, approver, approval_id, facts)
    SELECT CAST(:action AS text), a.principal, a.key_id, a.source, a.request_id, act.id,
           CAST(:target AS text), act.company, act.brand, act.approver, act.approval_id,
           CAST(:facts AS jsonb)
      FROM act CROSS JOIN chot.actor() AS a""")


async def note_act(
    conn: AsyncConnection,
    action: Action,
    job: Submit,
    *,
    job_id: JobId,
    target: str,
    approval: Approval | None,
) -> None:
    """Write who asked for the act, and who approved: on the new job and in the audit.

    In the transaction that has submitted it, so that no worker has seen it without.
    """
    binds = {
        "action": action.value,
        "job_id": job_id,
        "target": target,
        "approver": None if approval is None else approval.approver,
        "approval_id": None if approval is None else approval.id,
        "facts": to_json(dict(told_of(job))),
    }
    noted = await conn.execute(NOTE_ACT, binds)
    assert noted.rowcount == 1, "the job was made in this very transaction"

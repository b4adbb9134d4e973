"""Four eyes: an act that one account asks for and another one has approved.

An approval is for one action on one target, valid for a while and used once, in the transaction of
the act: an act that is refused or rolled back uses none. Whoever gave it cannot use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted
from shared.json_text import to_json

# The acts that can be made to ask for one (CHOT_APPROVALS).
APPROVABLE = frozenset(
    {
        Action.JOB_REDRIVE,
        Action.GROUP_REDRIVE,
        Action.PERIOD_CLOSE,
        Action.PERIOD_REOPEN,
        Action.POSTING_UNPOST,
    }
)


def read_actions(setting: str) -> frozenset[Action]:
    """Actions of a comma-separated setting; ValueError names what can ask for no approval."""
    names = [name for name in (part.strip() for part in setting.split(",")) if name]
    strange = [name for name in names if name not in APPROVABLE]
    if strange:
        known = ", ".join(sorted(APPROVABLE))
        raise ValueError(f"names {strange[0]!r}, which asks for no approval; known: {known}")
    return frozenset(map(Action, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An approval that this transaction has used."""

    id: UUID
    approver: str


class Refused(StrEnum):
    """Why an approval does not count."""

    UNKNOWN = "unknown"  # no approval of this action and target has the id
    USED = "used"
    EXPIRED = "expired"
    OWN = "own"


GIVE_APPROVAL = text(f"""
    WITH given AS (
        INSERT INTO chot.approvals AS p (action, target, company, brand, approver, reason,
                                         expires_at)
        VALUES (:action, :target, CAST(:company AS text), CAST(:brand AS text), :approver,
                CAST(:reason AS text),
                clock_timestamp() + make_interval(mins => CAST(:minutes AS integer)))
        ON CONFLICT (action, target, approver) WHERE used_at IS NULL DO UPDATE
           SET expires_at = excluded.expires_at, reason = excluded.reason
        RETURNING p.*),
    {
    noted(
        Action.APPROVAL_GIVE,
        "given",
        job_id="CASE WHEN given.action LIKE 'job.%' THEN given.target::uuid END",
        target="given.action || ' ' || given.target",
        company="given.company",
        brand="given.brand",
        approval_id="given.id",
        facts="jsonb_strip_nulls(jsonb_build_object('reason', given.reason,"
        " 'job', CAST(:job AS jsonb)))",
    )
}
    SELECT id, action, target, approver, reason, created_at, expires_at FROM given""")


async def give_approval(
    conn: AsyncConnection,
    action: Action,
    target: str,
    *,
    approver: str,
    minutes: int,
    company: str | None = None,
    brand: str | None = None,
    reason: str | None = None,
    job: Mapping[str, Any] | None = None,
) -> RowMapping:
    """Approve one act for so long. Again by the same account: the open one is renewed.

    `job`: what the audit is to tell of the job that the act is. Whether the approver may see the
    target is the caller's to judge.
    """
    assert action in APPROVABLE, f"nothing asks for an approval of {action}"
    binds = {
        "action": action.value,
        "target": target,
        "company": company,
        "brand": brand,
        "approver": approver,
        "reason": reason,
        "minutes": minutes,
        "job": None if job is None else to_json(dict(job)),
    }
    return (await conn.execute(GIVE_APPROVAL, binds)).mappings().one()


# The one statement that decides: of two at once the second waits for the first, and finds it used.
USE_APPROVAL = text("""
    UPDATE chot.approvals SET used_at = clock_timestamp(), used_by = :requester
     WHERE id = :id AND action = :action AND target = :target AND used_at IS NULL
       AND expires_at > clock_timestamp() AND approver <> :requester
    RETURNING id, approver""")
READ_APPROVAL = text("""
    SELECT approver, used_at IS NOT NULL AS used FROM chot.approvals
     WHERE id = :id AND action = :action AND target = :target""")


async def use_approval(
    conn: AsyncConnection, approval_id: UUID, action: Action, target: str, *, requester: str
) -> Approval | Refused:
    """Use the approval in the transaction of its act, before the act; or say why it does not count.

    Where the act is then refused the transaction must be rolled back, or the approval is gone.
    """
    binds = {
        "id": approval_id,
        "action": action.value,
        "target": target,
        "requester": requester,
    }
    used = (await conn.execute(USE_APPROVAL, binds)).one_or_none()
    if used is not None:
        return Approval(id=used.id, approver=used.approver)
    del binds["requester"]
    found = (await conn.execute(READ_APPROVAL, binds)).one_or_none()
    if found is None:
        return Refused.UNKNOWN
    if found.approver == requester:
        return Refused.OWN
    return Refused.USED if found.used else Refused.EXPIRED

"""Approvals as the api asks for them: which act needs one, and why one does not count."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.problems import Problem, ProblemRaised
from api.settings import ApiSettings
from shared.approvals import Approval, Refused, use_approval
from shared.audit import Action

WHY: Mapping[Refused, str] = {
    Refused.UNKNOWN: "no approval of this act on this target has that id",
    Refused.USED: "that approval has been used, and one is good for one act",
    Refused.EXPIRED: "that approval has expired",
    Refused.OWN: "that approval is this account's own; it must be another account's",
}


# A redrive of a group is one of each of its members: whoever must ask for those must ask for it.
IMPLIED_BY: Mapping[Action, Action] = {Action.GROUP_REDRIVE: Action.JOB_REDRIVE}
# Acts that are jobs: who approves one says what he approves, as the job that it is.
OF_JOBS = frozenset({Action.POSTING_UNPOST})


async def use_given(
    conn: AsyncConnection,
    settings: ApiSettings,
    action: Action,
    target: str,
    approval_id: UUID | None,
    *,
    requester: str,
    does: str | None = None,
) -> Approval | Problem | None:
    """Use the approval that the request gave, before the act; None where none is asked for.

    `does`: another act that this one does again, which may ask for it, too. Where the act is then
    refused, or this answers a problem, roll the transaction back.
    """
    if approval_id is None:
        acts = {action, IMPLIED_BY.get(action, action), does}
        needed = not settings.approved_actions.isdisjoint(acts)
        return approval_required(action, target) if needed else None
    used = await use_approval(conn, approval_id, action, target, requester=requester)
    return approval_required(action, target, used) if isinstance(used, Refused) else used


async def require_given(
    conn: AsyncConnection,
    settings: ApiSettings,
    action: Action,
    target: str,
    approval_id: UUID | None,
    *,
    requester: str,
) -> Approval | None:
    """As use_given(), where a problem is raised and so rolls the transaction back."""
    used = await use_given(conn, settings, action, target, approval_id, requester=requester)
    if isinstance(used, Problem):
        raise ProblemRaised(used)
    return used


def approval_required(action: Action, target: str, refused: Refused | None = None) -> Problem:
    """The 403 that says how to get an approval that counts."""
    what = f'"target": "{target}"'
    if action in OF_JOBS:
        what = '"job": {the same kind, company, brand and payload}'
    how = (
        f'another account with role operate sends POST /v1/approvals {{"action": "{action}", '
        f'{what}}}; then send this again with {{"approval": "<its id>"}}'
    )
    detail = how if refused is None else f"{WHY[refused]}: {how}"
    more: dict[str, Any] = {
        "action": action.value,
        "target": target,
        "reason": "missing" if refused is None else refused.value,
    }
    return Problem(slug="approval-required", detail=detail, more=more)

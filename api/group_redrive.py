"""Redrive of a group, in a transaction of the caller's: what its answers mean to a client."""

from typing import assert_never

from sqlalchemy.ext.asyncio import AsyncConnection

from api.group_views import group_active, group_not_found, twin_active
from api.problems import Problem, ProblemRaised
from shared.approvals import Approval
from shared.groups.group import GroupId, WorkActive
from shared.groups.redrive import Again, NotEnded, NothingFailed, Unfit, redrive_group
from shared.groups.renew import Gone, NotCleanedUp


async def redrive_in(conn: AsyncConnection, group_id: GroupId, approval: Approval | None) -> None:
    """Redrive the group in the caller's transaction; ProblemRaised rolls it back."""
    answer = await redrive_group(conn, group_id, approval=approval)
    match answer:
        case Again():
            return
        case None:
            problem = group_not_found(group_id)
        case NotEnded():
            problem = group_active(answer.state)
        case NothingFailed():
            problem = Problem(slug="nothing-to-redrive", detail="every member has succeeded")
        case NotCleanedUp():
            problem = Problem(slug="cleanup-pending", detail=f"{answer}; ask again in a moment")
        case WorkActive():
            problem = twin_active(answer)
        case Gone():
            problem = Problem(slug="members-archived", detail=str(answer))
        case Unfit():
            problem = Problem(slug="payload-outdated", detail=str(answer.refused))
        case _:
            assert_never(answer)
    raise ProblemRaised(problem)

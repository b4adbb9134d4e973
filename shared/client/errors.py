"""What a client may meet, by the type of the api's problem: one class for each, by what it asks of
whoever called.

ChotError
├── StillActive              waited for a job long enough; it goes on
├── Unreachable              no answer in time: whether it was done is not known; `key` asks again
└── ApiError                 the api has answered with a problem
    ├── BadRequest           400, 405, 408, 413, 415: a fault of the client's own
    ├── NotAllowed           401, 403
    ├── NotFound             404
    ├── Conflict             409: the job's state says no
    ├── Refused              422: a value breaks a rule; `errors` says which
    ├── Limited              429, after the client has waited as long as it may
    └── Unavailable          500, 502, 503, 504, likewise; or what answers is no api of ours
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx


class ChotError(Exception):
    """Base of everything the client raises on purpose."""


class Unreachable(ChotError):
    """No answer before the deadline. Whether the request was done is not known.

    `key` is the Idempotency-Key it went out under (None: it has none, and needs none): the same
    call with it finds what became of the first.
    """

    def __init__(self, message: str, *, key: str | None) -> None:
        super().__init__(message)
        self.key = key


class StillActive(ChotError):
    """The job (or the group) has not ended in the time that was given for it; it goes on."""

    def __init__(self, job_id: UUID, state: str, *, what: str = "job") -> None:
        super().__init__(f"{what} {job_id} is still {state}; it goes on")
        self.job_id = job_id
        self.state = state


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One value that breaks a rule; `field` is its path in the request."""

    field: str
    rule: str
    value: str | None


class ApiError(ChotError):
    """The api has answered with a problem (RFC 9457).

    `type` is its stable word, `detail` is for people, `more` has the further members that some
    types have. `key` is the Idempotency-Key that the request went out under.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, key: str | None = None) -> None:
        self.status = status
        self.type = type_of(problem)
        self.title = str(problem.get("title") or f"HTTP {status}")
        self.detail = str(problem.get("detail") or "")
        listed = problem.get("errors")
        self.errors: Sequence[FieldError] = tuple(
            FieldError(
                field=str(each.get("field")), rule=str(each.get("rule")), value=each.get("value")
            )
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, dict)
        )
        self.more = {name: value for name, value in problem.items() if name not in COMMON}
        self.key = key
        super().__init__(f"{self.title}: {self.detail}" if self.detail else self.title)


COMMON = frozenset({"type", "title", "status", "detail", "instance", "errors"})


class BadRequest(ApiError):
    """400, 405, 408, 413, 415: the request itself is at fault."""


class NotAllowed(ApiError):
    """401, 403: the key is none, or lacks the right."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409, 410: the state of what was asked for says no."""


class Refused(ApiError):
    """422: a value breaks a rule; `errors` says which."""


class Limited(ApiError):
    """429, after waiting."""


class Unavailable(ApiError):
    """500, 502, 503, 504, after waiting; another `status` where the answer is none of an api."""


class Unauthorized(NotAllowed):
    """The key is unknown, expired or revoked."""


class Forbidden(NotAllowed):
    """The account lacks the role; `more` has `role` and `route`."""


class ApprovalRequired(NotAllowed):
    """Another account has to approve this first."""


class KeyMissing(BadRequest):
    """The deployment asks for an Idempotency-Key. The client always sends one."""


class TooLarge(BadRequest):
    """The body is larger than the api takes."""


class JobNotFound(NotFound):
    """No job has this id, or it is not this account's to see."""


class QueueNotFound(NotFound):
    """No queue has this name."""


class GroupNotFound(NotFound):
    """No group of this id, or not this account's to see."""


class PeriodNotFound(NotFound):
    """The company has no such period, or it is not this account's."""


class MigrationNotFound(NotFound):
    """No migration of this id, or it is in the archive, or not this account's."""


class DocumentNotFound(NotFound):
    """No such document, or not this account's."""


class EntryNotFound(NotFound):
    """The ledger has no such entry, or not this account's."""


class CostRunNotFound(NotFound):
    """No cost run of this number, or not this account's to see."""


class FileNotFound(NotFound):
    """No file of this id: it has been removed, or is not this account's."""


class KindNotFound(NotFound):
    """No kind has this name."""


class AlertRuleNotFound(NotFound):
    """No alert rule has this name."""


class KeyInProgress(Conflict):
    """Another request under the same key has not ended in all the time there was."""


class TooLate(Conflict):
    """Cancel of a job that has ended otherwise; `more` has its `state` and the `job`."""


class GroupClosed(Conflict):
    """The group takes no more members; `more` has its `state`."""


class GroupEnded(Conflict):
    """Cancel of a group of which nothing is left to be cancelled; `more` has its `outcome`."""


class GroupActive(Conflict):
    """Redrive before the group has ended, or while its join runs; `more` has the `state`."""


class NothingToRedrive(Conflict):
    """Redrive of a group of which nothing has failed."""


class MembersArchived(Conflict):
    """Part of the group is in the archive and cannot be run again."""


class PeriodState(Conflict):
    """Close of a closed period (`more` has the `job_id`), reopening of one that is not closed."""


class LaterPeriodClosed(Conflict):
    """Reopening of a period before the latest closed one; `more` names the later `periods`."""


class CostRunBuilding(Conflict):
    """The cost run has no rows yet; `more` has its `job`."""


class CostRunGone(Conflict):
    """410: the cost run's rows are there no more; `more` has `speaking` and `costs`."""


class NotAPreview(Conflict):
    """Only a preview has differences."""


class MethodChangeRefused(Conflict):
    """An item's costing method cannot change on that day; `more["code"]` says why."""


class DocumentPosted(Conflict):
    """A posted document stays as it is; unpost it first."""


class ChartRefused(Conflict):
    """An account, a role or a posting rule cannot become that; the detail says why."""


class NotDead(Conflict):
    """Redrive of a job that is not dead; `more` has its `state`."""


class CleanupPending(Conflict):
    """The dead job's leftovers have not been removed in all the time there was."""


class TwinActive(Conflict):
    """The same work is active as another job; `more` has the `twin`."""


class PayloadOutdated(Conflict):
    """Today's model refuses the dead job's payload."""


class UnknownKind(Refused):
    """The api knows no kind of this name."""


class InternalKind(Refused):
    """Nobody submits jobs of this kind; the problem names who makes them."""


class UnknownCompany(Refused):
    """No such company, or not this account's."""


class UnknownBrand(Refused):
    """No such brand of the company, or not this account's."""


class KeyReused(Refused):
    """Another body came under this key before; its answer stays."""


class UnknownItem(Refused):
    """No such item of the company."""


class RateLimited(Limited):
    """The account asks too often."""


class TooManyPending(Limited):
    """Too many jobs of this kind wait already."""


TYPES: Mapping[str, type[ApiError]] = {
    "missing-idempotency-key": KeyMissing,
    "too-large": TooLarge,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "approval-required": ApprovalRequired,
    "job-not-found": JobNotFound,
    "queue-not-found": QueueNotFound,
    "cost-run-not-found": CostRunNotFound,
    "file-not-found": FileNotFound,
    "document-not-found": DocumentNotFound,
    "entry-not-found": EntryNotFound,
    "document-posted": DocumentPosted,
    "chart-refused": ChartRefused,
    "cost-run-building": CostRunBuilding,
    "cost-run-gone": CostRunGone,
    "not-a-preview": NotAPreview,
    "method-change-refused": MethodChangeRefused,
    "kind-not-found": KindNotFound,
    "alert-rule-not-found": AlertRuleNotFound,
    "group-not-found": GroupNotFound,
    "period-not-found": PeriodNotFound,
    "migration-not-found": MigrationNotFound,
    "idempotency-key-in-progress": KeyInProgress,
    "too-late": TooLate,
    "not-dead": NotDead,
    "cleanup-pending": CleanupPending,
    "twin-active": TwinActive,
    "group-closed": GroupClosed,
    "group-ended": GroupEnded,
    "group-active": GroupActive,
    "nothing-to-redrive": NothingToRedrive,
    "members-archived": MembersArchived,
    "period-state": PeriodState,
    "later-period-closed": LaterPeriodClosed,
    "payload-outdated": PayloadOutdated,
    "unknown-kind": UnknownKind,
    "internal-kind": InternalKind,
    "unknown-company": UnknownCompany,
    "unknown-brand": UnknownBrand,
    "unknown-item": UnknownItem,
    "idempotency-key-reused": KeyReused,
    "rate-limited": RateLimited,
    "too-many-pending": TooManyPending,
}
STATUSES: Mapping[int, type[ApiError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: Conflict,
    422: Refused,
    429: Limited,
}


def type_of(problem: Mapping[str, Any]) -> str:
    """The stable word of a problem document; empty where it has none."""
    return str(problem.get("type") or "").rpartition("/")[2]


def error_of(status: int, problem: Mapping[str, Any], *, key: str | None = None) -> ApiError:
    """The error for a problem; a type that this client does not know is told by its status."""
    by_status = STATUSES.get(status, Unavailable if status >= 500 else BadRequest)
    return TYPES.get(type_of(problem), by_status)(status, problem, key=key)


def error_of_answer(answer: httpx.Response, *, key: str | None) -> ApiError:
    """The error for an answer that is no success; one without a problem is told by its status."""
    try:
        problem = answer.json()
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"title": f"HTTP {answer.status_code} without a problem document"}
    return error_of(answer.status_code, problem, key=key)


def no_answer_of_ours(answer: httpx.Response, why: str, *, key: str | None = None) -> Unavailable:
    """The error for a success that says nothing a client could go by."""
    return Unavailable(
        answer.status_code, {"title": "The answer is none of a Chốt api", "detail": why}, key=key
    )

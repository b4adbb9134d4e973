"""Errors as RFC 9457 problem+json: the only place where a status meets a name of the domain.

The types are names, stable for ever, under a host that is reserved and resolves nowhere
(RFC 2606); docs/http.md explains each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.responses import Response

from api.wording import rule_of
from shared.json_text import to_json

TYPE_BASE = "https://chot.example/problems/"
MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 20
# Where a request breaks more rules than this, they are counted and not looked at one by one: its
# sender pays a few bytes for each, and whoever answers it would pay a thousand times as much.
MOST_READ = 100
LONGEST_VALUE = 100

# slug → (status, title). A slug is never renamed and never changes its status.
PROBLEMS: Mapping[str, tuple[int, str]] = {
    "malformed-json": (400, "The body is not acceptable JSON"),
    "missing-idempotency-key": (400, "An Idempotency-Key is required"),
    "malformed-idempotency-key": (400, "The Idempotency-Key header is malformed"),
    "bad-request": (400, "The request is malformed"),
    "unauthorized": (401, "A valid bearer token is required"),
    "forbidden": (403, "The account lacks the right"),
    "approval-required": (403, "Another account has to approve this"),
    "not-found": (404, "There is nothing under this address"),
    "job-not-found": (404, "There is no such job"),
    "queue-not-found": (404, "There is no such queue"),
    "kind-not-found": (404, "There is no such kind"),
    "alert-rule-not-found": (404, "There is no such alert rule"),
    "group-not-found": (404, "There is no such group"),
    "cost-run-not-found": (404, "There is no such cost run"),
    "document-not-found": (404, "There is no such document"),
    "entry-not-found": (404, "There is no such ledger entry"),
    "file-not-found": (404, "There is no such file"),
    "period-not-found": (404, "There is no such period"),
    "migration-not-found": (404, "There is no such migration"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "body-too-slow": (408, "The body did not arrive in time"),
    "idempotency-key-in-progress": (409, "A request with this Idempotency-Key is in progress"),
    "too-late": (409, "The job has already ended"),
    "not-dead": (409, "The job is not dead"),
    "cleanup-pending": (409, "The dead job's leftovers are still being removed"),
    "twin-active": (409, "The same work is active as another job"),
    "group-closed": (409, "The group takes no more members"),
    "group-ended": (409, "The group has already ended"),
    "group-active": (409, "The group has not ended, or its join is running"),
    "nothing-to-redrive": (409, "Nothing of the group has failed"),
    "members-archived": (409, "Part of the group is in the archive"),
    "period-state": (409, "The period is not in the state for this"),
    "document-posted": (409, "The document is posted"),
    "later-period-closed": (409, "A later period is closed"),
    "payload-outdated": (409, "The payload does not fit today's model of its kind"),
    "method-change-refused": (409, "The costing method cannot change on that day"),
    "chart-refused": (409, "The chart does not take that"),
    "cost-run-building": (409, "The cost run is still being computed"),
    "not-a-preview": (409, "The cost run is no preview"),
    "cost-run-gone": (410, "The cost run's rows are not there any more"),
    "too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body must be application/json, not encoded"),
    "invalid-request": (422, "The request breaks a rule"),
    "unknown-kind": (422, "The kind is unknown"),
    "internal-kind": (422, "Jobs of this kind are not submitted"),
    "unknown-company": (422, "The company is unknown"),
    "unknown-brand": (422, "The brand is no brand of this company"),
    "unknown-item": (422, "The item is unknown"),
    "idempotency-key-reused": (422, "The Idempotency-Key was used for another request"),
    "rate-limited": (429, "The account asks too often"),
    "too-many-pending": (429, "Too many jobs of this kind wait already"),
    "internal-error": (500, "Something is wrong on our side"),
    "busy": (503, "Another transaction holds the row"),
    "database-unavailable": (503, "The database cannot be reached"),
    "storage-unavailable": (503, "Files cannot be stored or read"),
    "starting": (503, "The api is starting"),
    "overloaded": (503, "The api has too much to do"),
}
RETRY_AFTER_SECONDS: Mapping[str, int] = {
    "body-too-slow": 1,
    "idempotency-key-in-progress": 1,
    "cleanup-pending": 5,
    "rate-limited": 1,
    "too-many-pending": 5,
    "busy": 1,
    "database-unavailable": 2,
    "storage-unavailable": 2,
    "starting": 2,
    "overloaded": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One value that breaks a rule; `field` is its path in the request, `value` shortened."""

    field: str
    rule: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One occurrence of a problem; `more` are extension members of its body.

    `after` is its own Retry-After (whole seconds), where that of its type is not the truth.
    """

    slug: str
    detail: str
    errors: Sequence[FieldError] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status of this type."""
        return PROBLEMS[self.slug][0]

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the unchanged request may be sent again; None: do not."""
        return self.after or RETRY_AFTER_SECONDS.get(self.slug)


class ProblemRaised(Exception):
    """Ends a request with this problem; a transaction it leaves is rolled back."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.slug, problem.detail)
        self.problem = problem


def problem_response(problem: Problem, request_id: str) -> Response:
    """The answer; `instance` names this occurrence as the access log does."""
    headers = dict(problem.headers)
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    body = problem_body(problem, instance=f"urn:uuid:{request_id}")
    return Response(to_json(body).encode(), problem.status, headers, media_type=MEDIA_TYPE)


def problem_body(problem: Problem, **members: str) -> dict[str, Any]:
    """The members of a problem document; `members` come after those of every problem."""
    body: dict[str, Any] = {
        "type": TYPE_BASE + problem.slug,
        "title": PROBLEMS[problem.slug][1],
        "status": problem.status,
        "detail": problem.detail,
        **members,
    }
    if problem.errors:
        body["errors"] = [
            {"field": each.field, "rule": each.rule, "value": each.value}
            for each in problem.errors[:MOST_ERRORS]
        ]
    return body | dict(problem.more)


def field_problem(slug: str, field_name: str, rule: str, value: Any = None) -> Problem:
    """A problem with one field of the request."""
    error = FieldError(field=field_name, rule=rule, value=shortened(value))
    where = field_name or "the body"
    return Problem(slug=slug, detail=f"{where}: {rule}", errors=(error,))


def invalid_problem(
    details: Sequence[ErrorDetails],
    *,
    slug: str = "invalid-request",
    prefix: str = "",
    model: type[BaseModel] | None = None,
    query: bool = False,
) -> Problem:
    """What pydantic found, as fields, rules and shortened values; `model` is what it checked by.

    All are counted, the first 20 are put into words.
    """
    errors = [
        _field_error(item, prefix, rule_of(item, model, query=query))
        for item in details[:MOST_ERRORS]
    ]
    first = errors[0]
    rest = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    detail = f"{first.field or 'the body'}: {first.rule}{rest}"
    return Problem(slug=slug, detail=detail, errors=errors)


def validation_problem(
    error: ValidationError, model: type[BaseModel], *, prefix: str = ""
) -> Problem:
    """As invalid_problem(), of a whole ValidationError; one of very many errors tells how many."""
    found = error.error_count()
    if found > MOST_READ:
        rule = f"breaks {found:,} rules, and they are told one by one up to {MOST_READ} only"
        return field_problem("invalid-request", prefix, rule)
    return invalid_problem(error.errors(include_url=False), prefix=prefix, model=model)


def _field_error(item: ErrorDetails, prefix: str, rule: str) -> FieldError:
    name = ".".join([prefix, *map(str, item["loc"])]).strip(".")
    whole = item["type"] == "missing"  # its input is the object around it
    value = None if whole else shortened(item["input"])
    return FieldError(field=name, rule=rule, value=value)


def shortened(value: Any) -> str | None:
    """A value as its sender will know it, cut to 100 characters."""
    if value is None:
        return None
    try:
        said = value if isinstance(value, str) else to_json(value)
    except (TypeError, ValueError):
        said = str(value)
    said = said[: LONGEST_VALUE + 1].encode("utf-8", "backslashreplace").decode()
    return said if len(said) <= LONGEST_VALUE else f"{said[: LONGEST_VALUE - 1]}…"

"""Which role each route asks for: one table, and no route passes that is not in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from api.authentication import Caller
from api.gate import facts_of
from api.problems import Problem, ProblemRaised
from shared.access import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a route asks for: a role (None: any account), and whether that of all companies.

    `everywhere` is for what no company owns: half a queue cannot be paused.
    """

    role: Role | None
    everywhere: bool = False

    def allows(self, caller: Caller) -> bool:
        """Whether this caller may use the route at all; whose jobs it sees is its scope's."""
        if self.everywhere and not caller.scope.is_everything:
            return False
        return self.role is None or caller.has(self.role)


ANYBODY = Rule(role=None)
READ, OPERATE = Rule(role=Role.READ), Rule(role=Role.OPERATE)
OPERATE_ALL = Rule(role=Role.OPERATE, everywhere=True)
ADMIN = Rule(role=Role.ADMIN)

# (method, path as routed) → rule. The open paths of the gate come without a caller.
RULES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/docs"): ANYBODY,
    ("GET", "/openapi.json"): ANYBODY,
    ("GET", "/metrics"): Rule(role=Role.READ, everywhere=True),
    ("POST", "/v1/jobs"): Rule(role=Role.SUBMIT),
    ("POST", "/v1/jobs:batch"): Rule(role=Role.SUBMIT),
    ("GET", "/v1/jobs"): READ,
    ("GET", "/v1/jobs/{job_id}"): READ,
    ("GET", "/v1/jobs/{job_id}/events"): READ,
    ("GET", "/v1/jobs/{job_id}/why"): READ,
    ("GET", "/v1/jobs/{job_id}/outcomes"): READ,
    ("POST", "/v1/jobs/{job_id}/cancel"): OPERATE,
    ("POST", "/v1/jobs/{job_id}/redrive"): OPERATE,
    ("POST", "/v1/groups"): Rule(role=Role.SUBMIT),
    ("GET", "/v1/groups/{group_id}"): READ,
    ("POST", "/v1/groups/{group_id}/jobs:batch"): Rule(role=Role.SUBMIT),
    ("POST", "/v1/groups/{group_id}/seal"): Rule(role=Role.SUBMIT),
    ("POST", "/v1/groups/{group_id}/cancel"): OPERATE,
    ("POST", "/v1/groups/{group_id}/redrive"): OPERATE,
    ("GET", "/v1/dead-letters"): OPERATE,
    ("GET", "/v1/dead-letters/causes"): OPERATE,
    ("POST", "/v1/dead-letters/redrive"): OPERATE,
    ("GET", "/v1/queues"): READ,
    ("POST", "/v1/queues/{queue}/pause"): OPERATE_ALL,
    ("POST", "/v1/queues/{queue}/resume"): OPERATE_ALL,
    ("PUT", "/v1/queues/{queue}/weights"): OPERATE_ALL,
    ("GET", "/v1/kinds"): READ,
    ("POST", "/v1/kinds/{kind}/pause"): OPERATE_ALL,
    ("POST", "/v1/kinds/{kind}/resume"): OPERATE_ALL,
    ("GET", "/v1/cost-runs"): READ,
    ("GET", "/v1/cost-runs/{run_id}"): READ,
    ("GET", "/v1/cost-runs/{run_id}/results"): READ,
    ("GET", "/v1/cost-runs/{run_id}/errors"): READ,
    ("GET", "/v1/cost-runs/{run_id}/differences"): READ,
    ("POST", "/v1/cost-runs/{run_id}/exports"): READ,
    ("GET", "/v1/costs"): READ,
    ("GET", "/v1/costing-methods"): READ,
    ("PUT", "/v1/costing-methods"): OPERATE,
    ("POST", "/v1/documents:batch"): Rule(role=Role.SUBMIT),
    ("GET", "/v1/documents"): READ,
    ("GET", "/v1/documents/{document_id}"): READ,
    ("POST", "/v1/documents/{document_id}/void"): OPERATE,
    ("POST", "/v1/ledger/chart"): OPERATE,
    ("GET", "/v1/ledger/accounts"): READ,
    ("PUT", "/v1/ledger/accounts"): OPERATE,
    ("GET", "/v1/ledger/roles"): READ,
    ("PUT", "/v1/ledger/roles"): OPERATE,
    ("GET", "/v1/ledger/rules"): READ,
    ("POST", "/v1/ledger/rules"): OPERATE,
    ("GET", "/v1/ledger/entries"): READ,
    ("GET", "/v1/ledger/entries/{entry_id}"): READ,
    ("GET", "/v1/ledger/entries/{entry_id}/chain"): READ,
    ("GET", "/v1/ledger/trial-balance"): READ,
    ("GET", "/v1/ledger/general-ledger"): READ,
    ("GET", "/v1/ledger/journal"): READ,
    ("GET", "/v1/ledger/control"): READ,
    ("POST", "/v1/ledger/exports"): READ,
    ("POST", "/v1/files"): Rule(role=Role.SUBMIT),
    ("GET", "/v1/files/{file_id}"): READ,
    ("HEAD", "/v1/files/{file_id}"): READ,
    ("DELETE", "/v1/files/{file_id}"): Rule(role=Role.SUBMIT),
    ("GET", "/v1/freezes"): READ,
    ("POST", "/v1/books/freeze"): OPERATE,
    ("POST", "/v1/books/thaw"): OPERATE,
    ("GET", "/v1/periods"): READ,
    ("GET", "/v1/periods/{period}"): READ,
    ("POST", "/v1/periods/{period}/close"): OPERATE,
    ("POST", "/v1/periods/{period}/reopen"): OPERATE,
    ("GET", "/v1/migrations"): READ,
    ("GET", "/v1/migrations/{job_id}"): READ,
    ("GET", "/v1/migrations/{job_id}/rejects"): READ,
    ("POST", "/v1/migrations/{job_id}/pause"): OPERATE,
    ("POST", "/v1/migrations/{job_id}/resume"): OPERATE,
    ("GET", "/v1/limits"): READ,
    ("PUT", "/v1/limits"): OPERATE_ALL,
    ("DELETE", "/v1/limits"): OPERATE_ALL,
    ("GET", "/v1/workers"): READ,
    ("GET", "/v1/alerts"): Rule(role=Role.READ, everywhere=True),
    ("POST", "/v1/alerts/silence"): OPERATE_ALL,
    ("POST", "/v1/approvals"): OPERATE,
    ("GET", "/v1/audit"): ADMIN,
}

# The pages. Who is not logged in gets to the login page by the gate, not by a rule.
PAGES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/ui"): ANYBODY,
    ("GET", "/ui/"): READ,
    ("GET", "/ui/events"): READ,
    ("GET", "/ui/queues"): READ,
    ("GET", "/ui/workers"): READ,
    ("GET", "/ui/kinds"): READ,
    ("POST", "/ui/queues/{queue}/pause"): OPERATE_ALL,
    ("POST", "/ui/queues/{queue}/resume"): OPERATE_ALL,
    ("POST", "/ui/kinds/{kind}/pause"): OPERATE_ALL,
    ("POST", "/ui/kinds/{kind}/resume"): OPERATE_ALL,
    ("GET", "/ui/login"): ANYBODY,
    ("POST", "/ui/login"): ANYBODY,
    ("POST", "/ui/logout"): ANYBODY,
    ("GET", "/ui/static/{name}"): ANYBODY,
    ("GET", "/ui/jobs"): READ,
    ("GET", "/ui/jobs-live"): READ,
    ("GET", "/ui/jobs/{job_id}"): READ,
    ("GET", "/ui/jobs/{job_id}/live"): READ,
    ("GET", "/ui/jobs/{job_id}/outcomes"): READ,
    ("POST", "/ui/jobs/{job_id}/cancel"): OPERATE,
    ("POST", "/ui/jobs/{job_id}/redrive"): OPERATE,
    ("GET", "/ui/dead-letters"): OPERATE,
    ("POST", "/ui/dead-letters/redrive"): OPERATE,
    ("GET", "/ui/runs"): READ,
    ("GET", "/ui/runs/{run_id}"): READ,
    ("POST", "/ui/runs/{run_id}/export"): READ,
    ("GET", "/ui/runs/{run_id}/exports/{job_id}"): READ,
    ("GET", "/ui/runs/{run_id}/exports/{job_id}/live"): READ,
    ("GET", "/ui/files/{file_id}"): READ,
    ("GET", "/ui/simulator"): READ,
    ("GET", "/ui/simulator/trace"): READ,
}


def page_rule(method: str, path: str) -> Rule | None:
    """The rule of a route of the pages; None for one that is not there."""
    return PAGES.get((method, path))


async def refuse_without_right(request: Request) -> None:
    """ProblemRaised unless the caller holds what the route asks for. Of every route, before all.

    A route that nobody gave a rule is closed to everybody, admins included.
    """
    path = getattr(request.scope.get("route"), "path", None)
    asked = (request.method, str(path))
    rule = RULES.get(asked) or PAGES.get(asked)
    if rule is ANYBODY:
        return
    caller = facts_of(request).caller
    if rule is None or caller is None or not rule.allows(caller):
        raise ProblemRaised(forbidden(f"{request.method} {path}", rule))


def forbidden(route: str, rule: Rule | None) -> Problem:
    """The 403 that names the route and the role it asks for; it says nothing about any job."""
    if rule is None or rule.role is None:
        return Problem(slug="forbidden", detail=f"{route} has no rule yet", more={"route": route})
    whose = " of all companies" if rule.everywhere else ""
    more: dict[str, Any] = {"role": rule.role.value, "route": route}
    return Problem(slug="forbidden", detail=f"{route} asks for role {rule.role}{whose}", more=more)

"""A company's chart of accounts, account roles and posting rules: see them, and change them."""

from typing import Annotated

from fastapi import Query, Request, Response

from api.company_wide import refuse_others
from api.cost_pages import refuse_unknown_place
from api.cursors import read_code_cursor, write_code_cursor
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.ledger_bodies import (
    ACCOUNT,
    ROLE,
    RULE,
    TEMPLATE,
    AccountAnswer,
    AccountBody,
    AccountPage,
    AccountsQuery,
    ChartAnswer,
    ChartBody,
    CompanyQuery,
    RoleAnswer,
    RoleBody,
    Roles,
    RuleAnswer,
    RuleBody,
    Rules,
    RulesQuery,
)
from api.ledger_place import refused
from api.ledger_views import account_view, rule_view
from api.parsing import described_body, read_model
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.ledger import chart, rules
from shared.ledger.chart import ChartRefused

router = keyed_router(prefix="/v1/ledger", tags=["ledger"])
WHOLE = "all of its brands share one chart"


@router.post(
    "/chart",
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-company") | {200: {"model": ChartAnswer}},
    openapi_extra=described_body(ChartBody, TEMPLATE),
)
async def adopt(request: Request, resources: Ready, who: Who) -> Response:
    """Give the company the accounts of a template (TT200, TT99); what it has stays as it is."""
    body = await read_model(request, ChartBody)
    refuse_others(request, who, body.company, WHOLE)

    async def act() -> int:
        async with resources.transaction() as conn:
            await refuse_unknown_place(conn, who.scope, body.company, None)
            return await chart.adopt(conn, body.company, body.template)

    try:
        added: int = await resources.finish(act(), name="adopt a chart")
    except ChartRefused as problem:
        raise refused(problem) from None
    return json_response(body.model_dump() | {"added": added})


@router.get(
    "/accounts",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": AccountPage}},
)
async def accounts(
    query: Annotated[AccountsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """List the company's chart of accounts by code."""
    after = "" if query.cursor is None else read_code_cursor(query.cursor, keys=1)[0]
    async with resources.reading() as conn:
        await refuse_unknown_place(conn, who.scope, query.company, None)
        rows = await chart.list_accounts(
            conn, query.company, below=query.below or "", after=after, limit=query.limit + 1
        )
    page = rows[: query.limit]
    more = write_code_cursor(page[-1]["code"]) if len(rows) > query.limit else None
    shown = [account_view(row) for row in page]
    return json_response({"company": query.company, "accounts": shown, "next_cursor": more})


@router.put(
    "/accounts",
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-company", "chart-refused")
    | {200: {"model": AccountAnswer}},
    openapi_extra=described_body(AccountBody, ACCOUNT),
)
async def put_account(request: Request, resources: Ready, who: Who) -> Response:
    """Add an account, or make it what the body says. Repeating it changes nothing."""
    body = await read_model(request, AccountBody)
    refuse_others(request, who, body.company, WHOLE)

    async def act() -> str:
        async with resources.transaction() as conn:
            await refuse_unknown_place(conn, who.scope, body.company, None)
            return await chart.put_account(conn, body.company, body.account)

    try:
        outcome: str = await resources.finish(act(), name="put an account")
    except ChartRefused as problem:
        raise refused(problem) from None
    return json_response(body.model_dump(mode="json") | {"outcome": outcome})


@router.get(
    "/roles",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": Roles}},
)
async def roles(query: Annotated[CompanyQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show which account plays which role."""
    async with resources.reading() as conn:
        await refuse_unknown_place(conn, who.scope, query.company, None)
        rows = await chart.list_roles(conn, query.company)
    names = ("role", "account", "initial", "own", "name")
    shown = [{name: row[name] for name in names} for row in rows]
    return json_response({"company": query.company, "roles": shown})


@router.put(
    "/roles",
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-company", "chart-refused")
    | {200: {"model": RoleAnswer}},
    openapi_extra=described_body(RoleBody, ROLE),
)
async def set_role(request: Request, resources: Ready, who: Who) -> Response:
    """Let an account play a role from now on; what is posted stays where it is."""
    body = await read_model(request, RoleBody)
    refuse_others(request, who, body.company, WHOLE)

    async def act() -> str:
        async with resources.transaction() as conn:
            await refuse_unknown_place(conn, who.scope, body.company, None)
            return await chart.set_role(conn, body.company, body.role, body.account)

    try:
        former: str = await resources.finish(act(), name="set a role")
    except ChartRefused as problem:
        raise refused(problem) from None
    return json_response(body.model_dump() | {"former": former, "changed": former != body.account})


@router.get(
    "/rules",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": Rules}},
)
async def list_rules(query: Annotated[RulesQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show the posting rules: every version of the company's own, and the shared ones behind."""
    async with resources.reading() as conn:
        await refuse_unknown_place(conn, who.scope, query.company, None)
        rows = await rules.list_rules(conn, query.company, query.type)
    return json_response({"company": query.company, "rules": [rule_view(row) for row in rows]})


@router.post(
    "/rules",
    status_code=201,
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-company", "chart-refused")
    | {201: {"model": RuleAnswer}},
    openapi_extra=described_body(RuleBody, RULE),
)
async def add_rule(request: Request, resources: Ready, who: Who) -> Response:
    """Add the next version of a rule. What was posted keeps the version it was posted by."""
    body = await read_model(request, RuleBody)
    refuse_others(request, who, body.company, WHOLE)
    try:
        version = await resources.finish(_added(resources, who, body), name="add a rule")
    except ChartRefused as problem:
        raise refused(problem) from None
    day = {"valid_from": body.valid_from.isoformat(), "version": version}
    return json_response({"company": body.company, "type": body.type} | day, status=201)


async def _added(resources: Resources, who: Who, body: RuleBody) -> int:
    async with resources.transaction() as conn:
        await refuse_unknown_place(conn, who.scope, body.company, None)
        return await rules.add_rule(conn, body.rule)

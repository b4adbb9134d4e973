"""Acts on the books of a whole company, and who has no business with them."""

from fastapi import Request

from api.authentication import Caller
from api.problems import Problem, ProblemRaised, field_problem
from shared.access import Role


def refuse_others(request: Request, who: Caller, company: str, since: str) -> None:
    """ProblemRaised unless the account may act for the whole company.

    Books of others are like none at all; and whoever has some brands only has no company, `since`
    what is asked for reaches further.
    """
    if not who.scope.covers_company(company):
        raise ProblemRaised(unknown_company(company))
    if who.scope.brands is not None:
        route = f"{request.method} {request.scope['route'].path}"
        raise ProblemRaised(not_of_brands(route, since))


def not_of_brands(route: str, since: str) -> Problem:
    """The 403 of an account of some brands only."""
    more = {"role": Role.OPERATE.value, "route": route}
    detail = f"{route} asks for the whole company: {since}"
    return Problem(slug="forbidden", detail=detail, more=more)


def unknown_company(company: str) -> Problem:
    """The 422 of a company that is none, or another account's."""
    return field_problem("unknown-company", "company", "must be the code of a company", company)

"""Ask for a table of a cost run as a file: one job, under its key, of the brand that it is for."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import RowMapping

from api.authentication import Caller
from api.bodies import Code
from api.cost_pages import (
    DIFFERENCES_STAND,
    ERRORS_STAND,
    RESULTS_STAND,
    require_rows,
    required_run,
)
from api.idempotency import Answer, Asked, ask, store_answer
from api.problems import Problem, ProblemRaised, field_problem, validation_problem
from api.resources import Resources
from api.strict_json import parse_object
from api.submission import NOT_YOURS, accepted_answer, begin, refusal_problem
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.exporting import COSTING_EXPORT

ROUTE = "/v1/cost-runs/{run_id}/exports"
STANDS = {"errors": ERRORS_STAND, "differences": DIFFERENCES_STAND}


class ExportBody(BaseModel):
    """Which table of the run, as which file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    table: Literal["results", "stores", "movements", "errors", "differences"]
    format: Literal["csv", "xlsx"]
    digits: int = Field(2, ge=2, le=6, description="digits of unit prices")
    bom: bool = Field(
        default=False, description="CSV begins with a byte order mark: Excel then reads UTF-8"
    )
    brand: Code | None = Field(
        None,
        description="rows of this brand only. null: all that the run has; an account with several "
        "brands names one",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An export as asked for, under its key if there is one; `body` may be a problem with it."""

    run_id: int
    asked: Asked | None
    body: ExportBody | Problem


def read_wish(raw_body: bytes, key: str | None, run_id: int, who: Caller) -> Wish:
    """Everything that is judged without the database; raises Malformed and ProblemRaised."""
    raw = parse_object(raw_body)
    asked = None
    if key is not None:
        route = ROUTE.replace("{run_id}", str(run_id))
        asked = ask(who.principal, key, method="POST", route=route, body=raw)
    try:
        body: ExportBody | Problem = ExportBody.model_validate(raw)
    except ValidationError as error:
        body = validation_problem(error, ExportBody)
    if asked is None and isinstance(body, Problem):
        raise ProblemRaised(body)
    return Wish(run_id=run_id, asked=asked, body=body)


async def export(resources: Resources, wish: Wish, who: Caller) -> Answer:
    """Submit the export once; ProblemRaised with nothing written.

    Only of a run whose rows are there: the job would only die of it later.
    """
    async with resources.reading() as conn:
        run = await required_run(conn, wish.run_id, who)
    job = wish.body if isinstance(wish.body, Problem) else _job(run, wish.body, who)
    jobs = [job] if isinstance(job, Submit) else []
    async with resources.pending.admit(jobs) as admission, resources.transaction() as conn:
        found = None if wish.asked is None else await begin(conn, wish.asked)
        if found is not None:
            return found
        if isinstance(job, Problem):
            raise ProblemRaised(job)
        for no_room in (await admission.beyond(conn)).values():
            raise ProblemRaised(no_room)
        await require_rows(conn, run, _stand(wish.body))
        try:
            accepted = await enqueue(conn, job)
        except EnqueueRefused as refused:
            raise ProblemRaised(refusal_problem(refused, job)) from None
        if accepted.created:
            admission.made(job)
        answer = accepted_answer(job, accepted)
        if wish.asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, wish.asked, answer, hours=hours)
    resources.relay.wake()
    return answer


def _stand(body: ExportBody | Problem) -> frozenset[str]:
    assert isinstance(body, ExportBody), "a problem was raised before"
    return STANDS.get(body.table, RESULTS_STAND)


def _job(run: RowMapping, body: ExportBody, who: Caller) -> Submit:
    payload: dict[str, Any] = {
        "run_id": run["id"],
        "table": body.table,
        "format": body.format,
        "digits": body.digits,
        "bom": body.bom and body.format == "csv",
    }
    return Submit(
        kind=COSTING_EXPORT.name,
        company=run["company"],
        brand=_brand(run, body, who),
        payload=payload,
        principal=who.principal,
        payload_version=COSTING_EXPORT.version,
    )


def _brand(run: RowMapping, body: ExportBody, who: Caller) -> str | None:
    """Whose rows, and by that who may see the job and its file; ProblemRaised beyond the rights.

    Before the key is looked up: who has lost a brand gets no stored answer either.
    """
    brand, scope = body.brand, who.scope
    if run["brand"] is not None:
        if brand not in {None, run["brand"]}:
            rule = "must be that of the run"
            raise ProblemRaised(field_problem("invalid-request", "brand", rule, brand))
        return str(run["brand"])
    if scope.brands is None:
        return brand
    if brand is None and len(scope.brands) > 1:
        rule = "is missing: this account has some brands only"
        raise ProblemRaised(field_problem("invalid-request", "brand", rule))
    if brand is not None and brand not in scope.brands:
        rule = NOT_YOURS["unknown-brand"]
        raise ProblemRaised(field_problem("unknown-brand", "brand", rule, brand))
    return brand or scope.brands[0]

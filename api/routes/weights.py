"""Weights of brands in a queue: how many messages of each round a brand may send."""

from decimal import Decimal
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.dependencies import Ready
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.problems import ProblemRaised, field_problem
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from api.routes.queues import queue_not_found, refuse_strange
from shared.jobs.weights import Weight, set_weights, unknown_of

router = keyed_router(prefix="/v1/queues", tags=["queues"])
MOST_BRANDS = 1000
EXAMPLE = {"weights": [{"company": "SAMPLE", "brand": "LUA", "weight": 3}]}
Code = Annotated[str, Field(min_length=1, max_length=40)]


class WeightBody(BaseModel):
    """A brand's weight."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    brand: Code | None = Field(None, description="null: the company's jobs without a brand")
    weight: Decimal = Field(strict=False, ge=Decimal("0.01"), le=100)


class WeightsBody(BaseModel):
    """All weights that differ from 1; whoever is not named has that."""

    model_config = ConfigDict(extra="forbid", strict=True)

    weights: list[WeightBody] = Field(max_length=MOST_BRANDS)


class WeightsAnswer(BaseModel):
    """The queue's weights as they are now."""

    name: str
    weights: list[dict[str, Any]]


@router.put(
    "/{queue}/weights",
    response_class=Response,
    responses=problems(*OF_A_BODY, "queue-not-found", "unknown-company", "unknown-brand")
    | {200: {"model": WeightsAnswer}},
    openapi_extra=described_body(WeightsBody, EXAMPLE),
)
async def put(queue: str, request: Request, resources: Ready) -> Response:
    """Say how many messages of each round a brand may send; it holds from the next one on."""
    refuse_strange(queue)
    body = await read_model(request, WeightsBody)
    weights = [
        Weight(company=each.company, brand=each.brand, weight=each.weight) for each in body.weights
    ]
    _refuse_twice(weights)
    await resources.finish(_set(resources, queue, weights), name="weights")
    shown = [each.model_dump() for each in body.weights]
    return json_response({"name": queue, "weights": shown})


def _refuse_twice(weights: list[Weight]) -> None:
    seen: set[str] = set()
    for place, each in enumerate(weights):
        if each.key in seen:
            rule = "names a brand that has a weight in this list already"
            problem = field_problem("invalid-request", f"weights.{place}", rule)
            raise ProblemRaised(problem)
        seen.add(each.key)


async def _set(resources: Resources, queue: str, weights: list[Weight]) -> None:
    async with resources.transaction() as conn:
        unknown = await unknown_of(conn, weights)
        if unknown is not None:
            place, field = unknown
            value = getattr(weights[place], field)
            rule = f"must be the code of a {field}" + (" of this company" * (field == "brand"))
            named = f"weights.{place}.{field}"
            raise ProblemRaised(field_problem(f"unknown-{field}", named, rule, value))
        if not await set_weights(conn, queue, weights):
            raise ProblemRaised(queue_not_found(queue))
    resources.relay.wake()

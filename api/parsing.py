"""A request's JSON body as a model, and how /openapi.json describes it."""

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.gate import read_json_body
from api.problems import ProblemRaised, validation_problem
from api.strict_json import parse_object
from shared.json_text import to_json

M = TypeVar("M", bound=BaseModel)


async def read_model(request: Request, model: type[M]) -> M:
    """The body, strictly; ProblemRaised for whatever it is not."""
    raw = parse_object(await read_json_body(request))
    try:
        return model.model_validate_json(to_json(raw))
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, model)) from None


def described_body(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads its body by read_model()."""
    content = {"schema": model.model_json_schema(), "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}

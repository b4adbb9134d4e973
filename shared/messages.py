"""The message: what SQS carries. Never the payload; the database is the truth."""

import json
from dataclasses import dataclass
from uuid import UUID

from shared.errors import PoisonMessage
from shared.types import JobId

LONGEST_BODY = 4096
DEEPEST_NESTING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage:
    """A job is due. `deployment_id` tells our messages from those of a restored copy of us."""

    job_id: JobId
    kind: str
    brand: str | None
    trace: str | None
    deployment_id: UUID

    def to_body(self) -> str:
        """ASCII JSON: SQS refuses some characters that a brand's name might hold."""
        return json.dumps(
            {
                "job_id": str(self.job_id),
                "kind": self.kind,
                "brand": self.brand,
                "trace": self.trace,
                "deployment_id": str(self.deployment_id),
            }
        )


def parse_message(body: str) -> JobMessage:
    """Read a body; PoisonMessage says what is wrong with one that is not ours."""
    if len(body) > LONGEST_BODY:
        raise PoisonMessage(f"body has {len(body)} characters; ours have at most {LONGEST_BODY}")
    if body.count("[") + body.count("{") > DEEPEST_NESTING:
        raise PoisonMessage("body is nested; ours are one flat JSON object")
    try:
        found = json.loads(body, parse_float=str, parse_int=str, parse_constant=str)
    except ValueError as error:
        raise PoisonMessage(f"body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise PoisonMessage(f"body is a JSON {type(found).__name__}; ours are objects")
    return JobMessage(
        job_id=JobId(_uuid(found, "job_id")),
        kind=_string(found, "kind"),
        brand=found.get("brand") and _string(found, "brand"),
        trace=found.get("trace") and _string(found, "trace"),
        deployment_id=_uuid(found, "deployment_id"),
    )


def _string(found: dict[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise PoisonMessage(f"member {name!r} is missing or no string")
    return value


def _uuid(found: dict[str, object], name: str) -> UUID:
    try:
        return UUID(_string(found, name))
    except ValueError:
        raise PoisonMessage(f"member {name!r} is no UUID") from None

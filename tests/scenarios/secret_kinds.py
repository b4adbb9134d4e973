"""A kind whose payload holds a password, and its handler, which fails with it in its hands."""

from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from shared.kinds import Kind, Payload, RetryPolicy
from worker.context import JobContext
from worker.handlers import Handler


class Login(Payload):
    """Log in somewhere."""

    number: int
    password: str
    how: Literal["raise", "validate"]


class Account(BaseModel):
    """What the other side wants: its refusal quotes what it was given."""

    model_config = ConfigDict(strict=True)

    password: int


async def log_in(_context: JobContext, payload: Login) -> Any:
    """Fail as drivers and models do: with the password in a local variable, or quoted."""
    password = payload.password
    if payload.how == "validate":
        Account.model_validate({"password": password})
    raise ConnectionError(f"refused, {len(password)} characters")


KINDS = (
    Kind(
        name="probe.login",
        payload=Login,
        timeout=timedelta(seconds=30),
        retry=RetryPolicy(max_attempts=1),
        fingerprint_fields=("number",),
    ),
)
HANDLERS = (Handler(kind="probe.login", run=log_in),)
